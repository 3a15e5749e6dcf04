"""Makes messages out of a foreign conversation: each batch of calls gets exactly its results, right after it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.context.tokens import PER_MESSAGE, estimate_part
from app.context.validator import NO_RESULT, ORPHAN
from app.errors import InvalidRequestError
from app.interchange.reading import read_turns
from app.interchange.turns import Turn, WireFormat, empty_message_note, result_part, text_part
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

Place = tuple[int, int]
"""Index of a turn and of a part in it."""
_OURS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ImportedHistory:
    """An imported conversation. `messages` are numbered from 1, only to give their order; `system_prompt` is the system
    message that the conversation began with, if it was wanted."""

    messages: tuple[Message, ...]
    system_prompt: str | None = None

    @property
    def tokens(self) -> int:
        """Estimated tokens of all messages."""
        return sum(message.tokens for message in self.messages)


def import_history(
    format: WireFormat,
    messages: Sequence[Any],
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
    turns = [_or_note(turn) for turn in _holding(read_turns(format, messages))]
    prompt = None if keep_system else _prompt(turns)
    if prompt is not None:
        turns = turns[1:]
    made_at = at or now()
    made = [_message(turn, seq, made_at, new_id) for seq, turn in enumerate(paired(turns, new_id), start=1)]
    return ImportedHistory(tuple(made), prompt)


def _holding(turns: list[Turn]) -> list[Turn]:
    """The turns. Raises `InvalidRequestError` if there are some and all are empty."""
    if turns and not any(turn.holds_something for turn in turns):
        raise InvalidRequestError("history.messages: all messages are empty.", code="invalid_history")
    return turns


def _or_note(turn: Turn) -> Turn:
    """The turn, or a note if it is empty, which no provider would accept."""
    if turn.holds_something:
        return turn
    return Turn(Role.CONTROL, [text_part(empty_message_note(turn.role))])


def _prompt(turns: Sequence[Turn]) -> str | None:
    """The text of a leading system message; None without one, or if it is not only text."""
    if not turns or turns[0].role is not Role.SYSTEM:
        return None
    first = turns[0]
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


def paired(turns: Sequence[Turn], new_id: Callable[[], str]) -> Iterator[Turn]:
    """The turns in order, with new call ids: an assistant's turn with calls is followed by one tool turn with their
    results in call order, and there is no other tool turn.

    A missing result is marked as interrupted, one without a call becomes text. An id that is a UUIDv7 and not used
    twice is kept, so that an exported history comes back unchanged.
    """
    answers = _answers(turns)
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
        yield from _with_results(turns, at, answers, used, new_id)
        left = [*(orphans if turn.role is Role.ASSISTANT else ()), *turn.after]
        if left:
            yield Turn(Role.CONTROL, left)


def _with_results(
    turns: Sequence[Turn], at: int, answers: dict[Place, Place], used: set[str], new_id: Callable[[], str]
) -> Iterator[Turn]:
    """The turn without its results, then a turn with the results of its calls."""
    parts: list[Part] = []
    results: list[Part] = []
    for place, part in enumerate(turns[at].parts):
        if isinstance(part, ToolResultPart):
            continue
        if isinstance(part, ToolCallPart):
            result = _result_of(turns, answers.get((at, place)), part)
            call_id = _unique(part.call_id, used, new_id)
            part = part.model_copy(update={"call_id": call_id, "status": result.status})
            results.append(result.model_copy(update={"call_id": call_id, "name": part.name}))
        parts.append(part)
    if parts:
        yield Turn(turns[at].role, parts)
    if results:
        yield Turn(Role.TOOL, results)


def _result_of(turns: Sequence[Turn], place: Place | None, call: ToolCallPart) -> ToolResultPart:
    if place is None:
        return result_part(call.call_id, call.name, NO_RESULT, ToolStatus.INTERRUPTED)
    result = turns[place[0]].parts[place[1]]
    assert isinstance(result, ToolResultPart)
    return result


def _unique(key: str, used: set[str], new_id: Callable[[], str]) -> str:
    call_id = key if _OURS.fullmatch(key) and key not in used else new_id()
    used.add(call_id)
    return call_id


def _answers(turns: Sequence[Turn]) -> dict[Place, Place]:
    """The place of each call's result.

    A result belongs to the nearest earlier turn with an open call of its id, and there to the first such call, since
    providers reuse ids; a result without an id belongs to the first open call of the nearest turn that has one. What is
    left is then matched with later calls.
    """
    waiting: dict[str, _Waiting] = {}
    anyone = _Waiting()
    answers: dict[Place, Place] = {}
    early: list[tuple[str, Place]] = []
    for at, turn in enumerate(turns):
        for place, part in enumerate(turn.parts):
            if isinstance(part, ToolCallPart):
                waiting.setdefault(part.call_id, _Waiting()).add((at, place))
                anyone.add((at, place))
            elif isinstance(part, ToolResultPart):
                calls = waiting.get(part.call_id) if part.call_id else anyone
                call = calls.nearest(answers) if calls is not None else None
                if call is None:
                    early.append((part.call_id, (at, place)))
                else:
                    answers[call] = (at, place)
    for key, result in early:
        if key in waiting and (call := waiting[key].nearest(answers)) is not None:
            answers[call] = result
    return answers


class _Waiting:
    """Calls that wait for a result. Each call is visited a fixed number of times, however many there are."""

    def __init__(self) -> None:
        self._turns: list[tuple[int, deque[Place]]] = []

    def add(self, call: Place) -> None:
        if not self._turns or self._turns[-1][0] != call[0]:
            self._turns.append((call[0], deque()))
        self._turns[-1][1].append(call)

    def nearest(self, answered: Container[Place]) -> Place | None:
        """The first call without an answer in the last turn that has one."""
        while self._turns:
            calls = self._turns[-1][1]
            while calls and calls[0] in answered:
                calls.popleft()
            if calls:
                return calls[0]
            self._turns.pop()
        return None
