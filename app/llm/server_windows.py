"""The windows that model servers report of themselves: asked for once, remembered for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from app.errors import PalimpsestError

ASK_TIMEOUT_S = 5.0
"""Longest that a server may take to answer; the first run of a model waits for it."""

BELIEVED_S = 3_600.0
"""How long a window is taken as it was reported. A local server may be started again with another one."""

ASK_AGAIN_S = 60.0
"""How long nobody asks again after a failure, or an answer without a window: a model may still be loading."""

MAX_REMEMBERED = 1_000
"""Models that are remembered; callers choose the names."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Report:
    """What is known of one model; `until` is when it is asked for again."""

    window: int | None
    until: float


class ServerWindows:
    """By place, which is a base URL and a model's name there. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, timeout_s: float = ASK_TIMEOUT_S) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._known: dict[str, _Report] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def get(self, place: str) -> int | None:
        """The window in tokens, as it was last reported; None where none was."""
        report = self._known.get(place)
        return report.window if report is not None else None

    async def ask(self, place: str, model: str, question: Callable[[], Awaitable[int | None]]) -> None:
        """Asks by `question`, if it is time to, and waits for the answer if there was none before. Never raises: a
        server that says nothing leaves what was known. `model` is for the log, since a base URL may hold a secret."""
        report = self._known.get(place)
        if report is not None and self._clock() < report.until:
            return
        task = self._asking.get(place)
        if task is None:
            task = self._asking[place] = asyncio.create_task(self._learn(place, model, question))
        if report is None:
            # Not the task itself: whoever waits may be cancelled, and others wait for it too.
            await asyncio.wait({task})

    async def aclose(self) -> None:
        """Ends the questions that are under way."""
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
            # Of whatever kind: nothing depends on the answer so much as to fail a run.
            log.info("window_not_reported", model=model, reason=_reason(error))
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
    """A sentence without secrets, which the words of other errors may hold."""
    if isinstance(error, PalimpsestError):
        return error.detail
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
