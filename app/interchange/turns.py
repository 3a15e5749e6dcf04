"""What is read of a foreign conversation before its calls and results are brought together, and the notes that stand
for what cannot be taken over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from pydantic import TypeAdapter

from app.errors import InvalidRequestError
from app.json_bytes import json_to_keep
from app.messages import ImagePart, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus

WireFormat = Literal["openai", "anthropic"]

NOTE_CHARS = 2_000
"""Maximum characters of foreign content in a note; the head of an unknown block says what it is, and encoded media
after it would say nothing."""
METADATA = frozenset(
    {
        "id",
        "type",
        "object",
        "created",
        "index",
        "status",
        "model",
        "stop_reason",
        "stop_sequence",
        "stop_details",
        "finish_reason",
        "usage",
        "container",
        "context_management",
        "cache_control",
        "caller",
        "detail",
    }
)
"""Fields that say how a message was made, sent or billed, but not what was said."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One foreign message. Parts have no ids yet, and calls and results carry their original ids; `after` holds what
    must follow the message and the results of its calls, in a separate message."""

    role: Role
    parts: list[Part] = field(default_factory=list)
    after: list[Part] = field(default_factory=list)

    @property
    def holds_something(self) -> bool:
        """Whether it has anything except white space."""
        return bool(self.after) or any(not isinstance(part, TextPart) or part.text.strip() for part in self.parts)

    def add_text(self, text: str) -> None:
        """Adds a text unless it is empty."""
        if text:
            self.parts.append(text_part(text))


Place = tuple[int, int]
"""Index of a turn and of a part in it."""
_PART: TypeAdapter[Part] = TypeAdapter(Part)


class PackedTurns:
    """Turns with their parts as JSON, in which short ones take a third of their memory, and long texts a byte for a
    letter whatever else is in them."""

    def __init__(self) -> None:
        self._turns: list[tuple[Role, tuple[bytes, ...], tuple[bytes, ...]]] = []

    def __len__(self) -> int:
        return len(self._turns)

    def __iter__(self) -> Iterator[Turn]:
        for role, parts, after in self._turns:
            yield Turn(role, list(map(_unpacked, parts)), list(map(_unpacked, after)))

    def append(self, turn: Turn) -> None:
        self._turns.append((turn.role, tuple(map(_packed, turn.parts)), tuple(map(_packed, turn.after))))

    def part(self, place: Place) -> Part:
        return _unpacked(self._turns[place[0]][1][place[1]])


def _packed(part: Part) -> bytes:
    return json_to_keep(part.__dict__)


def _unpacked(data: bytes) -> Part:
    return _PART.validate_python(orjson.loads(data))


def invalid(index: int, detail: str) -> InvalidRequestError:
    """The error for anything that is not a message; `index` counts from 0."""
    return InvalidRequestError(f"history.messages[{index}]: {detail}.", code="invalid_history", index=index)


def text_part(text: str) -> TextPart:
    return TextPart(id="", index=0, text=text)


def reasoning_part(text: str, provider_data: dict[str, Any] | None = None) -> ReasoningPart:
    return ReasoningPart(id="", index=0, text=text, provider_data=provider_data)


def image_part(media_type: str, data: str, size: tuple[int, int] | None) -> ImagePart:
    width, height = size or (None, None)
    return ImagePart(id="", index=0, media_type=media_type, data=data, width=width, height=height)


def call_part(call_id: str, name: str, arguments_text: str) -> ToolCallPart:
    return ToolCallPart(id="", index=0, call_id=call_id, name=name or "unknown", arguments_text=arguments_text)


def result_part(call_id: str, name: str, output: str, status: ToolStatus) -> ToolResultPart:
    size = len(output.encode())
    return ToolResultPart(id="", index=0, call_id=call_id, name=name, output=output, status=status, bytes=size)


def empty_message_note(role: Role) -> str:
    """Replaces an empty message."""
    return f"[An empty message of the {role} was here.]"


def unknown_block_note(block: Mapping[str, Any]) -> str:
    """Replaces a content block without a counterpart."""
    return f"[Content of a type that cannot be imported: {_shown(block)}]"


def unread_image_note(why: str) -> str:
    return f"[An image that cannot be imported: {why}]"


def linked_image_note(url: str) -> str:
    """Replaces an image that is stored elsewhere; nothing is ever fetched for a history."""
    return f"[An image that was not fetched: {_clipped(url)}]"


def document_note(names: Sequence[str]) -> str:
    """Heads a document's text: its title and its source."""
    return f"[Document: {_clipped(', '.join(names)) or 'untitled'}]"


def speaker_note(name: Any) -> str:
    """Gives the name that a message has for its speaker."""
    return f"[Name of the speaker: {_shown(name)}]"


def result_image_note(number: int) -> str:
    """Marks an image's position within a tool's result, which can only be text."""
    return f"[Image {number} of this result follows after the results.]"


RESULT_IMAGES = "[From the result of a tool call:]"
ASSISTANT_IMAGES = "[From the assistant's message:]"


def leftovers_note(fields: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """A note for each field that has a value and is neither `known` nor metadata."""
    for name, value in fields.items():
        if name not in known and name not in METADATA and value not in (None, "", [], {}, False):
            yield f"[Field {_clipped(name)} of the original: {_shown(value)}]"


def _shown(value: Any) -> str:
    return _clipped(value if isinstance(value, str) else orjson.dumps(value).decode())


def _clipped(text: str) -> str:
    if len(text) <= NOTE_CHARS:
        return text
    return f"{text[:NOTE_CHARS]}… ({len(text):,} characters in total)"
