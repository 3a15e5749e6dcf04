"""`palimpsest mcp`: another agent hands over work, with the official client and by hand."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult

from tests.behavior.harness import Client, RunningServer, command
from tests.behavior.process import ROOT
from tests.behavior.test_cli import Terminal, terminal
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall

__all__ = ["terminal"]


def _given(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    (part,) = result.content
    given: dict[str, Any] = json.loads(part.text)  # type: ignore[union-attr]
    assert given == result.structured_content
    return given


@pytest.mark.shared_server
async def test_an_agent_hands_over_work(
    server: RunningServer, provider: FakeProvider, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text("print(6 * 7)\n")
    provider.script(
        Reply(ToolCall("write_file", {"path": "main.py", "content": "print(42)\n"})),
        Reply(Text("half of"), Gate("middle"), Text(" it")),
        Reply(ToolCall("submit_output", {"passed": False})),
        Reply(ToolCall("submit_output", {"passed": True})),
        Reply(Text("stopped here"), Gate("never")),
        Reply(command("rm -r build")),
    )
    env = {**os.environ, "PALIMPSEST_URL": server.url, "PYTHONPATH": str(ROOT)}
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "app", "mcp"], env=env)
    # By default the standard error of the process that has imported it.
    transport = stdio_client(parameters, errlog=sys.stderr)
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with McpClient(transport) as agent:
        names = [tool.name for tool in (await agent.list_tools()).tools]
        assert names == ["start_session", "send", "status", "result", "cancel"]
        schema = {"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}
        task = {"task": "Simplify it.", "folder": str(tmp_path), "output_schema": schema}
        session = _given(await agent.call_tool("start_session", task))
        this = {"session_id": session["session_id"]}
        await client.wait_for(this["session_id"], lambda event: event.type == "text.delta")

        waited = _given(await agent.call_tool("result", {**this, "wait_s": 0}))
        assert (waited["status"], waited["answer"], "changes" in waited) == ("running", None, False)
        sent = _given(await agent.call_tool("send", {**this, "message": "Then submit.", "mode": "follow_up"}))
        assert (sent["mode"], sent["status"]) == ("follow_up", "pending")
        assert _given(await agent.call_tool("status", this))["pending_messages"] == 1

        waiting = asyncio.create_task(
            agent.call_tool("result", {**this, "wait_s": 60, "patch": True}, progress_callback=hear)
        )
        provider.open("middle")
        done = _given(await waiting)
        assert (done["status"], done["outcome"], done["output"]) == ("idle", "completed", {"passed": True})
        changed = {"path": "main.py", "status": "modified", "additions": 1, "deletions": 1}
        assert (done["changes"]["files"], done["changes"]["items"]) == (1, [changed])
        assert "+print(42)\n" in done["patch"]
        assert [total for _, total, _ in heard] == [60.0] * len(heard)
        assert heard == sorted(heard)
        assert heard

        _given(await agent.call_tool("send", {**this, "message": "Once more."}))
        await client.wait_for(this["session_id"], lambda event: event.data.get("text") == "stopped here")
        _given(await agent.call_tool("cancel", this))
        ended = _given(await agent.call_tool("result", this))
        assert (ended["status"], ended["outcome"]) == ("idle", "cancelled")

        held = await client.create("Tidy up.", approval={"policy": "always"})
        waits = _given(await agent.call_tool("result", {"session_id": held["id"]}))
        assert (waits["status"], waits["waiting_for_approval"]) == ("awaiting_approval", ["$ rm -r build"])
        assert waits["decide_with"] == f"palimpsest approvals {held['id']}"

        for name, arguments, code in (
            ("status", {"session_id": "019ac000-0000-7000-8000-000000000000"}, "session_not_found"),
            ("status", {"session_id": "../models"}, "invalid_arguments"),
            ("result", {**this, "wait_s": 601}, "invalid_arguments"),
            ("start_session", {"task": "x", "model": "none/such"}, "unknown_model"),
            ("start_session", {"task": "x", "folder": str(tmp_path / "none")}, "no_folder"),
            ("start_session", {"task": "x", "git_url": "https://127.0.0.1/x.git"}, "source_not_allowed"),
            ("approve", {}, "unknown_tool"),
        ):
            refused = await agent.call_tool(name, arguments)
            assert refused.is_error
            assert refused.structured_content is not None
            assert refused.structured_content["code"] == code, refused


@pytest.mark.slow
async def test_standard_output_has_messages_alone_and_sigterm_ends_the_command(terminal: Terminal) -> None:
    """By hand, with a server of the command's own."""
    terminal.env |= {"PALIMPSEST_MODEL": "scripted/demo", "PALIMPSEST_LOG_LEVEL": "info"}
    started = await terminal.start("mcp", stdin=True)
    stdin, stdout = started.process.stdin, started.process.stdout
    assert stdin is not None
    assert stdout is not None

    async def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        stdin.write(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await stdout.readline())
        assert answer["id"] == number
        return answer

    client = {"name": "test", "version": "1"}
    hello = await ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
    assert hello["result"]["serverInfo"]["name"] == "palimpsest"
    stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\nnot a message\n')
    begun = await ask(2, "tools/call", name="start_session", arguments={"task": "Look."})
    assert begun["result"]["structuredContent"]["status"] == "running"
    started.process.send_signal(signal.SIGTERM)
    assert await started.end() == 0
    assert started.out == ""
    assert "stopped" in started.err

    without = await terminal.run("mcp")
    assert (without.status, "(no_client)" in without.err) == (2, True)
