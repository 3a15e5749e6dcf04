"""Output for log lines: a file-like object that never blocks and never fails."""

from __future__ import annotations

import os
import threading
from collections import deque
from io import UnsupportedOperation
from typing import TextIO

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
