"""What may end a run before the model does: its limits of steps, tokens, cost and time, and a model that repeats
itself."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Literal, get_args

import orjson

from app.agent.conversation import is_last_word
from app.agent.interrupt import Interrupt
from app.context.prompts import control_text
from app.errors import PalimpsestError
from app.messages import Message, Role, ToolCallPart, ToolResultPart, Usage
from app.sessions import Limits
from app.tools.background import CommandOutput

LONGEST_CIRCLE = 3
"""Steps of the longest cycle that is detected: A B C A B C. Models have been seen to repeat one call or to alternate
between two."""
WAITED_MS = 10_000
"""A call of `command_output` that has waited this long, in milliseconds, is no repetition: a build may print nothing
for an hour, and calling it again is the way to wait."""


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


@dataclass(frozen=True, slots=True)
class GuardRules:
    """How many repetitions in a row lead to a warning, and how many more end the run; 0 is never."""

    tell_after: int = 3
    end_after: int = 3


NO_GUARD = GuardRules(tell_after=0)


@dataclass(frozen=True, slots=True)
class RunRules:
    """The server's rules for the end of runs. `last_step_s` is how many seconds the model gets to sum up before a limit
    ends the run; 0 is none."""

    last_step_s: float = 0.0
    guard: GuardRules = NO_GUARD


class Verdict(Enum):
    FINE = "fine"
    TELL = "tell"
    END = "end"


class LoopGuard:
    """Watches a history as it grows. All its state comes from the history, so a restart changes nothing."""

    def __init__(self, rules: GuardRules) -> None:
        self._rules = rules
        self._steps: deque[int] = deque(maxlen=LONGEST_CIRCLE * (rules.tell_after + rules.end_after))
        self._calls: dict[str, ToolCallPart] = {}
        self._warned = False
        self._over = False
        self._next: int | None = None

    def look(self, history: Sequence[Message]) -> Verdict:
        """What to do about the newest steps; reads only what is new since the last call."""
        rules = self._rules
        if rules.tell_after == 0:
            return Verdict.FINE
        if self._next is None:
            self._next = self._beginning(history)
        for message in history[self._next :]:
            self._take(message)
        self._next = len(history)
        times = self._times()
        if times < rules.tell_after:
            self._warned = False
        elif rules.end_after and times >= rules.tell_after + rules.end_after:
            return Verdict.END
        elif not self._warned:
            return Verdict.TELL
        return Verdict.FINE

    def _beginning(self, history: Sequence[Message]) -> int:
        """The index in a long history before which nothing matters."""
        left = self._steps.maxlen or 0
        for place in range(len(history) - 1, -1, -1):
            if is_new_input(history[place]):
                return place
            left -= history[place].role is Role.TOOL
            if left < 0:
                return place
        return 0

    def _take(self, message: Message) -> None:
        if message.voided_at is not None or message.is_summary:
            return
        if is_new_input(message):
            self._steps.clear()
            self._over = False
        elif message.role is Role.ASSISTANT:
            self._calls = {call.call_id: call for call in message.tool_calls}
        elif message.role is Role.TOOL and not self._over and not _has_waited(message):
            self._steps.append(hash(frozenset(map(self._happened, message.tool_results))))
        elif message.role is Role.CONTROL:
            self._warned = self._warned or message.text == TOLD
            # Calls after it were not run: a run resumed there has nothing left to do.
            self._over = self._over or is_last_word(message)

    def _happened(self, result: ToolResultPart) -> tuple[object, ...]:
        """A call and its result, equal for two calls that had the same outcome."""
        call = self._calls.get(result.call_id)
        asked = orjson.dumps(call.arguments, option=orjson.OPT_SORT_KEYS) if call is not None else b""
        # A clipped output contains its call id.
        return result.name, asked, result.status, result.output.replace(result.call_id, "")

    def _times(self) -> int:
        """How many times in a row the newest cycle was repeated."""
        return max(self._repeats(length) for length in range(1, LONGEST_CIRCLE + 1))

    def _repeats(self, length: int) -> int:
        steps = list(self._steps)
        same = 0
        while same + length < len(steps) and steps[-1 - same] == steps[-1 - same - length]:
            same += 1
        return (same + length) // length if len(steps) >= length else 0


def _has_waited(message: Message) -> bool:
    return any(result.name == CommandOutput.name and result.duration_ms >= WAITED_MS for result in message.tool_results)


TOLD = control_text("loop_guard")
_RESUMED = (control_text("resume"), control_text("limit"))


def is_new_input(message: Message) -> bool:
    """Whether this is new input, after which the same calls may make sense again."""
    if message.is_summary:
        return False
    return message.role is Role.USER or (message.role is Role.CONTROL and message.text in _RESUMED)
