"""One example of each event: what the documentation shows, checked by the types it documents."""

from __future__ import annotations

from datetime import UTC, datetime

from app.events import (
    LIVE_EVENTS,
    MessageCreated,
    MessageDequeued,
    MessageEdited,
    MessageQueued,
    MessageWithdrawn,
    PlanItem,
    PlanUpdated,
    ReasoningCompleted,
    ReasoningDelta,
    SessionCreated,
    SessionDeleted,
    SessionIdle,
    SessionRecovered,
    SessionRunning,
    SessionUpdated,
    StepFinished,
    StepRetrying,
    StepStarted,
    TextCompleted,
    TextDelta,
    ToolArguments,
    ToolCalled,
    ToolOutput,
    ToolResulted,
)
from app.messages import FinishReason, Message, Role, TextPart, ToolStatus, Usage, Value
from app.runtime.values import StreamItem
from app.sessions import (
    Approval,
    CompactionState,
    ContextState,
    Limits,
    Outcome,
    QueueMode,
    QueueState,
    SandboxSpec,
    Session,
    Status,
)

AT = datetime(2026, 11, 22, 10, 11, 12, 345_000, tzinfo=UTC)
SESSION_ID = "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"
MESSAGE_ID = "01936f5e-8d2b-7a10-8c44-5d6e7f809102"
PART_ID = "01936f5e-8d2c-7b21-9d55-6e7f80910213"
CALL_ID = "01936f5e-8d2d-7c32-ae66-7f8091021324"

TASK = "Write hello.py and run it."
USAGE = Usage(input_tokens=812, cache_read_tokens=2_048, output_tokens=96, cost_usd=0.0021)
CONTEXT = ContextState(tokens=2_860, limit=200_000, usable=168_000, source="reported")

SESSION = Session(
    id=SESSION_ID,
    title=None,
    task=TASK,
    status=Status.RUNNING,
    outcome=None,
    error=None,
    model="anthropic/claude-sonnet-5",
    created_at=AT,
    updated_at=AT,
    last_seq=1,
    steps=0,
    usage=Usage(),
    context=CONTEXT,
    compaction=CompactionState(),
    sandbox=SandboxSpec(kind="docker"),
    queue=QueueState(pending=1),
    limits=Limits(),
    approval=Approval(),
)

_MESSAGE = Message(
    id=MESSAGE_ID,
    seq=4,
    role=Role.USER,
    parts=(TextPart(id=PART_ID, index=0, tokens=7, text=TASK),),
    tokens=7,
    created_at=AT,
)

EVENTS: tuple[Value, ...] = (
    SessionCreated(session_id=SESSION_ID, at=AT, session=SESSION),
    SessionUpdated(session_id=SESSION_ID, at=AT, session=SESSION),
    SessionDeleted(session_id=SESSION_ID, at=AT, session=SESSION),
    SessionRunning(session_id=SESSION_ID, at=AT, trigger="message"),
    SessionIdle(session_id=SESSION_ID, at=AT, outcome=Outcome.COMPLETED, usage=USAGE, steps=2),
    SessionRecovered(session_id=SESSION_ID, at=AT, interrupted_step=2, closed_calls=(CALL_ID,)),
    MessageQueued(session_id=SESSION_ID, at=AT, message_id=MESSAGE_ID, mode=QueueMode.STEER, content=TASK, position=1),
    MessageEdited(
        session_id=SESSION_ID, at=AT, message_id=MESSAGE_ID, mode=QueueMode.FOLLOW_UP, content=TASK, position=1
    ),
    MessageWithdrawn(session_id=SESSION_ID, at=AT, message_id=MESSAGE_ID, mode=QueueMode.STEER),
    MessageDequeued(session_id=SESSION_ID, at=AT, message_id=MESSAGE_ID, mode=QueueMode.STEER),
    MessageCreated(session_id=SESSION_ID, at=AT, message=_MESSAGE),
    StepStarted(session_id=SESSION_ID, at=AT, step=1, attempt=1, message_id=MESSAGE_ID, context=CONTEXT),
    TextCompleted(session_id=SESSION_ID, at=AT, message_id=MESSAGE_ID, part_id=PART_ID, index=0, text="It works."),
    ReasoningCompleted(
        session_id=SESSION_ID, at=AT, message_id=MESSAGE_ID, part_id=PART_ID, index=0, text="A file, then a run."
    ),
    ToolCalled(
        session_id=SESSION_ID,
        at=AT,
        message_id=MESSAGE_ID,
        part_id=PART_ID,
        index=1,
        call_id=CALL_ID,
        name="execute_command",
        arguments={"command": "python hello.py"},
    ),
    ToolResulted(
        session_id=SESSION_ID,
        at=AT,
        message_id=MESSAGE_ID,
        part_id=PART_ID,
        index=0,
        call_id=CALL_ID,
        name="execute_command",
        status=ToolStatus.COMPLETED,
        output="hello\n",
        truncated=False,
        bytes=6,
        exit_code=0,
        duration_ms=41,
    ),
    StepFinished(
        session_id=SESSION_ID,
        at=AT,
        step=1,
        attempt=1,
        message_id=MESSAGE_ID,
        finish_reason=FinishReason.TOOL_CALLS,
        usage=USAGE,
        context=CONTEXT,
    ),
    StepRetrying(
        session_id=SESSION_ID,
        at=AT,
        message_id=MESSAGE_ID,
        attempt=1,
        delay_ms=1_000,
        code="provider_error",
        detail="The provider answered 529.",
    ),
    PlanUpdated(
        session_id=SESSION_ID,
        at=AT,
        items=(PlanItem(text="Write hello.py", status="completed"), PlanItem(text="Run it", status="in_progress")),
    ),
    TextDelta(session_id=SESSION_ID, at=AT, message_id=MESSAGE_ID, part_id=PART_ID, index=0, offset=3, text="works"),
    ReasoningDelta(
        session_id=SESSION_ID, at=AT, message_id=MESSAGE_ID, part_id=PART_ID, index=0, offset=0, text="A file"
    ),
    ToolArguments(
        session_id=SESSION_ID,
        at=AT,
        message_id=MESSAGE_ID,
        part_id=PART_ID,
        index=1,
        name="execute_command",
        offset=0,
        text='{"command": "py',
    ),
    ToolOutput(session_id=SESSION_ID, at=AT, call_id=CALL_ID, part_id=PART_ID, offset=0, stream="stdout", text="hel"),
)


def type_of(event: Value | type[Value]) -> str:
    """The event's name on the wire."""
    return str(getattr(event, "type"))  # noqa: B009  # `Value` itself has no type, each event has


def stream_items() -> list[StreamItem]:
    """The examples as a stream has them, durable ones numbered from 1."""
    items = []
    for seq, event in enumerate(EVENTS, start=1):
        live = isinstance(event, LIVE_EVENTS)
        items.append(StreamItem(type_of(event), None if live else seq, event.model_dump_json().encode()))
    return items
