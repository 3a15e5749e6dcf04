"""Examples of what a client sends."""

from __future__ import annotations

from pydantic import SecretStr

from app.api.examples import records
from app.api.examples import webhooks as receivers
from app.api.examples.records import (
    MESSAGE_ID,
    MODEL,
    SESSION_ID,
    TASK,
)
from app.messages import Value
from app.runtime.values.content import FileInput, ImageInput, TextInput
from app.runtime.values.mcp import McpApproval, McpServer, SecretRef
from app.runtime.values.queue import (
    ApprovalAnswer,
    QueueAdd,
    QueueEdit,
    ToolCallAnswer,
)
from app.runtime.values.secrets import SecretPut
from app.runtime.values.server import (
    LoginCreate,
)
from app.runtime.values.sessions import (
    ApprovalRequest,
    ApprovalRulesRequest,
    CancelRequest,
    ClientToolRequest,
    ForkCreate,
    GitSource,
    LimitsPatch,
    OutputRequest,
    SandboxRequest,
    SessionCreate,
    SessionPatch,
    Source,
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
        tools=[
            "execute_command",
            "read_file",
            "write_file",
            ClientToolRequest(
                type="client",
                name="open_ticket",
                description="Opens a ticket and returns its number.",
                parameters={"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
                timeout_s=120,
            ),
        ],
        mcp_servers={
            "docs": McpServer(
                url="https://mcp.example.com/mcp",
                headers={"Authorization": SecretRef.model_validate({"secret": "DOCS_TOKEN", "prefix": "Bearer "})},
                tools=["search"],
            ),
            "files": McpServer(command="mcp-server-files", args=["/workspace"], approval="always"),
        },
        source=Source(git=GitSource(url=records.REPOSITORY, ref="main", depth=1)),
        output=OutputRequest(schema=records.OUTPUT_SCHEMA, name="report", description="What the program prints."),
        secrets={"API_TOKEN": SecretStr("*" * 10)},
        metadata={"ticket": "GH-7"},
    ),
    SessionPatch(title="Hello", reasoning_effort="low", limits=LimitsPatch(max_steps=40)),
    SessionPatch(
        mcp_servers={
            "files": None,
            "wiki": McpServer(url="https://wiki.example.com/mcp", approval=McpApproval(tools=["edit"])),
        }
    ),
    CancelRequest(clear_queue=True),
    ForkCreate(after_message_id=MESSAGE_ID, title="Another way"),
    QueueAdd(content="Use tabs, please.", mode=QueueMode.STEER, id=MESSAGE_ID),
    QueueAdd(content="Report what it prints.", output=OutputRequest(schema=records.OUTPUT_SCHEMA)),
    QueueAdd(
        content=(
            TextInput(type="text", text="Make the page look like this."),
            ImageInput(type="image", path="design/page.png"),
            FileInput(type="file", path="src/page.css"),
        )
    ),
    QueueEdit(content="Use spaces, please."),
    SecretPut(value=SecretStr("*" * 10)),
    ApprovalAnswer(decision="deny", reason="Write the test first."),
    ToolCallAnswer(output="Ticket 17 is open."),
    records.COMPACTION_REQUEST,
    LoginCreate(key="a-key-of-this-server"),
    *receivers.REQUESTS,
)
