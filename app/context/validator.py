"""The check and repair of a conversation before every request: one problem at a time, each of them recorded."""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.context.content import (
    ReasoningRule,
    control_message,
    derived_id,
    derived_message,
    sendable,
    text_part,
    with_parts,
)
from app.messages import ImagePart, Message, Part, ReasoningPart, Role, ToolCallPart, ToolResultPart, ToolStatus

RepairKind = Literal[
    "message_dropped",
    "parts_dropped",
    "duplicate_call",
    "missing_result",
    "moved_result",
    "orphan_result",
    "first_message",
    "last_message",
]
NO_RESULT = (
    "[No result: the call was interrupted before it ended. It may have run in part, so check before repeating it.]"
)
ORPHAN = "[Output of an earlier call of {name}; the call itself is not part of this conversation.]\n{output}"
BEGINNING = "[The beginning of this conversation is not available.]"
GO_ON = "[The last answer stands as it is. Continue from there.]"
Place = tuple[int, int]
"""Index of a message and of a part in it."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair, for the record; `message_id` is the message where the fault was found."""

    kind: RepairKind
    message_id: str
    call_id: str | None
    detail: str

    @property
    def key(self) -> tuple[RepairKind, str, str | None]:
        """Identifies a repair; the same whenever the same thing is repaired."""
        return self.kind, self.message_id, self.call_id


def make_sound(messages: Sequence[Message], rule: ReasoningRule) -> tuple[list[Message], list[Repair]]:
    """A valid conversation made from any messages, and the repairs."""
    return _Repairer(rule).run(messages)


class _Repairer:
    """One repair of one conversation."""

    def __init__(self, rule: ReasoningRule) -> None:
        self._rule = rule
        self._out: list[Message] = []
        self._repairs: list[Repair] = []
        self._call_ids: set[str] = set()

    def run(self, messages: Sequence[Message]) -> tuple[list[Message], list[Repair]]:
        clean = self._cleaned(messages)
        answers = _pair(clean)
        claimed = set(answers.values())
        for index, message in enumerate(clean):
            if message.role is Role.ASSISTANT:
                self._take_assistant(clean, index, answers)
            elif message.role is not Role.TOOL:
                self._take(message, _without_results(message.parts))
            self._take_leftovers(index, message, claimed)
        self._repair_ends()
        return self._out, self._repairs

    def _note(self, kind: RepairKind, message: Message, detail: str, call_id: str | None = None) -> None:
        self._repairs.append(Repair(kind, message.id, call_id, detail))

    def _cleaned(self, messages: Sequence[Message]) -> list[Message]:
        clean = []
        for message in messages:
            kept = sendable(message, self._rule)
            if kept is None:
                self._note("message_dropped", message, f"a {message.role} message with nothing to send")
                continue
            if kept is not message:
                count = len(message.parts) - len(kept.parts)
                self._note("parts_dropped", message, f"{count} of its parts must not be sent to {self._rule.model}")
            clean.append(kept)
        return clean

    def _take(self, message: Message, parts: Sequence[Part]) -> None:
        if all(isinstance(part, ReasoningPart) for part in parts):
            return
        self._out.append(message if _same(parts, message.parts) else with_parts(message, parts))

    def _take_assistant(self, clean: Sequence[Message], index: int, answers: Mapping[Place, Place]) -> None:
        message = clean[index]
        parts: list[Part] = []
        results: list[ToolResultPart] = []
        places: list[Place] = []
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart):
                call = self._unique(message, part)
                place = answers.get((index, position))
                parts.append(call)
                results.append(self._missing(message, call) if place is None else _result_at(clean, place, call))
                places += [place] if place else []
            else:
                parts.append(part)
        self._take(message, _without_results(parts))
        if results:
            following = clean[index + 1] if index + 1 < len(clean) else None
            self._note_moves(clean, index, places)
            images = [image for place in places for image in _images_with(clean, place)]
            self._out.append(_results_message(message, following, [*results, *images]))

    def _unique(self, message: Message, call: ToolCallPart) -> ToolCallPart:
        if call.call_id and call.call_id not in self._call_ids:
            self._call_ids.add(call.call_id)
            return call
        renamed = derived_id(message.id, call.id, str(len(self._call_ids)))
        self._call_ids.add(renamed)
        self._note("duplicate_call", message, f"its id was empty or used before; it is now {renamed}", call.call_id)
        return call.model_copy(update={"call_id": renamed})

    def _missing(self, message: Message, call: ToolCallPart) -> ToolResultPart:
        self._note("missing_result", message, f"no result of {call.name}", call.call_id)
        return ToolResultPart(
            id=derived_id(call.call_id, "result"),
            index=0,
            call_id=call.call_id,
            name=call.name,
            output=NO_RESULT,
            status=ToolStatus.INTERRUPTED,
        )

    def _note_moves(self, clean: Sequence[Message], index: int, places: Sequence[Place]) -> None:
        behind = (index, len(clean[index].parts))
        for place in places:
            message = clean[place[0]]
            if place < behind or place[0] > index + 1 or message.role is not Role.TOOL:
                part = message.parts[place[1]]
                call_id = part.call_id if isinstance(part, ToolResultPart) else None
                self._note("moved_result", message, "not right after its calls, or not in their order", call_id)
            else:
                behind = place

    def _take_leftovers(self, index: int, message: Message, claimed: Container[Place]) -> None:
        """Turns results without a call, and other parts out of place, into a control message."""
        left: list[Part] = []
        kept = [part for at, part in enumerate(message.parts) if (index, at) in claimed]
        calls = {part.call_id for part in kept if isinstance(part, ToolResultPart)}
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolResultPart) and (index, position) not in claimed:
                self._note("orphan_result", message, f"a result of {part.name} without a call", part.call_id)
                left.append(text_part(ORPHAN.format(name=part.name, output=part.output), part.id, "orphan"))
            elif message.role is Role.TOOL and not (isinstance(part, ToolResultPart) or _is_image_of(part, calls)):
                self._note("parts_dropped", message, f"a part of type {part.type} in a tool message")
                left.append(part)
        if left:
            self._out.append(control_message(message, "leftovers", left))

    def _repair_ends(self) -> None:
        if self._out and self._out[0].role is Role.ASSISTANT:
            first = self._out[0]
            self._note("first_message", first, "the conversation began with the assistant")
            self._out.insert(0, control_message(first, "beginning", [text_part(BEGINNING, first.id, "beginning")]))
        if self._out and self._out[-1].role is Role.ASSISTANT:
            last = self._out[-1]
            self._note("last_message", last, "the conversation ended with the assistant")
            self._out.append(control_message(last, "end", [text_part(GO_ON, last.id, "end")]))


def _pair(messages: Sequence[Message]) -> dict[Place, Place]:
    """The place of each call's result. A result belongs to the nearest earlier message that still waits for one with
    its id, and there to the first such call, since providers reuse ids."""
    waiting: dict[str, list[Place]] = {}
    answers: dict[Place, Place] = {}
    for index, message in enumerate(messages):
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart):
                waiting.setdefault(part.call_id, []).append((index, position))
            elif isinstance(part, ToolResultPart) and (calls := waiting.get(part.call_id)):
                call = next(place for place in calls if place[0] == calls[-1][0])
                calls.remove(call)
                answers[call] = (index, position)
    return answers


def _result_at(messages: Sequence[Message], place: Place, call: ToolCallPart) -> ToolResultPart:
    result = messages[place[0]].parts[place[1]]
    assert isinstance(result, ToolResultPart)
    return result if result.call_id == call.call_id else result.model_copy(update={"call_id": call.call_id})


def _images_with(messages: Sequence[Message], place: Place) -> list[Part]:
    """The images of a result, which are in its message."""
    message = messages[place[0]]
    result = message.parts[place[1]]
    call_id = result.call_id if isinstance(result, ToolResultPart) else None
    return [part for part in message.parts if message.role is Role.TOOL and _is_image_of(part, {call_id})]


def _is_image_of(part: Part, calls: Container[str | None]) -> bool:
    """Whether it is an image of the result of one of these calls."""
    return isinstance(part, ImagePart) and part.of_call is not None and part.of_call in calls


def _results_message(message: Message, following: Message | None, results: Sequence[Part]) -> Message:
    """The tool message after `message`: the existing one, if any, with these results."""
    if following is None or following.role is not Role.TOOL:
        return derived_message(message, derived_id(message.id, "results"), Role.TOOL, results)
    return following if _same(results, following.parts) else with_parts(following, results)


def _without_results(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if not isinstance(part, ToolResultPart)]


def _same(parts: Sequence[Part], others: Sequence[Part]) -> bool:
    return len(parts) == len(others) and all(map(operator.is_, parts, others))


def repair(messages: Sequence[Message], rule: ReasoningRule) -> tuple[list[Message], list[Repair]]:
    """A sound conversation made from `messages`, and the repairs.

    Sound input comes back as the same objects, without repairs. A misplaced result moves to its call, a missing one is
    marked as interrupted, one without a call becomes text in a control message. Everything added has an id derived from
    what it replaces, so repairing twice gives the same bytes, and repairing the result changes nothing.
    """
    if SoundnessCheck(rule).advance(messages):
        return list(messages), []
    return make_sound(messages, rule)


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
        others = message.parts[len(results) :]
        matches = bool(self._open) and results == self._open and all(_is_image_of(part, results) for part in others)
        self._open = []
        return matches

    def _opens(self, message: Message) -> bool:
        self._open = [call.call_id for call in message.tool_calls]
        known = len(self._call_ids)
        self._call_ids.update(self._open)
        return all(self._open) and len(self._call_ids) == known + len(self._open)
