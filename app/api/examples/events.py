"""One example of each event."""

from __future__ import annotations

from app.api.examples import records
from app.api.examples.records import (
    ANSWER,
    CALL,
    CALL_ID,
    CONTEXT,
    EXPIRES_AT,
    MESSAGE_ID,
    OUTPUT,
    PART,
    PART_ID,
    RESULT,
    SENT,
    SESSION,
    SUBAGENT_ID,
    TASK,
    USAGE,
    USER,
)
from app.api.live_events import LIVE_EVENTS, ReasoningDelta, SessionActivity, TextDelta, ToolArguments, ToolOutput
from app.events import (
    ApprovalRequested,
    ApprovalResolved,
    CheckpointFailed,
    CommandEnded,
    CommandStarted,
    Event,
    McpFailed,
    McpReady,
    MessageCreated,
    MessageDequeued,
    MessageEdited,
    MessageQueued,
    MessageWithdrawn,
    PlanUpdated,
    ReasoningCompleted,
    SessionCreated,
    SessionDeleted,
    SessionIdle,
    SessionRecovered,
    SessionRunning,
    SessionUpdated,
    SourceCompleted,
    SourceFailed,
    SourceStarted,
    StepFinished,
    StepRetrying,
    StepStarted,
    SubagentFinished,
    SubagentStarted,
    TextCompleted,
    ToolCalled,
    ToolResulted,
    WorkspaceRestored,
)
from app.messages import FinishReason
from app.runtime.values.history import StreamItem
from app.sessions import Activity, Outcome, PlanItem, QueueMode

EVENTS: tuple[Event, ...] = (
    SessionCreated(**SENT, session=SESSION),
    SessionUpdated(**SENT, session=SESSION),
    SessionDeleted(**SENT, session=SESSION),
    SessionRunning(**SENT, trigger="message"),
    SessionIdle(**SENT, outcome=Outcome.COMPLETED, answer=ANSWER, output=OUTPUT, usage=USAGE, steps=2),
    SessionRecovered(**SENT, interrupted_step=2, closed_calls=(CALL_ID,)),
    MessageQueued(**SENT, message_id=MESSAGE_ID, mode=QueueMode.STEER, content=TASK, position=1),
    MessageEdited(**SENT, message_id=MESSAGE_ID, mode=QueueMode.FOLLOW_UP, content=TASK, position=1),
    MessageWithdrawn(**SENT, message_id=MESSAGE_ID, mode=QueueMode.STEER),
    MessageDequeued(**SENT, message_id=MESSAGE_ID, mode=QueueMode.STEER),
    MessageCreated(**SENT, message=USER),
    StepStarted(**SENT, step=1, attempt=1, message_id=MESSAGE_ID, context=CONTEXT),
    TextCompleted(**SENT, **PART, text="It works."),
    ReasoningCompleted(**SENT, **PART, text="A file, then a run."),
    ToolCalled.of(CALL, **SENT, message_id=MESSAGE_ID, part_id=PART_ID, index=1),
    ToolResulted.of(RESULT, **SENT, message_id=MESSAGE_ID, part_id=PART_ID),
    StepFinished(
        **SENT,
        step=1,
        attempt=1,
        message_id=MESSAGE_ID,
        finish_reason=FinishReason.TOOL_CALLS,
        usage=USAGE,
        context=CONTEXT,
    ),
    StepRetrying(
        **SENT,
        message_id=MESSAGE_ID,
        attempt=1,
        delay_ms=1_000,
        code="provider_error",
        detail="The provider answered 529.",
    ),
    ApprovalRequested(
        **SENT, call_id=CALL_ID, name="execute_command", arguments={"command": "python hello.py"}, expires_at=EXPIRES_AT
    ),
    ApprovalResolved(**SENT, call_id=CALL_ID, decision="approve", by="user"),
    PlanUpdated(
        **SENT,
        items=(PlanItem(text="Write hello.py", status="completed"), PlanItem(text="Run it", status="in_progress")),
    ),
    CheckpointFailed(
        **SENT,
        reason="run_ended",
        code="workspace_too_large",
        detail="The workspace has more than 1,024 MiB, not counting ignored files.",
    ),
    WorkspaceRestored(**SENT, checkpoint_id=records.CHECKPOINT_ID, saved_id=records.SAVED_ID),
    *records.COMPACTION_EVENTS,
    CommandStarted(**SENT, command_id=CALL_ID, command="npm run dev"),
    CommandEnded(**SENT, command_id=CALL_ID, status="exited", exit_code=1, bytes=42),
    SubagentStarted(
        **SENT, call_id=CALL_ID, subagent_id=SUBAGENT_ID, title="Read the reports in docs.", model="openai/gpt-5"
    ),
    SubagentFinished(**SENT, call_id=CALL_ID, subagent_id=SUBAGENT_ID, outcome=Outcome.COMPLETED, usage=USAGE, steps=5),
    McpReady(
        **SENT,
        server="docs",
        protocol="2025-11-25",
        tools=("mcp__docs__search",),
        left_out={"dump": "its schema has more than 32,768 bytes"},
    ),
    McpFailed(**SENT, server="tracker", code="unauthorized", detail="The server answered with status 401."),
    SourceStarted(**SENT, url=records.REPOSITORY, ref="main"),
    SourceCompleted(**SENT, commit="8a7a6c468a184cfd2ebd8234ce8fbf171eac79aa"),
    SourceFailed(**SENT, code="clone_ref_not_found", detail="git: Remote branch v9 not found in upstream origin."),
    TextDelta(**SENT, **PART, offset=3, text="works"),
    ReasoningDelta(**SENT, **PART, offset=0, text="A file"),
    ToolArguments(
        **SENT,
        message_id=MESSAGE_ID,
        part_id=PART_ID,
        index=1,
        name="execute_command",
        offset=0,
        text='{"command": "py',
    ),
    ToolOutput(**SENT, call_id=CALL_ID, part_id=PART_ID, offset=0, stream="stdout", text="hel"),
    SessionActivity(**SENT, activity=Activity.of_call(CALL_ID, "execute_command", {"command": "python hello.py"})),
)


def stream_items() -> list[StreamItem]:
    """The examples as stream items; durable ones are numbered from 1."""
    items = []
    for seq, event in enumerate(EVENTS, start=1):
        live = isinstance(event, LIVE_EVENTS)
        items.append(StreamItem(event.type, None if live else seq, event.model_dump_json().encode()))
    return items
