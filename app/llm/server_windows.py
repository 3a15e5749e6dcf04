"""The windows that model servers report: requested once and cached for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from app.errors import PalimpsestError

ASK_TIMEOUT_S = 5.0
"""Timeout in seconds for a server's answer; the first run of a model waits for it."""

BELIEVED_S = 3_600.0
"""How long a reported window is trusted, in seconds. A local server may be restarted with another one."""

ASK_AGAIN_S = 60.0
"""Seconds before a retry after a failure or an answer without a window: a model may still be loading."""

MAX_REMEMBERED = 1_000
"""Maximum models remembered; callers choose the names."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Report:
    """What is known of one model; it is requested again at `until`."""

    window: int | None
    until: float


class ServerWindows:
    """Windows by place, which is a base URL and a model's name there. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, timeout_s: float = ASK_TIMEOUT_S) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._known: dict[str, _Report] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def get(self, place: str) -> int | None:
        """The window in tokens last reported, None if none was."""
        report = self._known.get(place)
        return report.window if report is not None else None

    async def ask(self, place: str, model: str, question: Callable[[], Awaitable[int | None]]) -> None:
        """Asks with `question`, if it is due, and waits for the answer if there was none before. Never raises: without
        an answer the known window is kept. `model` is for the log, since a base URL may contain a secret."""
        report = self._known.get(place)
        if report is not None and self._clock() < report.until:
            return
        task = self._asking.get(place)
        if task is None:
            task = self._asking[place] = asyncio.create_task(self._learn(place, model, question))
        if report is None:
            # Not the task itself: this waiter may be cancelled while others also wait for it.
            await asyncio.wait({task})

    async def aclose(self) -> None:
        """Cancels pending questions."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _learn(self, place: str, model: str, question: Callable[[], Awaitable[int | None]]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                window = await question()
        except Exception as error:
            # Any error: a run must not fail because of this question.
            log.info("window_request_failed", model=model, reason=_reason(error))
            self._remember(place, self.get(place), ASK_AGAIN_S)
        else:
            log.debug("window_reported", model=model, tokens=window)
            if window is None:
                self._remember(place, self.get(place), ASK_AGAIN_S)
            else:
                self._remember(place, window, BELIEVED_S)
        finally:
            del self._asking[place]

    def _remember(self, place: str, window: int | None, seconds: float) -> None:
        if place not in self._known and len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[place] = _Report(window, self._clock() + seconds)


def _reason(error: Exception) -> str:
    """A description without secrets, which the texts of other errors may contain."""
    if isinstance(error, PalimpsestError):
        return error.detail
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
