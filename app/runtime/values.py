"""What the service takes and what it answers: the values between the API and the runtime, and the API's schemas."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    TypeAdapter,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.eventlog.log import StreamItem as StreamItem
from app.interchange import WireFormat
from app.messages import FinishReason, Message, Timestamp, ToolCallPart, ToolResultPart, Usage, Value, clean_text
from app.sessions import Approval, CompactionEvent, ContextState, QueueMode, SandboxSpec, Session

MAX_CONTENT_CHARS = 1_000_000
"""Longest message; a JSON body is refused over 1 MiB anyway."""

MAX_HISTORY_MESSAGES = 100_000
"""Most messages of an imported conversation, which are held in memory together until they are stored."""

MAX_NUMBER = 2**53 - 1
"""Largest number in a request: what every JSON implementation reads exactly, and well within the database's 64 bits."""

SANDBOX_KINDS = ("docker", "bubblewrap")
"""What a request may ask for. `local-unsafe` is understood too, so that who asks for it learns that it is forbidden."""

_CLIENT_ID = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _number(value: Any) -> Any:
    """JSON knows one kind of number, so 50.0 is 50; but true is no number, and neither is "50"."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


def _not_blank(text: str) -> str:
    """No provider takes a message of white space alone, so the model would never see it."""
    if not text.strip():
        raise PydanticCustomError("blank", "There should be more than white space")
    return text


def _uuid7(text: str) -> str:
    if not re.fullmatch(_CLIENT_ID, text):
        raise PydanticCustomError("uuid7", "Input should be a UUIDv7 in lower case")
    return text


def _sandbox_kind(value: Any) -> Any:
    if value not in (*SANDBOX_KINDS, "local-unsafe"):
        raise PydanticCustomError("sandbox_kind", f"Input should be {' or '.join(map(repr, SANDBOX_KINDS))}")
    return value


def _sandbox(value: Any) -> Any:
    """A kind or an object, whichever the input's type says, so that errors never speak of the other."""
    if isinstance(value, str):
        return _sandbox_kind(value)
    if isinstance(value, dict):
        return SandboxRequest.model_validate(value)
    if isinstance(value, SandboxRequest):
        return value
    raise PydanticCustomError("sandbox", f"Input should be {', '.join(map(repr, SANDBOX_KINDS))} or an object")


def _compaction(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise PydanticCustomError("compaction", "Input should be a policy's name or an object")
    return value


def _approval_policy(value: Any) -> Any:
    if isinstance(value, dict):
        return _PATTERNS.validate_python(value)
    if value not in ("never", "always"):
        raise PydanticCustomError("approval_policy", "Input should be 'never', 'always' or an object")
    return value


_PATTERNS = TypeAdapter(dict[str, list[str]])

JsonNumber = BeforeValidator(_number)
"""Comes last, after the bounds: they are in the schema only where they stand next to the type."""

Text = Annotated[str, BeforeValidator(_clean)]
ModelName = Annotated[str, BeforeValidator(_clean), StringConstraints(min_length=1, max_length=300)]
Content = Annotated[
    str,
    BeforeValidator(_clean),
    StringConstraints(min_length=1, max_length=MAX_CONTENT_CHARS),
    AfterValidator(_not_blank),
    Field(json_schema_extra={"pattern": r"\S"}),
]
Title = Annotated[str, BeforeValidator(_clean), StringConstraints(min_length=1, max_length=300)]
ClientId = Annotated[
    str,
    AfterValidator(_uuid7),
    Field(
        description="A UUIDv7 of the client's own: sending it again makes a retry safe.",
        json_schema_extra={"pattern": _CLIENT_ID},
    ),
]
SandboxKind = Annotated[
    Literal["docker", "bubblewrap", "local-unsafe"],
    BeforeValidator(_sandbox_kind),
    Field(json_schema_extra={"enum": list(SANDBOX_KINDS)}),
]
Compaction = Annotated[str | dict[str, Any], BeforeValidator(_compaction)]


class LimitsPatch(Value):
    """Limits to set; a name that is left out keeps its value, null lifts the limit."""

    max_steps: Annotated[int, Field(ge=1, le=MAX_NUMBER), JsonNumber] | None = None
    max_seconds: Annotated[float, Field(gt=0, le=MAX_NUMBER), JsonNumber] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, le=MAX_NUMBER), JsonNumber] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MAX_NUMBER), JsonNumber] | None = None


class SandboxRequest(SandboxSpec):
    """A kind of sandbox and limits within the operator's; what is left out is as the operator set it."""

    kind: SandboxKind
    image: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    network: StrictBool | None = None
    memory_mb: Annotated[int, Field(ge=64, le=MAX_NUMBER), JsonNumber] | None = None
    cpus: Annotated[float, Field(gt=0, le=MAX_NUMBER), JsonNumber] | None = None
    pids: Annotated[int, Field(ge=16, le=MAX_NUMBER), JsonNumber] | None = None


class ApprovalRequest(Approval):
    """Which calls wait for a person, and for how long, in seconds."""

    policy: Annotated[Literal["never", "always"] | dict[str, list[str]], BeforeValidator(_approval_policy)] = "never"
    timeout_s: Annotated[float, Field(gt=0, le=MAX_NUMBER), JsonNumber] = 300


class HistoryImport(Value):
    """A conversation from elsewhere to go on from."""

    format: WireFormat
    messages: Annotated[
        list[Any],
        Field(
            max_length=MAX_HISTORY_MESSAGES,
            description="Messages of Chat Completions or of the Messages API, oldest first; repaired where broken.",
            json_schema_extra={
                "items": {"type": "object", "properties": {"role": {"type": "string"}}, "required": ["role"]}
            },
        ),
    ]


class SessionCreate(Value):
    """`POST /v1/sessions`. With `task`, the task is queued and the run starts."""

    id: ClientId | None = None
    task: Content | None = None
    title: Title | None = None
    model: ModelName | None = None
    system_prompt: Annotated[str, BeforeValidator(_clean), StringConstraints(max_length=200_000)] | None = None
    sandbox: Annotated[SandboxKind | SandboxRequest, BeforeValidator(_sandbox)] | None = None
    compaction: Compaction | None = None
    limits: LimitsPatch | None = None
    approval: ApprovalRequest | None = None
    tools: list[str] | None = Field(default=None, description="Names of the tools to offer; all of them if left out.")
    history: HistoryImport | None = None
    metadata: dict[str, Any] | None = None


class SessionPatch(Value):
    """`PATCH /v1/sessions/{id}`; takes effect from the next step. What is left out stays."""

    title: Title | None = None
    model: ModelName | None = None
    system_prompt: Annotated[str, BeforeValidator(_clean), StringConstraints(max_length=200_000)] | None = None
    tools: list[str] | None = None
    compaction: Compaction | None = None
    limits: LimitsPatch | None = None
    approval: ApprovalRequest | None = None
    metadata: dict[str, Any] | None = None


class CancelRequest(Value):
    clear_queue: StrictBool = False


class QueueAdd(Value):
    """`POST /v1/sessions/{id}/queue`."""

    content: Content
    mode: QueueMode = QueueMode.STEER
    id: ClientId | None = None


class QueueEdit(Value):
    """Edits a pending message; at least one of the two."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in ("content", "mode")
            ]
        }
    )

    content: Content | None = None
    mode: QueueMode | None = None

    @model_validator(mode="after")
    def _something(self) -> QueueEdit:
        if self.content is None and self.mode is None:
            raise PydanticCustomError("empty_edit", "Give content, mode or both")
        return self


class QueueReceipt(Value):
    """A queued message's place: `position` counts from 1 in delivery order and is 0 once it is not pending."""

    id: str
    position: int
    mode: QueueMode
    status: Literal["pending", "delivered", "withdrawn"]


class QueuedMessage(QueueReceipt):
    content: str
    created_at: Timestamp


class SessionPage(Value):
    items: tuple[Session, ...]
    next_cursor: str | None


class QueuePage(Value):
    items: tuple[QueuedMessage, ...]
    last_seq: int


class MessagePage(Value):
    """`next_cursor` goes into `after` of the next request; null at the end."""

    items: tuple[Message, ...]
    last_seq: int
    next_cursor: str | None


class ExportPage(Value):
    """A part of the history in a provider's wire format; `next_cursor` as in the history itself."""

    items: tuple[dict[str, Any], ...]
    last_seq: int
    next_cursor: str | None


class StepView(Value):
    """One attempt at a step. `compaction_round` is the last round before it, 0 if none; `duration_ms` is null while it
    runs."""

    step: int
    attempt: int
    message_id: str
    generation: int
    finish_reason: FinishReason | None
    usage: Usage
    context: ContextState
    compaction_round: int
    started_at: Timestamp
    duration_ms: int | None


class StepPage(Value):
    items: tuple[StepView, ...]
    last_seq: int
    next_cursor: str | None


class ContextItemView(Value):
    """A message as it goes out. `reason` says why it is not simply the stored one."""

    message: Message
    tokens: int
    reason: str | None


class ToolView(Value):
    name: str
    description: str
    parameters: dict[str, Any]
    tokens: int


class SystemView(Value):
    text: str
    tokens: int


class ContextView(Value):
    """Exactly what a step sends. `step` is null for the next one."""

    session_id: str
    last_seq: int
    step: int | None
    generation: int
    model: str
    system: SystemView
    tools: tuple[ToolView, ...]
    messages: tuple[ContextItemView, ...]
    tokens: int
    limit: int
    usable: int
    source: str


class ToolCallView(Value):
    """A call and its result; `result` is null while it is open."""

    message_id: str
    call: ToolCallPart
    result_message_id: str | None
    result: ToolResultPart | None


class UsageByModel(Value):
    model: str
    day: str
    steps: int
    usage: Usage


class UsageReport(Value):
    total: Usage
    items: tuple[UsageByModel, ...]


class PricesView(Value):
    """US dollars per million tokens; null where unknown."""

    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None


class ModelView(Value):
    name: str
    provider: str
    context_window: int
    window_source: Literal["setting", "catalog", "server", "assumed"]
    max_output_tokens: int | None
    prices: PricesView
    key_present: bool
    default: bool
    description: str


class ModelList(Value):
    items: tuple[ModelView, ...]


class FileView(Value):
    path: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    modified_at: Timestamp


class FileList(Value):
    path: str
    items: tuple[FileView, ...]
    truncated: bool


class Component(Value):
    """A part of the server and whether it answers."""

    ok: bool
    detail: str


class Readiness(Value):
    ready: bool
    components: dict[str, Component]


@dataclass(frozen=True, slots=True)
class RawOutput:
    """A call's raw output: a file to send, or bytes where it is small."""

    size: int
    path: Path | None = None
    data: bytes | None = None


EventStream = AsyncIterator[list[StreamItem]]
"""Events in batches: what was waiting for this reader when it came back for more."""


class CompactionCreate(Value):
    """A round that is asked for. `dry_run` only says what it would do."""

    policy: Literal["reactive", "threshold", "handoff"] | None = Field(
        None, description="Left out, it is the session's own."
    )
    instructions: Annotated[Text, StringConstraints(min_length=1, max_length=10_000)] | None = Field(
        None, description="What the summary should keep, in plain words."
    )
    dry_run: StrictBool = False


class CompactionPreview(Value):
    """What a round would do now. `tokens_after` is measured with a summary made without a model, whose length is about
    that of a model's."""

    policy: str
    first_message_id: str | None
    last_message_id: str | None
    messages_compacted: int
    kept_message_ids: tuple[str, ...]
    outputs_pruned: int
    call_ids: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    limit: int
    usable: int
    trigger: int


class CompactionList(Value):
    """All rounds of a session, oldest first."""

    items: tuple[CompactionEvent, ...]
    last_seq: int
