"""Examples of what the server returns apart from streams and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from app import __version__
from app.api.dependencies import Alive, EventPage, EventView
from app.api.examples import records
from app.api.examples import webhooks as receivers
from app.api.examples.records import (
    ASSISTANT,
    AT,
    CALL,
    CALL_ID,
    CALL_MESSAGE_ID,
    CANCELLED,
    CHANGED,
    COMPACTED,
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
from app.messages import FinishReason, rfc3339
from app.runtime.values.checkpoints import (
    ChangeList,
    Checkpoint,
    CheckpointList,
    FileChange,
    RestoreResult,
    Skipped,
    Uncovered,
    UncoveredPath,
)
from app.runtime.values.commands import CommandList, CommandOutput, CommandView
from app.runtime.values.history import (
    ContextItemView,
    ContextView,
    FileList,
    FileView,
    MessagePage,
    SearchHit,
    SearchResult,
    StepPage,
    StepView,
    SystemSection,
    SystemView,
    ToolCallView,
    ToolView,
    UnpackedArchive,
)
from app.runtime.values.queue import (
    ApprovalList,
    PendingApproval,
    PendingToolCall,
    PendingToolCalls,
    QueuedMessage,
    QueuePage,
    QueueReceipt,
)
from app.runtime.values.secrets import SecretInfo, SecretList
from app.runtime.values.server import (
    Component,
    ModelList,
    ModelView,
    NodeList,
    NodeView,
    Prices,
    Readiness,
    UsageItem,
    UsageReport,
)
from app.runtime.values.sessions import (
    SessionPage,
)
from app.runtime.values.tools import McpServerView, SessionTool, ToolList
from app.sessions import QueueMode

_QUEUED = QueuedMessage(
    id=MESSAGE_ID, position=1, mode=QueueMode.STEER, status="pending", content="Use tabs, please.", created_at=AT
)
_PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_BEGUN = Checkpoint(
    id=records.CHECKPOINT_ID, at=AT, run=1, reason="run_started", message_id=MESSAGE_ID, files=3, bytes=4_096
)
_SAVED = Checkpoint(
    id=records.SAVED_ID,
    at=EXPIRES_AT,
    run=1,
    reason="before_restore",
    message_id=RESULT_MESSAGE_ID,
    files=4,
    bytes=4_117,
)
_UNCOVERED = Uncovered(items=(UncoveredPath(path="node_modules", reason="cache"),), truncated=False)
_TOOLS = ToolList(
    items=(
        SessionTool(name="execute_command", source="builtin", description="Runs a shell command.", tokens=96),
        SessionTool(
            name="mcp__docs__search",
            source="mcp",
            server="docs",
            server_tool="search",
            description="Searches the handbook.",
            tokens=48,
        ),
        SessionTool(name="mcp_search", source="builtin", description="Finds more tools, of docs.", tokens=86),
        SessionTool(
            name="mcp__docs__export",
            source="mcp",
            server="docs",
            server_tool="export",
            description="Exports pages of the handbook.",
            tokens=64,
            whole=False,
        ),
    ),
    system=(SystemSection(source="instructions", tokens=310), SystemSection(source="environment", tokens=120)),
    servers=(
        McpServerView(
            name="docs",
            source="session",
            url="https://mcp.example.com/mcp",
            status="ready",
            protocol="2025-11-25",
            tools=2,
            left_out={"import": "it is malformed: inputSchema: Field required"},
        ),
        McpServerView(
            name="files",
            source="session",
            command="mcp-server-files",
            status="failed",
            code="closed",
            detail="The command is not running: it ended with exit code 127.",
        ),
    ),
    tokens=230,
    window=400_000,
    last_seq=9,
)
_WAITING: dict[str, Any] = {
    "call_id": CALL_ID,
    "message_id": CALL_MESSAGE_ID,
    "requested_at": AT,
    "expires_at": EXPIRES_AT,
}
ANSWERS: tuple[BaseModel, ...] = (
    COMPACTED,
    SessionPage(items=(COMPLETED,), next_cursor=None),
    QueueReceipt(id=MESSAGE_ID, position=1, mode=QueueMode.STEER, status="pending"),
    _QUEUED,
    QueuePage(items=(_QUEUED,), last_seq=9),
    ApprovalList(
        items=(PendingApproval(**_WAITING, name="execute_command", arguments={"command": "python hello.py"}),),
        last_seq=11,
    ),
    PendingToolCalls(
        items=(PendingToolCall(**_WAITING, name="open_ticket", arguments={"title": "Greeting is missing"}),),
        last_seq=11,
    ),
    CommandList(
        items=(
            CommandView(
                command_id=CALL_ID,
                command="npm run dev",
                status="running",
                exit_code=None,
                remark=None,
                bytes=42,
                started_at=AT,
                ended_at=None,
            ),
        )
    ),
    CommandOutput(
        command_id=CALL_ID,
        status="running",
        exit_code=None,
        output="Listening on http://127.0.0.1:5173\n",
        since=0,
        next_since=35,
        bytes=35,
    ),
    USER,
    MessagePage(items=(USER, ASSISTANT, TOOL), last_seq=18, next_cursor=None),
    SearchResult(
        items=(
            SearchHit(
                message_id=RESULT_MESSAGE_ID, seq=7, role="tool", call_id=CALL_ID, snippet="hello", ranges=((0, 5),)
            ),
        )
    ),
    ContextView(
        session_id=SESSION_ID,
        last_seq=18,
        step=2,
        generation=0,
        model=MODEL,
        system=SystemView(
            text="You write small Python programs.",
            tokens=8,
            sections=(SystemSection(source="instructions", tokens=8),),
        ),
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
                model_ms=2_980,
                waiting_ms=0,
            ),
        ),
        last_seq=18,
        next_cursor=None,
    ),
    ToolCallView(message_id=CALL_MESSAGE_ID, call=CALL, result_message_id=RESULT_MESSAGE_ID, result=RESULT),
    _TOOLS,
    records.ROUND,
    records.COMPACTION_PREVIEW,
    records.ROUNDS,
    UsageReport(total=USAGE, items=(UsageItem(model=MODEL, day="2026-11-22", steps=1, usage=USAGE),)),
    NodeList(
        items=(
            NodeView(
                id="01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e9a",
                name="worker-1",
                role="worker",
                version=__version__,
                status="ready",
                sessions=12,
                slots=100,
                started_at=AT,
                seen_at=EXPIRES_AT,
            ),
        ),
        waiting=0,
    ),
    ModelList(
        items=(
            ModelView(
                name=MODEL,
                provider="anthropic",
                context_window=CONTEXT.limit,
                window_source="catalog",
                max_output_tokens=32_000,
                prices=Prices(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75),
                key_present=True,
                default=True,
                description="",
                reasoning_efforts=("low", "medium", "high", "max"),
            ),
        )
    ),
    UnpackedArchive(path=".", files=2, bytes=61),
    SecretList(items=(SecretInfo(name="API_TOKEN", created_at=AT, updated_at=AT),)),
    CheckpointList(items=(_BEGUN, _SAVED), not_covered=_UNCOVERED),
    ChangeList(
        from_checkpoint=_BEGUN.id,
        to_checkpoint=None,
        items=(
            FileChange(path="hello.py", status="added", additions=1, deletions=0, binary=False),
            FileChange(
                path="greetings.md", status="renamed", additions=0, deletions=2, binary=False, old_path="notes.md"
            ),
        ),
        additions=1,
        deletions=2,
        truncated=False,
        not_covered=_UNCOVERED,
    ),
    RestoreResult(checkpoint=_BEGUN, saved=_SAVED, not_covered=_UNCOVERED, skipped=Skipped(items=("dev.db",))),
    FileList(
        path=".", items=(FileView(path="hello.py", type="file", size=15, modified_at=rfc3339(AT)),), truncated=False
    ),
    EventPage(
        items=tuple(
            EventView(seq=seq, type=event.type, data={"type": event.type, "seq": seq, **event.model_dump(mode="json")})
            for seq, event in ((21, records.COMPACTION_EVENTS[0]), (34, records.COMPACTION_EVENTS[2]))
        ),
        last_seq=58,
        next_cursor=None,
    ),
    *receivers.ANSWERS,
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
    ("post /v1/sessions/{session_id}/compactions", "202"): records.ASKED,
    **receivers.ANSWERS_OF,
    ("patch /v1/sessions/{session_id}/queue/{message_id}", "200"): _QUEUED.model_copy(
        update={"content": "Use spaces, please."}
    ),
}
"""By operation and status, if the type's own example would mislead."""
