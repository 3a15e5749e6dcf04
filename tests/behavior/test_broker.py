"""A server with a broker: another node reads its live text, its outage only degrades it, and its password stays secret.

The other node is this test's own: its bus, relay and readers, on the server's database and broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.db.engine import Database, open_database
from app.db.repositories import sessions
from app.settings import Settings
from scripts.servers.redis import RedisServer
from tests.behavior.conftest import StartProcess, StartServer
from tests.behavior.harness import Client
from tests.behavior.test_outages import told
from tests.cluster.nodes import Node, Transcript, running, until
from tests.databases import url_of
from tests.provider import FakeProvider, Gate, Reply, Text


async def other_node(database: Database, redis: RedisServer) -> Node:
    return Node(database, redis.url, namespace=await database.read(sessions.instance_id))


@pytest.mark.slow
async def test_a_run_of_a_server_process_is_read_live_on_another_node(
    redis: RedisServer, start_process: StartProcess, provider: FakeProvider, tmp_path: Path
) -> None:
    provider.script(Reply(Text("Hello 😀 "), Gate("one"), Text("𝒳 "), Gate("two"), Text("end")), Reply(Text("Again.")))
    server = await asyncio.to_thread(start_process, PALIMPSEST_BROKER=redis.url)
    database = await asyncio.to_thread(open_database, url_of(tmp_path / "data" / "palimpsest.db"))
    try:
        node = await other_node(database, redis)
        async with running(node), Client(server.url) as client:
            session_id = (await client.create("begin"))["id"]
            await provider.reached("one")
            first, early = Transcript(), Transcript()
            async with node.follow(session_id) as batches:
                await first.read(batches, lambda: "Hello 😀 " in first.texts.values())
                provider.open("one")
                await first.read(batches, lambda: "Hello 😀 𝒳 " in first.texts.values())
                redis.kill()
                await until(lambda: not node.relay.is_connected)
                await told(client, "broker", "unreachable", ready=True)
                redis.start()
                await told(client, "broker", "ok", ready=True)
                await until(lambda: node.relay.is_connected)
                provider.open("two")
                await first.read(batches, lambda: "session.idle" in first.types)
            assert list(first.texts.values()) == ["Hello 😀 𝒳 end"]
            async with node.follow(session_id, after=first.seqs[-1]) as batches:
                await client.http.post(f"/v1/sessions/{session_id}/queue", json={"content": "and then"})
                early = Transcript(after=first.seqs[-1])
                await early.read(batches, lambda: "session.idle" in early.types)
            assert list(early.texts.values()) == ["Again."]
    finally:
        await database.aclose()


async def test_the_broker_is_measured_and_its_password_is_secret(
    redis: RedisServer, start_server: StartServer, tmp_path: Path
) -> None:
    url = redis.url.replace("redis://", "redis://:a-long-secret@")
    server = await asyncio.to_thread(start_server, broker=url)
    async with Client(server.url) as client:
        found = await told(client, "broker", "unreachable", ready=True)
        assert found["degraded"] is True
        assert "a-long-secret" not in str(found)
        assert str(redis.port) in found["components"]["broker"]["detail"]
        metrics = (await client.http.get("/metrics")).text
        assert "palimpsest_broker_connected 0.0" in metrics
    assert "a-long-secret" not in repr(Settings(_env_file=None, broker=url))


async def test_metrics_of_a_connected_broker(redis: RedisServer, start_server: StartServer) -> None:
    server = await asyncio.to_thread(start_server, broker=redis.url)
    async with Client(server.url) as client:
        await told(client, "broker", "ok", ready=True)
        metrics = ""
        async with asyncio.timeout(60):
            while "palimpsest_broker_messages_received_total 0.0" in metrics or not metrics:
                metrics = (await client.http.get("/metrics")).text
        assert "palimpsest_broker_connected 1.0" in metrics
        assert "palimpsest_broker_losses_total 0.0" in metrics
