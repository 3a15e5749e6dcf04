"""A kill while sessions wait for everything that they can wait for: after the restart each call is continued, answered
or reported as interrupted. Nothing runs twice, and nothing is left over."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.behavior.approving import ALWAYS, approve_all, runs
from tests.behavior.approving import pending as approvals
from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartProcess
from tests.behavior.harness import Client, command, of_type
from tests.behavior.test_approvals import statuses
from tests.behavior.test_background_commands import background, commands
from tests.behavior.test_client_tools import answer, pending, ticket, tool
from tests.behavior.test_subagents import children_of, delegate
from tests.mcp_servers import SCRIPT, McpServer, mcp_server
from tests.provider import FakeProvider, Reply, Text, ToolCall
from tests.unit.sandbox.shell import unique_seconds, until_gone, until_sleeping

NETWORKS = {"PALIMPSEST_MCP_NETWORKS": "127.0.0.0/8"}


class Waits:
    """What sessions wait for: `create` begins one of each kind and returns its id once it waits; `go_on` gives what it
    waits for. `ends` has the statuses of its calls at the end, `ran` how often a command of it began."""

    def __init__(self, provider: FakeProvider, tools: McpServer) -> None:
        self._provider = provider
        self._tools = tools
        self.sleeping = [unique_seconds() for _ in range(4)]
        self.create: dict[str, Callable[[Client], Awaitable[str]]] = {
            "client": self._for_client,
            "approval": self._for_approval,
            "url": self._for_url,
            "command server": self._for_command_server,
            "command": self._for_command,
            "sub-agents": self._for_subagents,
        }
        self.ends = {
            "client": ["completed", "completed"],
            "approval": ["completed"],
            "url": ["interrupted"],
            "command server": ["interrupted"],
            "command": ["interrupted"],
            "sub-agents": ["completed"] * 3,
        }
        self.ran = dict.fromkeys(self.ends, 1) | {"url": 0, "sub-agents": 3}

    async def _begin(self, client: Client, task: str, *calls: ToolCall, **fields: Any) -> str:
        self._provider.script_for(task, *map(Reply, calls), Reply(Text("Done.")))
        session_id: str = (await client.create(**fields))["id"]
        await client.http.put(f"/v1/sessions/{session_id}/files/server.sh", content=self._script())
        await client.post(session_id, task)
        return session_id

    def _script(self) -> str:
        return SCRIPT.replace("sleep 600", f"echo once >> runs; sleep {self.sleeping[0]}")

    async def _for_client(self, client: Client) -> str:
        """With a command in the background."""
        text = f"echo once >> runs; sleep {self.sleeping[1]}"
        tools = ["execute_command", "command_output", "stop_command", tool()]
        session_id = await self._begin(client, "ask the client", background(text), ticket(), tools=tools)
        await client.wait_for(session_id, lambda event: bool(event.data.get("waits_for_client")))
        await until_sleeping(self.sleeping[1])
        return session_id

    async def _for_approval(self, client: Client) -> str:
        session_id = await self._begin(client, "ask a person", command("echo once >> runs"), approval=ALWAYS)
        await client.wait_for(session_id, lambda event: event.type == "approval.requested")
        return session_id

    async def _for_url(self, client: Client) -> str:
        servers = {"test": {"url": self._tools.url}}
        session_id = await self._begin(client, "call a URL", ToolCall("mcp__test__wait", {}), mcp_servers=servers)
        assert await asyncio.to_thread(self._tools.waiting.acquire, timeout=60)
        return session_id

    async def _for_command_server(self, client: Client) -> str:
        servers = {"sh": {"command": "sh", "args": ["server.sh"]}}
        session_id = await self._begin(client, "call a command", ToolCall("mcp__sh__hang", {}), mcp_servers=servers)
        await until_sleeping(self.sleeping[0])
        return session_id

    async def _for_command(self, client: Client) -> str:
        text = f"echo once >> runs; sleep {self.sleeping[2]}"
        session_id = await self._begin(client, "run a command", command(text))
        await until_sleeping(self.sleeping[2])
        return session_id

    async def _for_subagents(self, client: Client) -> str:
        names = [f"part {number}" for number in range(3)]
        text = f"echo once >> runs; sleep {self.sleeping[3]}"
        for name in names:
            self._provider.script_for(name, Reply(command(text)), Reply(Text("Done.")))
        self._provider.script_for("share it", Reply(*map(delegate, names)), Reply(Text("Done.")))
        session_id: str = (await client.create("share it", tools=["execute_command", "delegate"]))["id"]
        await until_sleeping(self.sleeping[3], 3)
        return session_id

    async def go_on(self, client: Client, kind: str, session_id: str) -> None:
        match kind:
            case "client":
                assert (await client.session(session_id))["status"] == "awaiting_client"
                (call,) = await pending(client, session_id)
                assert (await answer(client, session_id, call["call_id"], output="Ticket 17")).status_code == 204
            case "approval":
                assert (await client.session(session_id))["status"] == "awaiting_approval"
                await approve_all(client, session_id)


@pytest.mark.extended
async def test_a_kill_while_everything_waits(start_process: StartProcess, provider: FakeProvider, sandbox: str) -> None:
    with mcp_server() as tools:
        waits = Waits(provider, tools)
        process = start_process(**NETWORKS)
        async with Client(process.url) as client:
            made = await asyncio.gather(*(create(client) for create in waits.create.values()))
            process.end(signal.SIGKILL)
        sessions = dict(zip(waits.create, made, strict=True))
        async with Client(start_process(**NETWORKS).url) as client:
            for kind, session_id in sessions.items():
                await waits.go_on(client, kind, session_id)
                await client.until_idle(session_id)
            for kind, session_id in sessions.items():
                events = await assert_sound(client, session_id)
                assert [event.data["status"] for event in of_type(events, "tool.result")] == waits.ends[kind], kind
                assert (await client.session(session_id))["outcome"] == "completed"
                assert await runs(client, session_id) == "once\n" * waits.ran[kind], kind
                assert [await pending(client, session_id), await approvals(client, session_id)] == [[], []]
            for child in await children_of(client, sessions["sub-agents"]):
                assert statuses(await assert_sound(client, child["id"])) == ["interrupted"]
            assert [each["status"] for each in await commands(client, sessions["client"])] == ["interrupted"]
        for seconds in waits.sleeping:
            await until_gone(seconds)
        assert not tools.waiting.acquire(blocking=False), "it was called once"
    assert provider.refusals == []
