"""Messages, their parts and token usage: plain typed values that all packages share.

All models are frozen and forbid unknown fields; they are both the values of the loop and the schemas of the API.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

import orjson
import uuid_utils.compat as uuid
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, computed_field

from app.json_bounds import has_more_values


def new_id() -> str:
    """A UUIDv7 in its usual text form; sorts by time of creation."""
    return str(uuid.uuid7())


def now() -> datetime:
    """The current time in UTC, truncated to milliseconds, the precision of the API."""
    t = datetime.now(UTC)
    return t.replace(microsecond=t.microsecond // 1000 * 1000)


def rfc3339(at: datetime) -> str:
    """`2026-11-22T10:11:12.345Z`."""
    moment = at if at.tzinfo is UTC else at.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


_TIMESTAMP = Field(description="RFC 3339, UTC, milliseconds.", examples=["2026-11-22T10:11:12.345Z"])
Timestamp = Annotated[datetime, PlainSerializer(rfc3339, return_type=str, when_used="json"), _TIMESTAMP]
TimestampText = Annotated[str, _TIMESTAMP]
"""A `Timestamp` as clients get it."""


def parse_arguments(text: str) -> dict[str, Any] | str:
    """A tool call's arguments as an object, or the text itself if it is not a JSON object. Empty text is `{}`, which is
    how several servers send a call without arguments."""
    if not text.strip():
        return {}
    if has_too_many_values(text):
        return text
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return parsed if isinstance(parsed, dict) and not is_deeper(parsed, MAX_ARGUMENT_DEPTH) else text


MAX_ARGUMENT_VALUES = 10_000
"""Maximum values in the arguments of one call; no tool needs more than a few hundred. A megabyte of empty objects takes
a hundred megabytes once parsed, and a gigabyte as validation errors."""


def has_too_many_values(arguments_text: str) -> bool:
    """Whether a call's arguments have too many values to be parsed."""
    is_long = len(arguments_text) > MAX_ARGUMENT_VALUES
    return is_long and has_more_values(arguments_text.encode("utf-8", "replace"), MAX_ARGUMENT_VALUES)


MAX_ARGUMENT_DEPTH = 100
"""Maximum levels of nesting of arguments shown as an object; serializers fail somewhere above 200."""


def is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and arrays are nested in `value` at least this many levels deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


_MISSING = object()


class Value(BaseModel):
    """Base of all values: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, source: object, /, **others: Any) -> Self:
        """A view of a row or another value: the fields that it shares with `source`, and `others`."""
        if source is None:
            return cls(**others)
        named = ((name, getattr(source, name, _MISSING)) for name in cls.model_fields if name not in others)
        return cls(**{name: value for name, value in named if value is not _MISSING}, **others)


class Usage(Value):
    """Tokens and cost of one or more model calls. `input_tokens` excludes cached tokens; `reasoning_tokens` are part of
    `output_tokens`; `cost_usd` is None if a price is unknown."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def prompt_tokens(self) -> int:
        """All tokens that the model read, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=round((self.cost_usd or 0.0) + (other.cost_usd or 0.0), 10) if known else None,
        )


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    CONTROL = "control"
    """Text added by Palimpsest (resume, limit, continue), sent to the model in the user's role but never shown as the
    user's."""


class ToolStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    ERROR = "error"
    DENIED = "denied"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class FinishReason(StrEnum):
    """How a step's model call ended; the first five come from the provider, the rest from Palimpsest."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"
    INTERRUPTED = "interrupted"


def is_none(value: object) -> bool:
    """For `exclude_if` of fields that are left out of the JSON if they are null."""
    return value is None


class PartBase(Value):
    """`index` is the part's position in its message, `tokens` its estimated size."""

    id: str
    index: int
    tokens: int = 0


class TextPart(PartBase):
    """`phase` is how some models label their own text, commentary or final answer; it is sent back unchanged."""

    type: Literal["text"] = "text"
    text: str
    interrupted: bool = False
    phase: str | None = None


class ReasoningPart(PartBase):
    """`provider_data` is the provider's own form of the reasoning, sent back unchanged to the model that wrote it, or
    not at all: a block with its signature or encrypted content, or of type `chat` the field in which the text came
    (`place`) and the message's other fields (`fields`)."""

    type: Literal["reasoning"] = "reasoning"
    text: str
    interrupted: bool = False
    provider_data: dict[str, Any] | None = None


class ToolCallPart(PartBase):
    """A call made by the model. `call_id` is Palimpsest's own, also on the wire. `arguments_text` is the JSON exactly
    as the model wrote it, so that the provider's prompt cache matches; `arguments` is its value. `provider_data` are
    the provider's own fields of the call and of its `function`, such as a signature, sent back to the model that made
    it."""

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    arguments_text: str = Field(exclude=True)
    provider_data: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    status: ToolStatus = ToolStatus.PENDING

    @computed_field  # type: ignore[prop-decorator]
    @property
    def arguments(self) -> dict[str, Any] | str:
        """The arguments as an object; the raw text if it is not a JSON object."""
        return parse_arguments(self.arguments_text)


class ToolResultPart(PartBase):
    """`output` is what the model sees; the raw output has `bytes` bytes and is longer if `truncated`."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    output: str
    status: ToolStatus
    truncated: bool = False
    bytes: int = 0
    exit_code: int | None = None
    duration_ms: int = 0
    compacted_at: Timestamp | None = None
    original_tokens: int | None = None


class ImagePart(PartBase):
    """An image. `path` is the workspace file that it was, and `of_call` the call whose result it belongs to."""

    type: Literal["image"] = "image"
    media_type: str
    data: str | None = Field(
        default=None,
        description="The image, base64; missing if `GET /v1/sessions/{id}/images/{digest}` has it.",
        exclude_if=is_none,
    )
    digest: str | None = Field(default=None, description="SHA-256 of the image's bytes.", exclude_if=is_none)
    bytes: int | None = Field(default=None, exclude_if=is_none)
    width: int | None = None
    height: int | None = None
    path: str | None = Field(default=None, exclude_if=is_none)
    of_call: str | None = Field(default=None, exclude_if=is_none)
    compacted_at: Timestamp | None = Field(default=None, exclude_if=is_none)
    original_tokens: int | None = Field(default=None, exclude_if=is_none)


class CompactionMarkerPart(PartBase):
    type: Literal["compaction_marker"] = "compaction_marker"
    round: int


Part = Annotated[
    TextPart | ReasoningPart | ToolCallPart | ToolResultPart | ImagePart | CompactionMarkerPart,
    Field(discriminator="type"),
]


def clearing_key(part: Part) -> str | None:
    """The id of the part among those cleared from a context: a result's call, or an image's own id; None for a part
    that is never cleared."""
    match part:
        case ToolResultPart():
            return part.call_id
        case ImagePart():
            return part.id
    return None


class Message(Value):
    """One message of a session's history. `seq` is the seq of the event that added it and orders the history; `round`
    is the compaction that covers it; `voided_at` marks an attempt that was retried."""

    id: str
    seq: int
    role: Role
    parts: tuple[Part, ...]
    tokens: int = 0
    model: str | None = None
    finish_reason: FinishReason | None = None
    error: dict[str, Any] | None = None
    is_summary: bool = False
    round: int | None = None
    voided_at: Timestamp | None = None
    created_at: Timestamp

    @property
    def text(self) -> str:
        """The message's text parts, joined."""
        return "".join(p.text for p in self.parts if isinstance(p, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolCallPart))

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolResultPart))


class TextContent(Value):
    type: Literal["text"] = "text"
    text: str


class ImageContent(Value):
    """An image of a message, whose bytes `GET /v1/sessions/{id}/images/{digest}` returns. `path` is the workspace file
    that it was when the message was accepted."""

    type: Literal["image"] = "image"
    media_type: str
    digest: str = Field(description="SHA-256 of the image's bytes.")
    bytes: int
    width: int | None = None
    height: int | None = None
    path: str | None = None


class FileContent(Value):
    """A file of the workspace, which the model reads if it needs it."""

    type: Literal["file"] = "file"
    path: str


ContentPart = Annotated[TextContent | ImageContent | FileContent, Field(discriminator="type")]
StoredContent = str | tuple[ContentPart, ...]
"""What a user wrote, as it is stored and shown: a text, or parts."""


def utf8_length(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def clean_text(text: str) -> str:
    """NUL and lone surrogates become U+FFFD, as the API promises for incoming text; they cannot be stored or sent."""
    if "\x00" not in text and text.isascii():
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


CleanText = Annotated[str, BeforeValidator(lambda value: clean_text(value) if isinstance(value, str) else value)]
"""Text from a client or a model, after `clean_text`."""
