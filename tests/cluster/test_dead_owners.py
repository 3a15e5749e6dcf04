"""A cancel and a deletion do not wait for what is dead or frozen."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest
from sqlalchemy import text

from app.messages import now
from tests.behavior.checks import assert_sound
from tests.behavior.harness import Client, of_type, shows
from tests.cluster.rig import Cluster
from tests.load import CANCEL_S
from tests.provider import FakeProvider, Gate, Reply, Text

DELETED_S = 8.0
"""How soon a deletion is answered that another one, of a node that is gone, is in the way of."""


async def _in_a_step(cluster: Cluster, a: Client, provider: FakeProvider) -> str:
    cluster.start("w", "worker")
    provider.script(Reply(Text("half", 2), Gate("never")), Reply(Text("Not to be asked for.")))
    made = await a.create("begin")
    await a.wait_for(made["id"], shows("step.started"))
    await provider.reached("never")
    return str(made["id"])


async def test_a_deletion_replaces_one_of_a_dead_node(cluster: Cluster, a: Client, provider: FakeProvider) -> None:
    """A node that dies in the middle of a deletion leaves this in the row."""
    provider.script(Reply(Text("Done.")))
    cluster.start("w", "worker")
    made = await a.create("begin")
    await a.until_idle(made["id"])
    with cluster.database.begin() as connection:
        bar = text("UPDATE sessions SET barred_by = 'dead', barred_at = :at WHERE id = :id")
        connection.execute(bar, {"id": made["id"], "at": int(now().timestamp() * 1000)})
    begun = time.monotonic()
    assert (await a.http.delete(f"/v1/sessions/{made['id']}", timeout=30)).status_code == 204
    assert time.monotonic() - begun < DELETED_S
    assert (await a.http.get(f"/v1/sessions/{made['id']}")).status_code == 404


async def test_a_deletion_waits_for_one_that_lives(
    cluster: Cluster, a: Client, b: Client, provider: FakeProvider
) -> None:
    """The first one waits for a frozen owner, longer than the second one would wait for a dead operation."""
    session_id = await _in_a_step(cluster, a, provider)
    cluster.nodes["w"].freeze()
    first = asyncio.create_task(a.http.delete(f"/v1/sessions/{session_id}", timeout=30))
    async with asyncio.timeout(60):
        while _barred_by(cluster, session_id) is None:  # noqa: ASYNC110 - it is another process's
            await asyncio.sleep(0.02)
    second = asyncio.create_task(b.http.delete(f"/v1/sessions/{session_id}", timeout=30))
    assert (await first).status_code == 204
    assert (await second).status_code == 404
    assert "operation_replaced" not in cluster.log("a")
    cluster.nodes["w"].thaw()


def _barred_by(cluster: Cluster, session_id: str) -> str | None:
    with cluster.database.connect() as connection:
        query = text("SELECT barred_by FROM sessions WHERE id = :id")
        return connection.execute(query, {"id": session_id}).scalar()


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_cancel_is_stored_in_time_though_the_owner_is(
    how: str, cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    session_id = await _in_a_step(cluster, a, provider)
    if how == "killed":
        cluster.nodes["w"].end(signal.SIGKILL)
    else:
        cluster.nodes["w"].freeze()
    begun = time.monotonic()
    assert (await a.http.post(f"/v1/sessions/{session_id}/cancel", json={})).status_code == 202
    await a.wait_for(session_id, shows("session.idle"))
    assert time.monotonic() - begun < CANCEL_S
    assert (await a.session(session_id))["outcome"] == "cancelled"
    cluster.start("w2", "worker")
    if how == "frozen":
        cluster.nodes["w"].thaw()
    # What the successor does is only what the next message asks for.
    provider.script(Reply(Text("Next.")))
    await a.say(session_id, "next")
    events = await assert_sound(a, session_id)
    assert len(of_type(events, "session.idle")) == 2
    assert len(provider.requests) == 2
