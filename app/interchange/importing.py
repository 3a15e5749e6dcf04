"""Makes messages from a foreign conversation."""

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
    return Turn(Role.CONTROL, [text_part(notes.empty_message(turn.role))])


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
