"""What of a stored message may go out to a model, and the making of messages that stand in for missing ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from app.context.tokens import PER_MESSAGE, estimate_part, image_tokens
from app.messages import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

_NAMESPACE = UUID("7f0c2f62-9d0e-4d57-8b55-64d1c6a3a1e9")


@dataclass(frozen=True, slots=True)
class Reader:
    """The model that a context is made for. Which reasoning of the history it may be sent depends on it.

    `thinking_from` is the seq of the first message behind a prefix that has not changed since: thinking that its
    provider has bound to all that came before it is sent from there on alone. `echoes` has plain reasoning sent back.
    """

    model: str
    thinking_from: int = 0
    echoes: bool = False


def derived_id(*keys: str) -> str:
    """An id that follows from `keys` alone, so that the same repair gives the same bytes every time."""
    return str(uuid5(_NAMESPACE, "\n".join(keys)))


def sendable(message: Message, reader: Reader) -> Message | None:
    """The message without what the reader must not see, the same object where nothing is left out.

    None for system rows, voided attempts, and messages that say nothing (blank text and reasoning alone say nothing).
    Interrupted text stays; reasoning goes out whole, to the model that wrote it, or not at all.
    """
    if message.role is Role.SYSTEM or message.voided_at is not None:
        return None
    parts = tuple(part for part in message.parts if _goes_out(part, message, reader))
    if not _thinking_holds(message, parts, reader):
        parts = tuple(part for part in parts if not is_bound(part))
    if all(isinstance(part, ReasoningPart) for part in parts):
        return None
    return message if len(parts) == len(message.parts) else with_parts(message, parts)


def counted_for(message: Message, model: str) -> Message:
    """The message with its images counted by the rule of `model`, the same object where that makes no difference. They
    were stored with one count for all models."""
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return message
    parts = [_counted_image(part, model) if isinstance(part, ImagePart) else part for part in message.parts]
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if same else with_parts(message, parts)


def _counted_image(part: ImagePart, model: str) -> ImagePart:
    tokens = image_tokens(part, model)
    return part if part.tokens == tokens else part.model_copy(update={"tokens": tokens})


def with_parts(message: Message, parts: Sequence[Part]) -> Message:
    """The message with other parts, numbered and counted again."""
    placed = tuple(_placed(part, index) for index, part in enumerate(parts))
    tokens = PER_MESSAGE + sum(part.tokens or estimate_part(part) for part in placed)
    return message.model_copy(update={"parts": placed, "tokens": tokens})


def _placed(part: Part, index: int) -> Part:
    tokens = part.tokens or estimate_part(part)
    if (part.index, part.tokens) == (index, tokens):
        return part
    return part.model_copy(update={"index": index, "tokens": tokens})


def control_message(source: Message, purpose: str, parts: Sequence[Part]) -> Message:
    """A control message derived from `source`, whose place in the history it takes."""
    return derived_message(source, derived_id(source.id, purpose), Role.CONTROL, parts)


def text_part(text: str, *keys: str) -> TextPart:
    """A text of ours, with an id derived from `keys`."""
    return TextPart(id=derived_id(*keys), index=0, text=text)


def derived_message(source: Message, id: str, role: Role, parts: Sequence[Part]) -> Message:
    """A message of ours at the place of `source`."""
    return with_parts(Message(id=id, seq=source.seq, role=role, parts=(), created_at=source.created_at), parts)


def is_bound(part: Part) -> bool:
    """Whether a part is thinking that its provider verifies against all that came before it."""
    if not isinstance(part, ReasoningPart) or part.provider_data is None:
        return False
    return part.provider_data.get("type") in ("thinking", "redacted_thinking")


def _thinking_holds(message: Message, parts: Sequence[Part], reader: Reader) -> bool:
    """Whether all that came before the message's bound thinking is sent as it was when the model wrote it: the messages
    before it, and the parts before it in the message itself. No call may come first, since its id on the wire is ours.
    """
    last = max((place for place, part in enumerate(parts) if is_bound(part)), default=None)
    if last is None:
        return True
    as_written = tuple(part.id for part in parts[: last + 1]) == tuple(part.id for part in message.parts[: last + 1])
    calls_first = any(isinstance(part, ToolCallPart) for part in parts[:last])
    return message.seq >= reader.thinking_from and as_written and not calls_first


def _goes_out(part: Part, message: Message, reader: Reader) -> bool:
    assistant = message.role is Role.ASSISTANT
    match part:
        case TextPart():
            return bool(part.text) and not part.text.isspace()
        case ReasoningPart():
            own = assistant and message.model == reader.model and not part.interrupted
            return own and (part.provider_data is not None or (reader.echoes and bool(part.text)))
        case ToolCallPart():
            return assistant
        case ImagePart():
            return not assistant
    return isinstance(part, ToolResultPart)
