"""What may end a run before the model does: its progress, and its limits of steps, tokens, cost and time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from app.agent.interrupt import Interrupt
from app.errors import PalimpsestError
from app.messages import Usage
from app.sessions import Limits


class LimitReached(PalimpsestError):
    """A limit of the session ended the run; the code names it."""

    status = 409
    code = "limit_reached"
    title = "A limit was reached"


SessionLimit = Literal["max_tokens", "max_cost_usd"]

SESSION_LIMITS: frozenset[str] = frozenset(get_args(SessionLimit))
"""Limits of the whole session: the next run would reach them again at once."""


@dataclass(frozen=True, slots=True)
class UsedUp:
    """A limit that a session has reached, its value, and how much is used: tokens or US dollars."""

    name: SessionLimit
    limit: float
    used: float


def used_up(limits: Limits, tokens: int, cost_usd: float) -> UsedUp | None:
    """The session limit that this usage has reached, or None."""
    if limits.max_tokens is not None and tokens >= limits.max_tokens:
        return UsedUp("max_tokens", limits.max_tokens, tokens)
    if limits.max_cost_usd is not None and cost_usd >= limits.max_cost_usd:
        return UsedUp("max_cost_usd", limits.max_cost_usd, cost_usd)
    return None


@dataclass(slots=True)
class Progress:
    """What counts against limits: steps of the run; steps of the session; usage of the session, and the part of its
    cost, in US dollars, with a known price."""

    run_steps: int
    steps: int
    usage: Usage
    cost_usd: float

    def add(self, usage: Usage, known_cost_usd: float | None = None) -> None:
        """Adds the usage of model calls; `known_cost_usd` defaults to the usage's cost."""
        self.usage = self.usage + usage
        self.cost_usd += known_cost_usd if known_cost_usd is not None else usage.cost_usd or 0.0


class RunLimits:
    """The limits of one run; `limits` is called each time, since they may change during the run."""

    def __init__(
        self, limits: Callable[[], Limits], progress: Progress, interrupt: Interrupt, *, elapsed_s: float
    ) -> None:
        """`elapsed_s` is how many seconds ago the run began."""
        self._limits = limits
        self._progress = progress
        self._interrupt = interrupt
        self._started = time.monotonic() - elapsed_s

    def reached(self) -> LimitReached | None:
        """The limit of steps, tokens or cost that the run has reached."""
        limits, progress = self._limits(), self._progress
        if limits.max_steps is not None and progress.run_steps >= limits.max_steps:
            return _reached("max_steps", limits.max_steps)
        match used_up(limits, progress.usage.total_tokens, progress.cost_usd):
            case UsedUp("max_tokens", limit):
                return _reached("max_tokens", limit)
            case UsedUp("max_cost_usd", limit):
                return _reached("max_cost_usd", limit)
        return None

    def timed_out(self) -> LimitReached | None:
        """The time limit, once it is exceeded."""
        seconds = self._limits().max_seconds
        return _reached("max_seconds", seconds) if seconds is not None and self._elapsed_s >= seconds else None

    @contextmanager
    def deadline(self) -> Iterator[None]:
        """Ends the step when the run's time is over. Set for each step, as the limit may change."""
        seconds = self._limits().max_seconds
        if seconds is None:
            yield
            return
        with self.within(max(0.0, seconds - self._elapsed_s)):
            yield

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Ends the step after this many seconds."""
        timer = asyncio.get_running_loop().call_later(seconds, self._interrupt.fire, "limit")
        try:
            yield
        finally:
            timer.cancel()

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started


def in_circles() -> LimitReached:
    """The error that ends the run of a model that repeats itself."""
    return LimitReached("The model made the same calls with the same results again and again.", code="loop_guard")


def _reached(code: str, value: float) -> LimitReached:
    whose = "session" if code in SESSION_LIMITS else "run"
    # A float holds 15 digits exactly; `g` alone would round a million tokens.
    return LimitReached(f"The {whose} has reached its limit: {code} = {value:.15g}.", code=code, limit=value)
