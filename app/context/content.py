"""What of a stored message may be sent to a model, and derived messages that replace missing ones."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
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

_BOUND_KINDS = frozenset({"thinking", "redacted_thinking"})
"""Types of reasoning blocks that a provider verifies against everything before them, if they are signed."""
_SIGNED = frozenset({"signature", "data"})
"""Members of blocks that a provider verifies; `data` is encrypted thinking."""

_NAMESPACE = UUID("7f0c2f62-9d0e-4d57-8b55-64d1c6a3a1e9")


TextFor = Callable[[ImagePart], str | None]
"""What stands for an image; None for one that stays."""


@dataclass(frozen=True, slots=True)
class ReasoningRule:
    """Which reasoning of a history is sent to `model`.

    A thinking block is bound to the request that it answered: it is sent from the seq `bound_from` on, where nothing
    before it has changed since. `echo` sends the model's own reasoning text back if its provider gave it no form of its
    own. Everything sent, counted or shown of a history follows one such rule.
    """

    model: str
    bound_from: int = 0
    echo: bool = False


def derived_id(*keys: str) -> str:
    """An id computed only from `keys`, so that the same repair gives the same bytes every time."""
    return str(uuid5(_NAMESPACE, "\n".join(keys)))


def sendable(message: Message, rule: ReasoningRule) -> Message | None:
    """The message without what the rule's model must not see, the same object if nothing is left out.

    None for system rows, voided attempts, and messages that say nothing (only blank text and reasoning). Interrupted
    text stays; reasoning is sent whole, to the model that wrote it, or not at all. Bound blocks are sent only if
    everything before them in the message is sent as the model wrote it.
    """
    if message.role is Role.SYSTEM or message.voided_at is not None:
        return None
    thinking = message.seq >= rule.bound_from and _is_verbatim(message, rule)
    kept = [p for p in message.parts if _goes_out(p, message, rule) and (thinking or not is_bound(p))]
    if all(isinstance(part, ReasoningPart) for part in kept):
        return None
    parts = [_for_model(part, message, rule) for part in kept]
    same = len(parts) == len(message.parts) and all(map(operator.is_, parts, message.parts))
    return message if same else with_parts(message, parts)


def _for_model(part: Part, message: Message, rule: ReasoningRule) -> Part:
    """The part without what only the model that wrote it may get."""
    if not isinstance(part, ToolCallPart) or part.provider_data is None or message.model == rule.model:
        return part
    return part.model_copy(update={"provider_data": None, "tokens": 0})


def is_bound(part: Part) -> bool:
    """Whether it is a thinking block that its provider verifies against everything before it, passed on by another
    server or not."""
    if not isinstance(part, ReasoningPart) or part.provider_data is None:
        return False
    data = part.provider_data
    if data.get("type") in _BOUND_KINDS:
        return not _SIGNED.isdisjoint(data)
    details = (data.get("fields") or {}).get("reasoning_details")
    return any("signature" in entry for entry in details or () if isinstance(entry, dict))


def counted_for(message: Message, model: str) -> Message:
    """The message with its images counted by the rule of `model`, the same object if that makes no difference. They
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
    """The message with other parts, renumbered and recounted."""
    placed = tuple(_placed(part, index) for index, part in enumerate(parts))
    tokens = PER_MESSAGE + sum(part.tokens or estimate_part(part) for part in placed)
    return message.model_copy(update={"parts": placed, "tokens": tokens})


def replaced(message: Message, text_for: TextFor) -> Message:
    """The message with texts instead of images, the same object if all stay. Formats have no text next to results, so
    there an image's text ends the result that it belongs to."""
    texts = {p.id: text for p in message.parts if isinstance(p, ImagePart) and (text := text_for(p)) is not None}
    if not texts:
        return message
    calls = {result.call_id for result in message.tool_results} if message.role is Role.TOOL else set()
    notes: dict[str, list[str]] = {}
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ImagePart) and part.id in texts:
            if part.of_call in calls:
                notes.setdefault(part.of_call or "", []).append(texts[part.id])
            else:
                parts.append(TextPart(id=derived_id(part.id, "text"), index=0, text=texts[part.id]))
        else:
            parts.append(part)
    return with_parts(message, [_with_notes(part, notes) for part in parts])


def _with_notes(part: Part, notes: Mapping[str, Sequence[str]]) -> Part:
    if not isinstance(part, ToolResultPart) or part.call_id not in notes:
        return part
    output = "\n".join(filter(None, [part.output, *notes[part.call_id]]))
    return part.model_copy(update={"output": output, "tokens": 0})


def _placed(part: Part, index: int) -> Part:
    tokens = part.tokens or estimate_part(part)
    if (part.index, part.tokens) == (index, tokens):
        return part
    return part.model_copy(update={"index": index, "tokens": tokens})


def control_message(source: Message, purpose: str, parts: Sequence[Part]) -> Message:
    """A control message derived from `source`, at its position in the history."""
    return derived_message(source, derived_id(source.id, purpose), Role.CONTROL, parts)


def text_part(text: str, *keys: str) -> TextPart:
    """A text added by Palimpsest, with an id derived from `keys`."""
    return TextPart(id=derived_id(*keys), index=0, text=text)


def derived_message(source: Message, id: str, role: Role, parts: Sequence[Part]) -> Message:
    """A message added by Palimpsest at the position of `source`."""
    return with_parts(Message(id=id, seq=source.seq, role=role, parts=(), created_at=source.created_at), parts)


def _is_verbatim(message: Message, rule: ReasoningRule) -> bool:
    """Whether the message's bound blocks only follow parts that are sent as the model wrote them. Calls are not: they
    get Palimpsest's own ids on the wire."""
    before = True
    for part in message.parts:
        if is_bound(part) and not before:
            return False
        before = before and (isinstance(part, TextPart) or is_bound(part)) and _goes_out(part, message, rule)
    return True


def _goes_out(part: Part, message: Message, rule: ReasoningRule) -> bool:
    assistant = message.role is Role.ASSISTANT
    match part:
        case TextPart():
            return bool(part.text) and not part.text.isspace()
        case ReasoningPart():
            return assistant and message.model == rule.model and not part.interrupted and _is_sent(part, rule)
        case ToolCallPart():
            return assistant
        case ImagePart():
            return not assistant
    return isinstance(part, ToolResultPart)


def _is_sent(part: ReasoningPart, rule: ReasoningRule) -> bool:
    """Whether there is anything to send of the model's own reasoning: its text, or what only its provider reads."""
    data = part.provider_data or {"type": "chat"}
    is_plain = data.get("type") == "chat" and not data.get("fields")
    return not is_plain or (rule.echo and bool(part.text.strip()))
