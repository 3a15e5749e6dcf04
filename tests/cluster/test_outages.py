"""The engine or a node is away: what was accepted is done once it is back, and what runs continues."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from scripts.servers.temporal import Temporal, temporal
from tests.behavior.checks import assert_sound, user_texts
from tests.behavior.harness import Client, shows
from tests.behavior.harness import command as shell
from tests.cluster.rig import Cluster
from tests.provider import FakeProvider, Gate, Reply, Text
from tests.requirements import need
from tests.s3 import CREDENTIALS, S3Server, running_s3


@pytest.fixture
def engine() -> Iterator[Temporal]:
    """A Temporal server that the test may kill."""
    server = Temporal()
    yield server
    server.remove()


@pytest.fixture
def s3() -> Iterator[S3Server]:
    """A server that the test may stop."""
    need("s3")
    with running_s3() as server:
        yield server


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, provider: FakeProvider, postgres_url: str
) -> Iterator[Cluster]:
    """A cluster without nodes, whose Temporal server is the test's own if it asks for one."""
    for kind in ("temporal", "bubblewrap"):
        need(kind)
    server = request.getfixturevalue("engine") if "engine" in request.fixturenames else temporal()
    with Cluster(tmp_path, provider, postgres_url, server.address, {}) as cluster:
        yield cluster


async def _component(client: Client, name: str, status: str) -> dict[str, Any]:
    """The readiness once a component has this status."""
    async with asyncio.timeout(60):
        while True:
            answer = (await client.http.get("/readyz")).json()
            if answer["components"][name]["status"] == status:
                return dict(answer)
            await asyncio.sleep(0.1)


async def test_a_run_continues_without_the_engine_and_new_ones_wait_for_it(
    cluster: Cluster, a: Client, provider: FakeProvider, engine: Temporal
) -> None:
    cluster.start("w", "worker")
    provider.script(Reply(Gate("one"), shell("true")), Reply(Text("Two.")))
    running = await a.create("begin")
    await provider.reached("one")
    await asyncio.to_thread(engine.stop)
    readiness = await _component(a, "engine", "unavailable")
    assert (readiness["ready"], readiness["degraded"]) == (True, True)
    provider.open("one")
    await a.until_idle(running["id"])
    assert (await a.session(running["id"]))["outcome"] == "completed"
    provider.script(Reply(Text("Late.")))
    waiting = await a.create("later")
    await asyncio.to_thread(engine.start)
    await _component(a, "engine", "ok")
    await asyncio.wait_for(a.until_idle(waiting["id"]), 60)
    assert (await a.session(waiting["id"]))["outcome"] == "completed"
    for session in (running, waiting):
        await assert_sound(a, session["id"])


async def test_a_lost_ring_is_made_up_for_by_another_nodes_sweep(
    cluster: Cluster, a: Client, b: Client, provider: FakeProvider, engine: Temporal
) -> None:
    """The node that accepted a message dies before the engine is there to be rung."""
    await asyncio.to_thread(engine.stop)
    provider.script(Reply(Text("Found.")))
    made = await a.create("begin")
    cluster.nodes["a"].end(signal.SIGKILL)
    await asyncio.to_thread(engine.start)
    cluster.start("w", "worker")
    await asyncio.wait_for(b.until_idle(made["id"]), 60)
    assert user_texts(await b.messages(made["id"])) == ["begin"]
    await assert_sound(b, made["id"])


async def test_an_engine_that_has_lost_everything_needs_no_backup(
    cluster: Cluster, a: Client, provider: FakeProvider, engine: Temporal
) -> None:
    """As after a restoration of the database, whose runs were active in the backup."""
    cluster.start("w", "worker")
    provider.script(Reply(Text("half", 2), Gate("never")), Reply(Text("Done.")))
    made = await a.create("begin")
    await provider.reached("never")
    cluster.nodes["w"].end(signal.SIGKILL)
    await asyncio.to_thread(engine.forget)
    await asyncio.to_thread(engine.start)
    cluster.age(made["id"])
    cluster.start("w2", "worker")
    await asyncio.wait_for(a.until_idle(made["id"]), 90)
    assert (await a.session(made["id"]))["outcome"] == "completed"
    await assert_sound(a, made["id"])


async def test_a_dead_workers_session_can_be_deleted(cluster: Cluster, a: Client, provider: FakeProvider) -> None:
    cluster.start("w", "worker")
    provider.script(Reply(Text("half", 2), Gate("never")))
    made = await a.create("begin")
    await a.wait_for(made["id"], shows("step.started"))
    cluster.nodes["w"].end(signal.SIGKILL)
    assert (await a.http.delete(f"/v1/sessions/{made['id']}")).status_code == 204
    assert (await a.get("/v1/sessions"))["items"] == []


async def test_a_session_that_crashes_its_owners_is_left_by_them(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    """Otherwise its deletion would wait for an owner that is gone."""
    cluster.start("w", "worker")
    provider.script(Reply(Text("One.")))
    made = await a.create("begin")
    await a.until_idle(made["id"])
    with cluster.database.begin() as connection:
        spoil = text("UPDATE sessions SET plan = CAST(:plan AS json) WHERE id = :id")
        connection.execute(spoil, {"plan": '[{"nonsense": true}]', "id": made["id"]})
    await a.post(made["id"], "again")
    await _until(lambda: cluster.row(made["id"])["status"] == "idle")
    assert cluster.log("w").count("session_owner_crashed") == 3
    await _until(lambda: cluster.row(made["id"])["owner"] is None)


async def test_a_worker_that_dies_after_a_run_leaves_no_claim(
    cluster: Cluster, a: Client, provider: FakeProvider, s3: S3Server
) -> None:
    """It waits for the run's last snapshot then: the session is idle and still its own."""
    for name in ("w", "other"):
        cluster.start(name, "worker", PALIMPSEST_WORKSPACE_STORE=s3.url(), **CREDENTIALS)
    provider.script(Reply(Gate("begun"), shell("echo changed > file")), Reply(Text("Done.")))
    made = await a.create("begin")
    await provider.reached("begun")
    s3.stop()
    provider.open("begun")
    await a.wait_for(made["id"], shows("session.idle"))
    former = cluster.row(made["id"])
    assert (former["status"], former["owner"] is None) == ("idle", False)
    cluster.nodes[cluster.worker_of(made["id"])].end(signal.SIGKILL)
    s3.resume()
    await _until(lambda: cluster.row(made["id"])["owner"] is None)
    assert cluster.row(made["id"])["epoch"] > former["epoch"], "the dead worker is not fenced off"
    await assert_sound(a, made["id"])


async def test_a_worker_that_the_engine_refuses_can_be_stopped(cluster: Cluster) -> None:
    """Its namespace does not exist, which the engine says before a worker begins."""
    worker = cluster.start("w", "worker", PALIMPSEST_TEMPORAL_NAMESPACE="absent")
    await _until(lambda: "engine_worker_failed" in cluster.log("w"))
    assert await asyncio.to_thread(worker.end, signal.SIGTERM) == -signal.SIGTERM


async def test_a_server_on_its_own_takes_the_database_from_a_cluster(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    """A cluster and a server without one never run sessions at the same time."""
    cluster.start("w", "worker")
    provider.script(Reply(Text("half", 2), Gate("one")), Reply(Text("Done.")))
    made = await a.create("begin")
    await a.wait_for(made["id"], shows("step.started"))
    alone = cluster.start_alone()
    async with Client(alone.url) as client:
        await client.until_idle(made["id"])
        assert (await client.session(made["id"]))["outcome"] == "completed"
        await assert_sound(client, made["id"])
    await _until(lambda: "server_superseded" in cluster.log("w"))
    refused = await a.http.post(f"/v1/sessions/{made['id']}/queue", json={"content": "more"})
    assert (refused.status_code, refused.json()["code"]) == (503, "superseded")
    # It does not take the sessions that the engine would still offer it.
    await _until(lambda: "worker_draining" in cluster.log("w"))


async def _until(reached: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(reached):  # noqa: ASYNC110 - it is another process's
            await asyncio.sleep(0.05)


async def test_a_missing_namespace_is_named_and_used_once_it_exists(
    cluster: Cluster, a: Client, provider: FakeProvider, engine: Temporal
) -> None:
    node = cluster.start("w", "all", PALIMPSEST_TEMPORAL_NAMESPACE="late")
    async with Client(node.url) as client:
        readiness = await _component(client, "engine", "unavailable")
        assert not readiness["components"]["engine"]["ok"]
        assert "no namespace late" in readiness["components"]["engine"]["detail"]
        await _until(lambda: "engine_worker_failed" in cluster.log("w"))
        await asyncio.to_thread(engine.add_namespace, "late")
        await _component(client, "engine", "ok")
        provider.script(Reply(Text("Done.")))
        made = await client.create("begin")
        await asyncio.wait_for(client.until_idle(made["id"]), 60)
        # It tried once a second.
        assert cluster.log("w").count("engine_worker_failed") == 1
        assert "Traceback" not in cluster.log("w")
