"""Structured logs: one event per line, with known secrets masked, written without ever blocking the caller."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable
from io import UnsupportedOperation
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor

MASK = "[secret]"
LAST_LINES_S = 1.0
"""Seconds the process waits at exit for its last lines to be written."""

MAX_WAITING_CHARS = 4_000_000
"""Maximum characters waiting for a slow reader of the log: minutes of a busy server. More are dropped."""


class LogOutput:
    """Takes lines like a file; a thread writes them to `stream`. If nobody reads its pipe, or its disk is full, lines
    are dropped and counted in `lost`, and the caller continues."""

    def __init__(self, stream: TextIO, max_waiting_chars: int = MAX_WAITING_CHARS) -> None:
        self.lost = 0
        self._stream = stream
        self._most = max_waiting_chars
        self._lines: deque[str] = deque()
        self._waiting = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Takes a line. Never waits for the stream, and never raises."""
        with self._changed:
            if self._closed or self._waiting + len(text) > self._most:
                self.lost += 1
                return
            self._lines.append(text)
            self._waiting += len(text)
            self._changed.notify_all()

    def flush(self) -> None:
        """Does nothing: the thread writes as fast as it can. See `drain`."""

    def drain(self, seconds: float) -> bool:
        """Waits until all lines are written or lost, for at most `seconds`; returns whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, seconds)

    def close(self, seconds: float) -> None:
        """Ends the thread after it has written all waiting lines, or after `seconds`."""
        self.drain(seconds)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while lines := self._next():
            is_written = self._put("".join(lines))
            with self._changed:
                self._waiting -= sum(map(len, lines))
                self.lost += 0 if is_written else len(lines)
                self._changed.notify_all()

    def _next(self) -> list[str]:
        """Waits for lines and returns all of them; empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._closed)
            lines = list(self._lines)
            self._lines.clear()
            return lines

    def _put(self, text: str) -> bool:
        """Writes past the stream's buffer, which would keep unwritten text; returns whether all was written."""
        try:
            left = memoryview(text.encode("utf-8", "backslashreplace"))
            file = self._stream.fileno()
            while left:
                left = left[os.write(file, left) :]
        except UnsupportedOperation:
            self._stream.write(text)
        except (OSError, ValueError):
            return False
        return True


_output: LogOutput | None = None


def lost_lines() -> int:
    """Log lines that could not be written since the logs were configured."""
    return 0 if _output is None else _output.lost


def drain_logs() -> None:
    """Waits until all lines are written, for at most `LAST_LINES_S`."""
    if _output is not None:
        _output.drain(LAST_LINES_S)


def _without(secrets: tuple[str, ...]) -> Processor:
    """A processor that masks secrets everywhere, tracebacks included."""

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            for secret in secrets:
                value = value.replace(secret, MASK)
            return value
        if isinstance(value, dict):
            return {clean(key): clean(item) for key, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, list | tuple) else value

    def process(_logger: Any, _method: str, event: EventDict) -> EventDict:
        return {key: clean(value) for key, value in event.items()}

    return process


def _spelt_out(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """A processor that escapes control characters, which could control a terminal; a client may put them into a path.
    Tracebacks keep their line breaks."""

    def spell(text: str, kept: str) -> str:
        return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)

    return {
        key: spell(value, "\n" if key in ("exception", "stack") else "") if isinstance(value, str) else value
        for key, value in event.items()
    }


def configure_logging(
    level: Literal["debug", "info", "warning", "error"],
    form: Literal["auto", "console", "json"],
    secrets: Iterable[str] = (),
) -> None:
    """Sets up structlog, and routes the standard library's loggers through it. Short secrets are not masked: they are
    not keys, and masking them would garble every line."""
    global _output
    if _output is None:
        atexit.register(drain_logs)
    else:
        _output.close(LAST_LINES_S)
    _output = LogOutput(sys.stderr)
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    known = tuple(secret for secret in secrets if len(secret) >= 8)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _without(known),
    ]
    if console:
        shared.append(_spelt_out)
    # Plain tracebacks: rich's would show the values of local variables, which may be a person's text.
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=_output),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(_output)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.getLevelNamesMapping()[level.upper()], logging.WARNING))
