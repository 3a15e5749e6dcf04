"""What the examples are about: one small session from its task to its answer, and its compactions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from app.events import (
    CompactionCancelled,
    CompactionCompleted,
    CompactionDiscarded,
    CompactionFailed,
    CompactionRetrying,
    CompactionReverted,
    CompactionStarted,
    Event,
    PruneCompleted,
)
from app.messages import FinishReason, Message, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus, Usage
from app.runtime.values.history import CompactionCreate, CompactionList, CompactionPreview
from app.sessions import (
    Approval,
    CompactionEvent,
    CompactionState,
    ContextState,
    Limits,
    Outcome,
    QueueState,
    RoundError,
    SandboxSpec,
    Session,
    Status,
    WithoutModel,
)

AT = datetime(2026, 11, 22, 10, 11, 12, 345_000, tzinfo=UTC)
LATER = AT + timedelta(seconds=9)
EXPIRES_AT = AT + timedelta(minutes=5)
SESSION_ID = "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"
MESSAGE_ID = "01936f5e-8d2b-7a10-8c44-5d6e7f809102"
CHECKPOINT_ID = "01936f5e-8d2b-7c11-9a44-5d6e7f809103"
SAVED_ID = "01936f5e-8d32-7a12-8b44-5d6e7f809104"
PART_ID = "01936f5e-8d2c-7b21-9d55-6e7f80910213"
SUBAGENT_ID = "01936f5e-8d2c-7b22-8d55-6e7f80910214"
CALL_ID = "01936f5e-8d2d-7c32-ae66-7f8091021324"
CALL_MESSAGE_ID = "01936f5e-8d2e-7d43-bf77-809102132435"
CALL_PART_ID = "01936f5e-8d2f-7e54-8088-910213243546"
RESULT_MESSAGE_ID = "01936f5e-8d30-7f65-9199-021324354657"
RESULT_PART_ID = "01936f5e-8d31-7076-a2aa-132435465768"
REPOSITORY = "https://git.example.com/team/project.git"
SENT: dict[str, Any] = {"session_id": SESSION_ID, "at": AT}
"""What each event has."""
PART: dict[str, Any] = {"message_id": MESSAGE_ID, "part_id": PART_ID, "index": 0}
MODEL = "anthropic/claude-sonnet-5"
TASK = "Write hello.py and run it."
ANSWER = "hello.py prints `hello`."
OUTPUT = {"file": "hello.py", "prints": "hello"}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"file": {"type": "string"}, "prints": {"type": "string"}},
    "required": ["file", "prints"],
}
USAGE = Usage(input_tokens=812, cache_read_tokens=2_048, output_tokens=96, cost_usd=0.0021)
CONTEXT = ContextState(tokens=2_860, limit=200_000, usable=168_000, source="reported")
SESSION = Session(
    id=SESSION_ID,
    title=None,
    task=TASK,
    status=Status.RUNNING,
    outcome=None,
    error=None,
    model=MODEL,
    created_at=AT,
    updated_at=AT,
    last_seq=1,
    steps=0,
    usage=Usage(),
    context=CONTEXT,
    compaction=CompactionState(),
    sandbox=SandboxSpec(kind="docker", image="python:3.12-bookworm", network=True, memory_mb=2_048, cpus=2, pids=512),
    queue=QueueState(pending=1),
    limits=Limits(),
    approval=Approval(),
)
"""As created."""
_AFTER_A_RUN = {"status": Status.IDLE, "updated_at": LATER, "queue": QueueState(), "usage": USAGE + USAGE}
COMPLETED = SESSION.model_copy(
    update={
        **_AFTER_A_RUN,
        "outcome": Outcome.COMPLETED,
        "answer": ANSWER,
        "output": OUTPUT,
        "last_seq": 18,
        "steps": 2,
    }
)
CANCELLED = SESSION.model_copy(update={**_AFTER_A_RUN, "outcome": Outcome.CANCELLED, "last_seq": 12, "steps": 1})
COMPACTED = COMPLETED.model_copy(
    update={
        "compaction": CompactionState(
            count=1,
            last_at=LATER,
            without_model=WithoutModel(
                round=1, rung="fold", code="summary_empty", detail="The model's answer has no text."
            ),
        )
    }
)
"""As one session is shown; a list leaves `without_model` null."""
CHANGED = COMPACTED.model_copy(
    update={"title": "Hello", "reasoning_effort": "low", "limits": Limits(max_steps=40), "last_seq": 19}
)
RESUMED = CANCELLED.model_copy(update={"status": Status.RUNNING, "outcome": None, "last_seq": 14})
USER = Message(
    id=MESSAGE_ID,
    seq=4,
    role=Role.USER,
    parts=(TextPart(id=PART_ID, index=0, tokens=7, text=TASK),),
    tokens=7,
    created_at=AT,
)
CALL = ToolCallPart(
    id=CALL_PART_ID,
    index=0,
    tokens=21,
    call_id=CALL_ID,
    name="execute_command",
    arguments_text='{"command": "python hello.py"}',
    status=ToolStatus.COMPLETED,
)
RESULT = ToolResultPart(
    id=RESULT_PART_ID,
    index=0,
    tokens=3,
    call_id=CALL_ID,
    name="execute_command",
    output="hello\n",
    status=ToolStatus.COMPLETED,
    bytes=6,
    exit_code=0,
    duration_ms=41,
)
ASSISTANT = Message(
    id=CALL_MESSAGE_ID,
    seq=5,
    role=Role.ASSISTANT,
    parts=(CALL,),
    tokens=21,
    model=MODEL,
    finish_reason=FinishReason.TOOL_CALLS,
    created_at=AT,
)
TOOL = Message(id=RESULT_MESSAGE_ID, seq=7, role=Role.TOOL, parts=(RESULT,), tokens=3, created_at=AT)

ROUND = CompactionEvent(
    round=1,
    reason="overflow",
    policy="reactive",
    status="completed",
    rung="summary",
    first_message_id=CALL_MESSAGE_ID,
    last_message_id=RESULT_MESSAGE_ID,
    messages_compacted=42,
    outputs_pruned=3,
    tokens_before=171_204,
    tokens_after=24_310,
    summary="## Completed Work\n| part | what was done |\n| --- | --- |\n| hello.py | written and run |",
    usage=USAGE,
    duration_ms=4_210,
    created_at=AT,
)
ASKED = CompactionEvent(
    round=2, reason="manual", policy="reactive", status="running", tokens_before=60_114, created_at=AT
)
FAILED = CompactionEvent(
    round=3,
    reason="manual",
    policy="reactive",
    status="failed",
    tokens_before=24_502,
    error=RoundError(
        code="nothing_to_compact", detail="Nothing is old enough to compact: everything in the context must stay."
    ),
    created_at=AT,
)
COMPACTION_REQUEST = CompactionCreate(policy="reactive", instructions="Keep the decisions about the API.")
COMPACTION_PREVIEW = CompactionPreview(
    policy="reactive",
    first_message_id=CALL_MESSAGE_ID,
    last_message_id=RESULT_MESSAGE_ID,
    messages_compacted=42,
    kept_message_ids=(MESSAGE_ID,),
    outputs_pruned=1,
    call_ids=(CALL_ID,),
    tokens_before=60_114,
    tokens_after=17_890,
    limit=200_000,
    usable=164_000,
    trigger=164_000,
)
ROUNDS = CompactionList(items=(ROUND, FAILED), last_seq=61)
COMPACTION_EVENTS: tuple[Event, ...] = (
    PruneCompleted(
        **SENT,
        reason="trigger",
        call_ids=(CALL_ID,),
        outputs_pruned=1,
        tokens_before=171_204,
        tokens_after=138_870,
        tokens_saved=32_334,
        tools=("execute_command",),
    ),
    CompactionStarted(**SENT, round=1, reason="overflow", policy="reactive", tokens_before=171_204, limit=200_000),
    CompactionCompleted(**SENT, was_pruned=True, was_summarized=True, **ROUND.model_dump()),
    CompactionFailed(
        **SENT,
        round=1,
        rung="summary",
        code="summary_empty",
        detail="The model's answer has no text.",
        usage=USAGE,
        next="fold",
    ),
    CompactionRetrying(
        **SENT,
        round=1,
        attempt=4,
        delay_ms=8_700,
        code="provider_unreachable",
        detail="anthropic cannot be reached: connection refused.",
    ),
    CompactionCancelled(**SENT, round=1, usage=USAGE),
    CompactionReverted(**SENT, round=1),
    CompactionDiscarded(**SENT, round=1, usage=USAGE),
)
