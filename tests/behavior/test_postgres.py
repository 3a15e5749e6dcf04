"""A server whose data is in Postgres: it runs sessions whatever the other tests use, and survives its outage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from app.messages import new_id
from scripts.servers.postgres import Cluster, Server
from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type
from tests.behavior.test_bad_input import assert_refused
from tests.behavior.test_outages import told
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall
from tests.requirements import need


@pytest.fixture
def postgres_server() -> Iterator[Server]:
    """A Postgres server that the test may stop."""
    need("postgres")
    server = Server(durable=True)
    yield server
    server.remove()


async def test_sessions_run_search_and_are_deleted(
    postgres_url: str, start_server: StartServer, provider: FakeProvider
) -> None:
    server = await asyncio.to_thread(start_server, database_url=postgres_url)
    provider.script(
        Reply(ToolCall("execute_command", {"command": "echo Überlauf"})),
        Reply(ToolCall("history_search", {"query": "uberlauf"})),
        Reply(Text("Found.")),
    )
    async with Client(server.url) as client:
        session, events = await client.run("begin \ue000")
        assert session["outcome"] == "completed"
        assert session["task"] == "begin \ue000"
        outputs = [event.data["output"] for event in of_type(events, "tool.result")]
        assert "Überlauf" in outputs[0]
        assert "Überlauf" in outputs[1]
        await assert_sound(client, session["id"])
        assert (await client.http.delete(f"/v1/sessions/{session['id']}")).status_code == 204
        assert (await client.get("/v1/sessions"))["items"] == []


async def test_sessions_run_at_the_same_time(
    postgres_url: str, start_server: StartServer, provider: FakeProvider
) -> None:
    server = await asyncio.to_thread(start_server, database_url=postgres_url)
    provider.respond(lambda _: Reply(Text("word " * 20)))
    async with Client(server.url) as client:
        found = await asyncio.gather(*(client.run(f"task {number}") for number in range(12)))
        assert {session["outcome"] for session, _ in found} == {"completed"}
        for session, _ in found:
            await assert_sound(client, session["id"])


@pytest.mark.slow
async def test_a_run_survives_the_outage_of_its_database(
    postgres_server: Server, start_server: StartServer, provider: FakeProvider
) -> None:
    Cluster(postgres_server.folder).create("outage")
    url = Cluster(postgres_server.folder).url("outage")
    provider.script(Reply(Gate("one"), Text("One.")), Reply(Text("Two.")))
    server = await asyncio.to_thread(start_server, database_url=url)
    async with Client(server.url) as client:
        session = await client.create("begin")
        await provider.reached("one")
        await asyncio.to_thread(postgres_server.stop)
        assert (await told(client, "database", "unavailable"))["ready"] is False
        message = {"content": "and then", "id": new_id()}
        queue = f"/v1/sessions/{session['id']}/queue"
        assert_refused(await client.http.post(queue, json=message), 503, "storage_unavailable")
        provider.open("one")
        await asyncio.to_thread(postgres_server.start)
        await told(client, "database", "ok", ready=True)
        assert (await client.http.post(queue, json=message)).status_code == 202
        events = await client.until_idle(session["id"])
        assert (await client.session(session["id"]))["outcome"] == "completed"
        assert message["id"] in [event.data["message_id"] for event in of_type(events, "message.dequeued")]
        await assert_sound(client, session["id"])
