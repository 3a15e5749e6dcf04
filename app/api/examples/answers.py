"""Examples of responses, except streams and problems."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from app import __version__
from app.api.examples import compactions
from app.api.examples.events import type_of
from app.api.examples.records import (
    ASSISTANT,
    AT,
    CALL,
    CALL_ID,
    CALL_MESSAGE_ID,
    CANCELLED,
    CHANGED,
    COMPLETED,
    CONTEXT,
    EXPIRES_AT,
    MESSAGE_ID,
    MODEL,
    RESULT,
    RESULT_MESSAGE_ID,
    RESUMED,
    SESSION,
    SESSION_ID,
    TOOL,
    USAGE,
    USER,
)
from app.api.schemas import Alive, EventPage, EventView
from app.messages import FinishReason
from app.runtime.values.approvals import ApprovalList, PendingApproval
from app.runtime.values.files import FileList, FileView
from app.runtime.values.history import (
    ContextItemView,
    ContextView,
    MessagePage,
    StepPage,
    StepView,
    SystemView,
    ToolCallView,
    ToolView,
)
from app.runtime.values.queue import QueuedMessage, QueuePage, QueueReceipt
from app.runtime.values.server import Component, ModelList, ModelView, PricesView, Readiness, UsageByModel, UsageReport
from app.runtime.values.sessions import SessionPage
from app.sessions import QueueMode

_QUEUED = QueuedMessage(
    id=MESSAGE_ID, position=1, mode=QueueMode.STEER, status="pending", content="Use tabs, please.", created_at=AT
)
_PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

ANSWERS: tuple[BaseModel, ...] = (
    COMPLETED,
    SessionPage(items=(COMPLETED,), next_cursor=None),
    QueueReceipt(id=MESSAGE_ID, position=1, mode=QueueMode.STEER, status="pending"),
    _QUEUED,
    QueuePage(items=(_QUEUED,), last_seq=9),
    ApprovalList(
        items=(
            PendingApproval(
                call_id=CALL_ID,
                message_id=CALL_MESSAGE_ID,
                name="execute_command",
                arguments={"command": "python hello.py"},
                requested_at=AT,
                expires_at=EXPIRES_AT,
            ),
        ),
        last_seq=11,
    ),
    USER,
    MessagePage(items=(USER, ASSISTANT, TOOL), last_seq=18, next_cursor=None),
    ContextView(
        session_id=SESSION_ID,
        last_seq=18,
        step=2,
        generation=0,
        model=MODEL,
        system=SystemView(text="You write small Python programs.", tokens=8),
        tools=(
            ToolView(name="execute_command", description="Runs a shell command.", parameters=_PARAMETERS, tokens=38),
        ),
        messages=tuple(
            ContextItemView(message=each, tokens=each.tokens, reason=None) for each in (USER, ASSISTANT, TOOL)
        ),
        tokens=77,
        limit=CONTEXT.limit,
        usable=CONTEXT.usable,
        source="estimated",
    ),
    StepPage(
        items=(
            StepView(
                step=1,
                attempt=1,
                message_id=CALL_MESSAGE_ID,
                generation=0,
                finish_reason=FinishReason.TOOL_CALLS,
                usage=USAGE,
                context=CONTEXT,
                compaction_round=0,
                started_at=AT,
                duration_ms=3_120,
            ),
        ),
        last_seq=18,
        next_cursor=None,
    ),
    ToolCallView(message_id=CALL_MESSAGE_ID, call=CALL, result_message_id=RESULT_MESSAGE_ID, result=RESULT),
    compactions.ROUND,
    compactions.PREVIEW,
    compactions.ROUNDS,
    UsageReport(total=USAGE, items=(UsageByModel(model=MODEL, day="2026-11-22", steps=1, usage=USAGE),)),
    ModelList(
        items=(
            ModelView(
                name=MODEL,
                provider="anthropic",
                context_window=CONTEXT.limit,
                window_source="catalog",
                max_output_tokens=32_000,
                prices=PricesView(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75),
                key_present=True,
                default=True,
                description="",
                reasoning_efforts=("low", "medium", "high", "max"),
            ),
        )
    ),
    FileList(path=".", items=(FileView(path="hello.py", type="file", size=15, modified_at=AT),), truncated=False),
    EventPage(
        items=tuple(
            EventView(seq=seq, type=type_of(event), data=event.model_dump(mode="json"))
            for seq, event in ((21, compactions.EVENTS[0]), (34, compactions.EVENTS[2]))
        ),
        last_seq=58,
        next_cursor=None,
    ),
    Alive(status="ok", version=__version__),
    Readiness(
        ready=True,
        degraded=True,
        components={
            "database": Component(ok=True, status="ok", detail="readable and writable"),
            "disk": Component(ok=True, status="ok", detail="40,210 MiB free"),
            "sandbox": Component(ok=True, status="ok", detail="Docker Engine 28.2.2 at unix:///var/run/docker.sock"),
            "provider": Component(ok=False, status="unreachable", detail="anthropic cannot be reached"),
        },
    ),
)
"""One of each type."""

ANSWERS_OF: Mapping[tuple[str, str], BaseModel] = {
    ("post /v1/sessions", "201"): SESSION,
    ("patch /v1/sessions/{session_id}", "200"): CHANGED,
    ("post /v1/sessions/{session_id}/cancel", "202"): CANCELLED,
    ("post /v1/sessions/{session_id}/resume", "202"): RESUMED,
    ("post /v1/sessions/{session_id}/compactions", "202"): compactions.ASKED,
    ("patch /v1/sessions/{session_id}/queue/{message_id}", "200"): _QUEUED.model_copy(
        update={"content": "Use spaces, please."}
    ),
}
"""By operation and status, if the type's own example would mislead."""
