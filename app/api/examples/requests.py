"""Examples of requests; for each type, one that any server accepts comes first."""

from __future__ import annotations

from app.api.examples import compactions
from app.api.examples.records import MESSAGE_ID, MODEL, SESSION_ID, TASK
from app.messages import Value
from app.runtime.values.approvals import ApprovalAnswer
from app.runtime.values.logins import LoginCreate
from app.runtime.values.queue import QueueAdd, QueueEdit
from app.runtime.values.sessions import (
    ApprovalRequest,
    ApprovalRulesRequest,
    CancelRequest,
    ForkCreate,
    LimitsPatch,
    SandboxRequest,
    SessionCreate,
    SessionPatch,
)
from app.sessions import QueueMode

REQUESTS: tuple[Value, ...] = (
    SessionCreate(task=TASK, limits=LimitsPatch(max_steps=20, max_cost_usd=1.5), metadata={"ticket": "GH-7"}),
    SessionCreate(
        id=SESSION_ID,
        task=TASK,
        title="Hello",
        model=MODEL,
        reasoning_effort="high",
        system_prompt="You write small Python programs.",
        sandbox=SandboxRequest(kind="docker", network=False, memory_mb=1_024, cpus=1, pids=256),
        compaction={"policy": "threshold", "threshold_percent": 70},
        limits=LimitsPatch(max_steps=20, max_seconds=600, max_cost_usd=1.5, max_tokens=200_000),
        approval=ApprovalRequest(
            policy=ApprovalRulesRequest(tools=["write_file"], commands=[r"\brm\b"]), timeout_s=600
        ),
        tools=["execute_command", "read_file", "write_file"],
        metadata={"ticket": "GH-7"},
    ),
    SessionPatch(title="Hello", reasoning_effort="low", limits=LimitsPatch(max_steps=40)),
    CancelRequest(clear_queue=True),
    ForkCreate(after_message_id=MESSAGE_ID, title="Another way"),
    QueueAdd(content="Use tabs, please.", mode=QueueMode.STEER, id=MESSAGE_ID),
    QueueEdit(content="Use spaces, please."),
    ApprovalAnswer(decision="deny", reason="Write the test first."),
    compactions.REQUEST,
    LoginCreate(key="a-key-of-this-server"),
)
