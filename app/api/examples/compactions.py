"""Examples of compaction requests, responses and events."""

from __future__ import annotations

from app.api.examples.records import AT, CALL_ID, CALL_MESSAGE_ID, MESSAGE_ID, RESULT_MESSAGE_ID, SESSION_ID, USAGE
from app.events import (
    CompactionCancelled,
    CompactionCompleted,
    CompactionDiscarded,
    CompactionFailed,
    CompactionReverted,
    CompactionStarted,
    PruneCompleted,
)
from app.messages import Value
from app.runtime.values.compactions import CompactionCreate, CompactionList, CompactionPreview
from app.sessions import CompactionEvent, RoundError

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

REQUEST = CompactionCreate(policy="reactive", instructions="Keep the decisions about the API.")

PREVIEW = CompactionPreview(
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

EVENTS: tuple[Value, ...] = (
    PruneCompleted(
        session_id=SESSION_ID,
        at=AT,
        reason="trigger",
        call_ids=(CALL_ID,),
        outputs_pruned=1,
        tokens_before=171_204,
        tokens_after=138_870,
        tokens_saved=32_334,
        tools=("execute_command",),
    ),
    CompactionStarted(
        session_id=SESSION_ID,
        at=AT,
        round=1,
        reason="overflow",
        policy="reactive",
        tokens_before=171_204,
        limit=200_000,
    ),
    CompactionCompleted(session_id=SESSION_ID, at=AT, was_pruned=True, was_summarized=True, **ROUND.model_dump()),
    CompactionFailed(
        session_id=SESSION_ID,
        at=AT,
        round=1,
        rung="summary",
        code="summary_empty",
        detail="The model's answer has no text.",
        usage=USAGE,
        next="fold",
    ),
    CompactionCancelled(session_id=SESSION_ID, at=AT, round=1, usage=USAGE),
    CompactionReverted(session_id=SESSION_ID, at=AT, round=1),
    CompactionDiscarded(session_id=SESSION_ID, at=AT, round=1, usage=USAGE),
)
