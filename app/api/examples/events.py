"""One example of each event."""

from __future__ import annotations

from app.api.examples import records
from app.api.examples.records import (
    AT,
    CALL_ID,
    CONTEXT,
    EXPIRES_AT,
    MESSAGE_ID,
    PART_ID,
    SESSION,
    SESSION_ID,
    TASK,
    USAGE,
    USER,
)
from app.events import (
    LIVE_EVENTS,
    ApprovalRequested,
    ApprovalResolved,
    Event,
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
from app.messages import FinishReason, ToolStatus
from app.runtime.values.history import StreamItem
from app.sessions import Outcome, QueueMode

EVENTS: tuple[Event, ...] = (
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
    MessageCreated(session_id=SESSION_ID, at=AT, message=USER),
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
    ApprovalRequested(
        session_id=SESSION_ID,
        at=AT,
        call_id=CALL_ID,
        name="execute_command",
        arguments={"command": "python hello.py"},
        expires_at=EXPIRES_AT,
    ),
    ApprovalResolved(session_id=SESSION_ID, at=AT, call_id=CALL_ID, decision="approve", by="user"),
    PlanUpdated(
        session_id=SESSION_ID,
        at=AT,
        items=(PlanItem(text="Write hello.py", status="completed"), PlanItem(text="Run it", status="in_progress")),
    ),
    *records.COMPACTION_EVENTS,
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


def stream_items() -> list[StreamItem]:
    """The examples as stream items; durable ones are numbered from 1."""
    items = []
    for seq, event in enumerate(EVENTS, start=1):
        live = isinstance(event, LIVE_EVENTS)
        items.append(StreamItem(event.type, None if live else seq, event.model_dump_json().encode()))
    return items
