"""A session's work is freed when it ends, without the garbage collector, which a server rarely lets look."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
from collections.abc import Iterator

import pytest

from app.runtime.owner.session import SessionOwner
from app.runtime.owner.state import SessionState
from app.sandbox.host.namespace import Namespace
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, command, of_type
from tests.behavior.test_start import numbers
from tests.mcp_servers import mcp_server
from tests.provider import FakeProvider, HttpError, Reply, Text, ToolCall

HOLDERS = (SessionOwner, SessionState, Namespace)
"""What has all that a session, or a command, has in memory."""
FREED_S = 20


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def holders() -> list[object]:
    return [found for found in gc.get_objects() if isinstance(found, HOLDERS)]


async def until_freed(client: Client, before: list[object]) -> None:
    known = set(map(id, before))
    async with asyncio.timeout(FREED_S):
        while not known.issuperset(map(id, holders())):
            await numbers(client)


async def test_a_command(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script(Reply(command("echo hello")), Reply(Text("done")))
    async with Client(start_server().url) as client:
        before = holders()
        session, _ = await client.run("say hello")
        assert session["outcome"] == "completed"
        await until_freed(client, before)


async def test_a_failed_model_call(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script(HttpError(402))
    async with Client(start_server().url) as client:
        before = holders()
        session, _ = await client.run("fail")
        assert session["outcome"] == "failed"
        await until_freed(client, before)


async def test_an_mcp_server(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("mcp__test__add", {"a": 2, "b": 40})), Reply(Text("42")))
    with mcp_server() as tools:
        async with Client(start_server(mcp_networks=(ipaddress.ip_network("127.0.0.0/8"),)).url) as client:
            before = holders()
            _, events = await client.run("add", mcp_servers={"test": {"url": tools.url, "tools": ["add"]}})
            assert [event.data["output"] for event in of_type(events, "tool.result")] == ["42"]
            await until_freed(client, before)
