"""Checks and repairs a conversation before every request, so that no invalid request is sent.

A conversation is sound if
- it begins with a user or control message and does not end with the assistant,
- every assistant message with calls is followed at once by one tool message with exactly their results, in call order,
  and there is no other tool message,
- call ids are unique and not empty,
- no message is empty, and reasoning is complete and from the model that will read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.context.content import ReasoningRule, sendable
from app.context.mending import Repair, mend
from app.messages import Message, Role

__all__ = ["Repair", "SoundnessCheck", "repair"]


def repair(messages: Sequence[Message], rule: ReasoningRule) -> tuple[list[Message], list[Repair]]:
    """A sound conversation made from `messages`, and the repairs.

    Sound input comes back as the same objects, without repairs. A misplaced result moves to its call, a missing one is
    marked as interrupted, one without a call becomes text in a control message. Everything added has an id derived from
    what it replaces, so repairing twice gives the same bytes, and repairing the result changes nothing.
    """
    if SoundnessCheck(rule).advance(messages):
        return list(messages), []
    return mend(messages, rule)


class SoundnessCheck:
    """Checks a growing conversation and reads each message once, so that a step only pays for new messages."""

    def __init__(self, rule: ReasoningRule) -> None:
        self._rule = rule
        self._next = 0
        self._call_ids: set[str] = set()
        self._open: list[str] = []
        self._sound = True

    def advance(self, messages: Sequence[Message]) -> bool:
        """Whether all of `messages` may be sent now; messages checked before must not have changed."""
        while self._sound and self._next < len(messages):
            self._sound = self._accepts(messages[self._next])
            self._next += 1
        return self._sound and not self._open and (not messages or messages[-1].role is not Role.ASSISTANT)

    def _accepts(self, message: Message) -> bool:
        if sendable(message, self._rule) is not message:
            return False
        if message.role is Role.TOOL:
            return self._closes(message)
        if self._open or message.tool_results or (self._next == 0 and message.role is Role.ASSISTANT):
            return False
        return self._opens(message)

    def _closes(self, message: Message) -> bool:
        results = [part.call_id for part in message.tool_results]
        matches = bool(self._open) and results == self._open and len(results) == len(message.parts)
        self._open = []
        return matches

    def _opens(self, message: Message) -> bool:
        self._open = [call.call_id for call in message.tool_calls]
        known = len(self._call_ids)
        self._call_ids.update(self._open)
        return all(self._open) and len(self._call_ids) == known + len(self._open)
