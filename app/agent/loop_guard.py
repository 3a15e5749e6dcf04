"""Detects a model that repeats itself: the same calls with the same results, step after step."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import orjson

from app.agent.control import is_last_word
from app.context.prompts import control_text
from app.messages import Message, Role, ToolCallPart, ToolResultPart

LONGEST_CIRCLE = 3
"""Steps of the longest cycle that is detected: A B C A B C. Models have been seen to repeat one call or to alternate
between two."""


@dataclass(frozen=True, slots=True)
class GuardRules:
    """How many repetitions in a row lead to a warning, and how many more end the run; 0 is never."""

    tell_after: int = 3
    end_after: int = 3


NO_GUARD = GuardRules(tell_after=0)


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
            if _is_new_input(history[place]):
                return place
            left -= history[place].role is Role.TOOL
            if left < 0:
                return place
        return 0

    def _take(self, message: Message) -> None:
        if message.voided_at is not None or message.is_summary:
            return
        if _is_new_input(message):
            self._steps.clear()
            self._over = False
        elif message.role is Role.ASSISTANT:
            self._calls = {call.call_id: call for call in message.tool_calls}
        elif message.role is Role.TOOL and not self._over:
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


TOLD = control_text("loop_guard")
_RESUMED = (control_text("resume"), control_text("limit"))


def _is_new_input(message: Message) -> bool:
    """Whether this is new input, after which the same calls may make sense again."""
    if message.is_summary:
        return False
    return message.role is Role.USER or (message.role is Role.CONTROL and message.text in _RESUMED)
