"""Makes messages of ours out of a foreign conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.context.tokens import PER_MESSAGE, estimate_part
from app.errors import InvalidRequestError
from app.interchange import notes
from app.interchange.pairing import paired
from app.interchange.reading import read_turns
from app.interchange.turns import Turn, WireFormat, text_part
from app.messages import FinishReason, Message, Role, TextPart, new_id, now


@dataclass(frozen=True, slots=True)
class ImportedHistory:
    """A conversation in our form. `messages` are numbered from 1, which is only their order; `system_prompt` is what
    the conversation began with, if it was asked for."""

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
    """The conversation as messages of ours, sound but for its ends.

    A system message that it begins with becomes the system prompt, or with `keep_system` a control message as all
    others do. Calls get ids of ours; missing, misplaced, repeated and orphaned ones are put right. Nothing is left out
    without a word: what has no counterpart becomes text that names it, a missing result says that it is, and in the
    place of a message that holds nothing stands a control message that says whose it was. Raises `InvalidRequestError`
    (code `invalid_history`) for what is no message at all, with its `index`, and where no message holds anything.
    """
    turns = [_or_note(turn) for turn in _holding(read_turns(format, messages))]
    prompt = None if keep_system else _prompt(turns)
    if prompt is not None:
        turns = turns[1:]
    made_at = at or now()
    made = [_message(turn, seq, made_at, new_id) for seq, turn in enumerate(paired(turns, new_id), start=1)]
    return ImportedHistory(tuple(made), prompt)


def _holding(turns: list[Turn]) -> list[Turn]:
    """The turns. Raises `InvalidRequestError` where there are some and none holds anything."""
    if turns and not any(turn.holds_something for turn in turns):
        raise InvalidRequestError("history.messages: none of them holds anything.", code="invalid_history")
    return turns


def _or_note(turn: Turn) -> Turn:
    """The turn, or a note in its place where it holds nothing, which no provider would take."""
    if turn.holds_something:
        return turn
    return Turn(Role.CONTROL, [text_part(notes.empty_message(turn.role))])


def _prompt(turns: Sequence[Turn]) -> str | None:
    """The text of a system message in front; None without one, or where it is not text alone."""
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
