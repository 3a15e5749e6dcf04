"""The public event contract: every durable event of a session's stream. The live ones are in `api/live_events.py`.

An event's `type` is the SSE event's name and its fields are the JSON data. It gets its seq when it is committed. They
are sorted by subject: session, source, MCP, queue, messages, steps, parts, approvals, plan, workspace, compaction.
"""

from __future__ import annotations

from operator import not_
from typing import Any, ClassVar, Literal

from pydantic import Field

from app.messages import FinishReason, ImagePart, Message, StoredContent, Timestamp, ToolStatus, Usage, Value, is_none
from app.sessions import (
    ApprovalDecision,
    ApprovalEnd,
    CommandStatus,
    CompactionFields,
    CompactionReason,
    ContextState,
    Outcome,
    PlanItem,
    PruneReason,
    QueueMode,
    Rung,
    Session,
)

_durable: list[type[SessionEvent]] = []


class Event(Value):
    """Base of all events."""

    type: ClassVar[str]
    session_id: str
    at: Timestamp


class SessionEvent(Event):
    """Base of the durable events, which are its subclasses with a `type`."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        if "type" in vars(cls):
            _durable.append(cls)


class SessionCreated(SessionEvent):
    type: ClassVar[str] = "session.created"
    session: Session


class SessionUpdated(SessionEvent):
    type: ClassVar[str] = "session.updated"
    session: Session


class SessionDeleted(SessionEvent):
    type: ClassVar[str] = "session.deleted"
    session: Session


class SessionRunning(SessionEvent):
    type: ClassVar[str] = "session.running"
    trigger: Literal["message", "resume", "recovery"]


class SessionIdle(SessionEvent):
    """The last event of a run; `usage` and `steps` are the run's own. `answer` is the text of its final message, and
    `output` the value that it submitted; null unless it completed."""

    type: ClassVar[str] = "session.idle"
    outcome: Outcome
    error: dict[str, Any] | None = None
    answer: str | None = None
    output: Any = None
    usage: Usage
    steps: int


class SourceStarted(SessionEvent):
    """The session's repository is being cloned."""

    type: ClassVar[str] = "source.started"
    url: str
    ref: str | None = None


class SourceCompleted(SessionEvent):
    type: ClassVar[str] = "source.completed"
    commit: str


class SourceFailed(SessionEvent):
    """The run fails with this code; a resume tries again."""

    type: ClassVar[str] = "source.failed"
    code: str
    detail: str


class CommandStarted(SessionEvent):
    """A command runs in the background; `command_id` is the id of the call that started it."""

    type: ClassVar[str] = "command.started"
    command_id: str
    command: str


class CommandEnded(SessionEvent):
    """A background command has ended. The model is notified before its next step."""

    type: ClassVar[str] = "command.ended"
    command_id: str
    status: CommandStatus
    exit_code: int | None
    bytes: int
    remark: str | None = None


class SubagentStarted(SessionEvent):
    """A call of `delegate` is carried out by the session `subagent_id`, which has its own events."""

    type: ClassVar[str] = "subagent.started"
    call_id: str
    subagent_id: str
    title: str | None
    model: str


class SubagentFinished(SessionEvent):
    """The sub-agent has ended; the call's result follows. `usage` and `steps` are the sub-agent's; the session's usage
    includes them. One that is cancelled with its session may still finish a step, which they do not include."""

    type: ClassVar[str] = "subagent.finished"
    call_id: str
    subagent_id: str
    outcome: Outcome
    error: dict[str, Any] | None = None
    usage: Usage
    steps: int


class McpReady(SessionEvent):
    """An MCP server is connected, or its list has changed: `tools` are the names of those that the model may use, and
    `left_out` says why others cannot be used, by the server's names."""

    type: ClassVar[str] = "mcp.ready"
    server: str
    protocol: str
    tools: tuple[str, ...]
    left_out: dict[str, str] = Field(default_factory=dict)


class McpFailed(SessionEvent):
    """An MCP server cannot be used, and its tools are not offered. It is tried again while the session works."""

    type: ClassVar[str] = "mcp.failed"
    server: str
    code: str
    detail: str


class SessionRecovered(SessionEvent):
    type: ClassVar[str] = "session.recovered"
    interrupted_step: int | None = None
    closed_calls: tuple[str, ...] = ()
    workspace_as_of: Timestamp | None = None
    """Set if the workspace was restored from a snapshot: later changes of its files may be missing."""


class _QueueEvent(SessionEvent):
    message_id: str
    mode: QueueMode


class _QueuedText(_QueueEvent):
    content: StoredContent
    position: int


class MessageQueued(_QueuedText):
    type: ClassVar[str] = "message.queued"


class MessageEdited(_QueuedText):
    type: ClassVar[str] = "message.edited"


class MessageWithdrawn(_QueueEvent):
    type: ClassVar[str] = "message.withdrawn"


class MessageDequeued(_QueueEvent):
    type: ClassVar[str] = "message.dequeued"


class MessageCreated(SessionEvent):
    """A user, control or summary message has entered the history."""

    type: ClassVar[str] = "message.created"
    message: Message


class StepStarted(SessionEvent):
    """`message_id` is the assistant message that this attempt will fill."""

    type: ClassVar[str] = "step.started"
    step: int
    attempt: int
    message_id: str
    context: ContextState


class _PartEvent(SessionEvent):
    message_id: str
    part_id: str
    index: int


class _Written(_PartEvent):
    text: str
    interrupted: bool = False


class TextCompleted(_Written):
    type: ClassVar[str] = "text.completed"


class ReasoningCompleted(_Written):
    type: ClassVar[str] = "reasoning.completed"


class ToolCalled(_PartEvent):
    """`arguments` is an object, or the raw text if the model did not write one. With `waits_for_client` a client has to
    carry out the call now, and post its result; a call that first waited for something else is then sent again."""

    type: ClassVar[str] = "tool.call"
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    waits_for_client: bool = Field(default=False, exclude_if=not_)


class ToolResulted(_PartEvent):
    type: ClassVar[str] = "tool.result"
    call_id: str
    name: str
    status: ToolStatus
    output: str
    truncated: bool
    bytes: int
    exit_code: int | None = None
    duration_ms: int
    images: tuple[ImagePart, ...] | None = Field(default=None, exclude_if=is_none)
    """Images of the result, which are parts of its message."""


class StepFinished(SessionEvent):
    """Exactly one for each step, after its tool results; `usage` is the step's own. `input_transformations` are the
    changes that the provider reports it made to the request, such as dropped thinking."""

    type: ClassVar[str] = "step.finished"
    step: int
    attempt: int
    message_id: str
    finish_reason: FinishReason
    usage: Usage
    context: ContextState
    input_transformations: tuple[dict[str, Any], ...] | None = Field(default=None, exclude_if=is_none)


class StepRetrying(SessionEvent):
    """Voids `message_id` with all its parts."""

    type: ClassVar[str] = "step.retrying"
    message_id: str
    attempt: int
    delay_ms: int
    code: str
    detail: str


class ApprovalRequested(SessionEvent):
    """The call waits for approval. Without a decision by `expires_at` it is denied; null means that it waits without a
    timeout. No call of its message starts before all of them are decided."""

    type: ClassVar[str] = "approval.requested"
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    expires_at: Timestamp | None
    subagent_id: str | None = Field(default=None, exclude_if=is_none)
    """The sub-agent whose call it is; its approvals are decided in either session."""


class ApprovalResolved(SessionEvent):
    """The call no longer waits: `decision` is `cancelled` if the run ended or was interrupted before a decision."""

    type: ClassVar[str] = "approval.resolved"
    call_id: str
    decision: ApprovalDecision
    by: ApprovalEnd
    subagent_id: str | None = Field(default=None, exclude_if=is_none)


class PlanUpdated(SessionEvent):
    type: ClassVar[str] = "plan.updated"
    items: tuple[PlanItem, ...]


class CheckpointFailed(SessionEvent):
    """The workspace cannot be restored to how it was at the beginning or the end of the run, which continues."""

    type: ClassVar[str] = "checkpoint.failed"
    reason: Literal["run_started", "run_ended"]
    code: str
    detail: str


class WorkspaceRestored(SessionEvent):
    """The workspace is again as in `checkpoint_id`; `saved_id` is the checkpoint that was taken before."""

    type: ClassVar[str] = "workspace.restored"
    checkpoint_id: str
    saved_id: str


class PruneCompleted(SessionEvent):
    """Old tool outputs or images were cleared from the context; the history keeps them. Tokens are those of the
    context. `image_ids` are the parts that are cleared images."""

    type: ClassVar[str] = "prune.completed"
    reason: PruneReason
    call_ids: tuple[str, ...]
    outputs_pruned: int
    tokens_before: int
    tokens_after: int
    tokens_saved: int
    tools: tuple[str, ...]
    image_ids: tuple[str, ...] | None = Field(default=None, exclude_if=is_none)


class CompactionStarted(SessionEvent):
    """A round has started; a `background` one is prepared while the agent keeps working."""

    type: ClassVar[str] = "compaction.started"
    round: int
    reason: CompactionReason
    policy: str
    tokens_before: int
    limit: int
    background: bool = False


class CompactionCompleted(SessionEvent, CompactionFields):
    """The context is smaller from here on; `rung` says by which means."""

    type: ClassVar[str] = "compaction.completed"
    tokens_after: int
    was_pruned: bool
    was_summarized: bool


class CompactionFailed(SessionEvent):
    """A rung failed; `next` is the rung tried next, null if the round failed."""

    type: ClassVar[str] = "compaction.failed"
    round: int
    rung: Rung
    code: str
    detail: str
    usage: Usage
    next: Rung | None


class CompactionRetrying(SessionEvent):
    """The model did not answer the request for the round's summary; the next attempt comes after `delay_ms`."""

    type: ClassVar[str] = "compaction.retrying"
    round: int
    attempt: int
    delay_ms: int
    code: str
    detail: str


class _RoundEnd(SessionEvent):
    round: int
    usage: Usage | None = None


class CompactionCancelled(_RoundEnd):
    type: ClassVar[str] = "compaction.cancelled"


class CompactionReverted(_RoundEnd):
    """The context is as if the round had not happened; later messages and marks stay."""

    type: ClassVar[str] = "compaction.reverted"


class CompactionDiscarded(_RoundEnd):
    """A summary prepared in the background was not needed or no longer applies; `usage` is its cost."""

    type: ClassVar[str] = "compaction.discarded"


DURABLE_EVENTS = tuple(_durable)
