"""Makes messages out of a foreign conversation: each batch of calls gets exactly its results, right after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from app.context.tokens import PER_MESSAGE, estimate_part
from app.context.validator import NO_RESULT, ORPHAN
from app.errors import InvalidRequestError
from app.interchange.reading import read_turns
from app.interchange.turns import PackedTurns, Place, Turn, WireFormat, empty_message_note, result_part, text_part
from app.messages import (
    FinishReason,
    Message,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    new_id,
    now,
)

_OURS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class ImportedHistory:
    """An imported conversation. `system_prompt` is the system message that it began with, if it was wanted."""

    turns: PackedTurns
    answers: Mapping[Place, Place]
    """The place of each call's result."""
    at: datetime
    new_id: Callable[[], str]
    system_prompt: str | None = None

    def __iter__(self) -> Iterator[Message]:
        """Makes the messages one by one, each time with new ids. They are numbered from 1, only to give their order."""
        for seq, turn in enumerate(paired(self.turns, self.answers, self.new_id), start=1):
            yield _message(turn, seq, self.at, self.new_id)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """All messages at once; a large history takes many times its size."""
        return tuple(self)


def import_history(
    format: WireFormat,
    messages: Iterable[Any],
    *,
    keep_system: bool = False,
    at: datetime | None = None,
    new_id: Callable[[], str] = new_id,
) -> ImportedHistory:
    """The conversation as messages, sound except for its ends.

    A leading system message becomes the system prompt, or with `keep_system` a control message like all others. Calls
    get new ids; missing, misplaced, duplicate and orphaned ones are repaired. Nothing is left out silently: content
    without a counterpart becomes text that names it, a missing result is marked as such, and an empty message is
    replaced by a control message that names its role. Raises `InvalidRequestError` (code `invalid_history`) for
    anything that is not a message, with its `index`, and if all messages are empty.
    """
    turns, pairing = PackedTurns(), _Pairing()
    prompt, is_empty, first = None, None, True
    for turn in read_turns(format, messages):
        is_empty = is_empty is not False and not turn.holds_something
        if first and not keep_system:
            prompt = _prompt(turn)
        if prompt is None or not first:
            told = _or_note(turn)
            pairing.take(len(turns), told)
            turns.append(told)
        first = False
    if is_empty:
        raise InvalidRequestError("history.messages: all messages are empty.", code="invalid_history")
    return ImportedHistory(turns, pairing.answers(), at or now(), new_id, prompt)


def _or_note(turn: Turn) -> Turn:
    """The turn, or a note if it is empty, which no provider would accept."""
    if turn.holds_something:
        return turn
    return Turn(Role.CONTROL, [text_part(empty_message_note(turn.role))])


def _prompt(first: Turn) -> str | None:
    """The text of a leading system message; None for another one, or if it is not only text."""
    if first.role is not Role.SYSTEM:
        return None
    texts = [part.text for part in first.parts if isinstance(part, TextPart)]
    whole = len(texts) == len(first.parts) and not first.after
    prompt = "\n\n".join(texts)
    return prompt if whole and prompt.strip() else None


def _message(turn: Turn, seq: int, at: datetime, new_id: Callable[[], str]) -> Message:
    parts = tuple(
        part.model_copy(update={"id": new_id(), "index": index, "tokens": estimate_part(part)})
        for index, part in enumerate(turn.parts)
    )
    message = Message(
        id=new_id(),
        seq=seq,
        role=Role.CONTROL if turn.role is Role.SYSTEM else turn.role,
        parts=parts,
        tokens=PER_MESSAGE + sum(part.tokens for part in parts),
        created_at=at,
    )
    if message.role is not Role.ASSISTANT:
        return message
    reason = FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
    return message.model_copy(update={"finish_reason": reason})


def paired(turns: PackedTurns, answers: Mapping[Place, Place], new_id: Callable[[], str]) -> Iterator[Turn]:
    """The turns in order, with new call ids: an assistant's turn with calls is followed by one tool turn with their
    results in call order, and there is no other tool turn.

    A missing result is marked as interrupted, one without a call becomes text. An id that is a UUIDv7 and not used
    twice is kept, so that an exported history comes back unchanged.
    """
    claimed = set(answers.values())
    used: set[str] = set()
    for at, turn in enumerate(turns):
        orphans = [
            text_part(ORPHAN.format(name=part.name or "a tool", output=part.output))
            for place, part in enumerate(turn.parts)
            if isinstance(part, ToolResultPart) and (at, place) not in claimed
        ]
        if orphans and turn.role is not Role.ASSISTANT:
            yield Turn(Role.CONTROL, list(orphans))
        yield from _with_results(turns, at, turn, answers, used, new_id)
        left = [*(orphans if turn.role is Role.ASSISTANT else ()), *turn.after]
        if left:
            yield Turn(Role.CONTROL, left)


def _with_results(
    turns: PackedTurns,
    at: int,
    turn: Turn,
    answers: Mapping[Place, Place],
    used: set[str],
    new_id: Callable[[], str],
) -> Iterator[Turn]:
    """The turn without its results, then a turn with the results of its calls."""
    parts: list[Part] = []
    results: list[Part] = []
    for place, part in enumerate(turn.parts):
        if isinstance(part, ToolResultPart):
            continue
        if isinstance(part, ToolCallPart):
            result = _result_of(turns, answers.get((at, place)), part)
            call_id = _unique(part.call_id, used, new_id)
            part = part.model_copy(update={"call_id": call_id, "status": result.status})
            results.append(result.model_copy(update={"call_id": call_id, "name": part.name}))
        parts.append(part)
    if parts:
        yield Turn(turn.role, parts)
    if results:
        yield Turn(Role.TOOL, results)


def _result_of(turns: PackedTurns, place: Place | None, call: ToolCallPart) -> ToolResultPart:
    if place is None:
        return result_part(call.call_id, call.name, NO_RESULT, ToolStatus.INTERRUPTED)
    result = turns.part(place)
    assert isinstance(result, ToolResultPart)
    return result


def _unique(key: str, used: set[str], new_id: Callable[[], str]) -> str:
    call_id = key if _OURS.fullmatch(key) and key not in used else new_id()
    used.add(call_id)
    return call_id


class _Pairing:
    """Finds the result of each call.

    A result belongs to the nearest earlier turn with an open call of its id, and there to the first such call, since
    providers reuse ids; a result without an id belongs to the first open call of the nearest turn that has one. What is
    left is then matched with later calls.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._anyone = _Waiting()
        self._answers: dict[Place, Place] = {}
        self._early: list[tuple[str, Place]] = []

    def take(self, at: int, turn: Turn) -> None:
        """Takes the next turn, whose index is `at`."""
        for place, part in enumerate(turn.parts):
            if isinstance(part, ToolCallPart):
                self._waiting.setdefault(part.call_id, _Waiting()).add((at, place))
                self._anyone.add((at, place))
            elif isinstance(part, ToolResultPart):
                calls = self._waiting.get(part.call_id) if part.call_id else self._anyone
                call = calls.nearest(self._answers) if calls is not None else None
                if call is None:
                    self._early.append((part.call_id, (at, place)))
                else:
                    self._answers[call] = (at, place)

    def answers(self) -> dict[Place, Place]:
        """The place of each call's result; call it after the last turn."""
        for key, result in self._early:
            if key in self._waiting and (call := self._waiting[key].nearest(self._answers)) is not None:
                self._answers[call] = result
        return self._answers


class _Waiting:
    """Calls that wait for a result. Each call is visited a fixed number of times, however many there are."""

    __slots__ = ("_answered", "_turns")

    def __init__(self) -> None:
        self._turns: list[list[Place]] = []
        self._answered: list[int] = []
        """How many calls at the beginning of each turn have an answer."""

    def add(self, call: Place) -> None:
        if not self._turns or self._turns[-1][0][0] != call[0]:
            self._turns.append([])
            self._answered.append(0)
        self._turns[-1].append(call)

    def nearest(self, answered: Container[Place]) -> Place | None:
        """The first call without an answer in the last turn that has one."""
        while self._turns:
            calls, first = self._turns[-1], self._answered[-1]
            while first < len(calls) and calls[first] in answered:
                first += 1
            self._answered[-1] = first
            if first < len(calls):
                return calls[first]
            self._turns.pop()
            self._answered.pop()
        return None
