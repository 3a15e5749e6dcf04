"""Sessions of a cluster: whatever node a request reaches, it reaches the session."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from tests.behavior.approving import ALWAYS, approve_all, command, runs
from tests.behavior.checks import assert_sound, user_texts
from tests.behavior.harness import Client, durable, of_type, shows
from tests.behavior.harness import command as shell
from tests.behavior.long_task import LongTask
from tests.behavior.rounds import compact, gated, revert, worked
from tests.behavior.test_messages_that_cannot_fit import text_of
from tests.cluster.rig import Cluster
from tests.load import CANCEL_S
from tests.provider import FakeProvider, Gate, Reply, Text


@pytest.fixture(autouse=True)
def worker(cluster: Cluster) -> None:
    """One worker; both API nodes run no sessions."""
    cluster.start("w", "worker")


async def test_a_session_made_on_one_node_streams_on_another(a: Client, b: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("Hello from the cluster.")))
    made = await a.create("begin")
    events = await b.until_idle(made["id"])
    assert [event.id for event in durable(events)] == list(range(1, len(durable(events)) + 1))
    assert of_type(events, "text.completed")[0].data["text"] == "Hello from the cluster."
    assert (await b.session(made["id"]))["outcome"] == "completed"
    await assert_sound(b, made["id"])


async def test_a_steer_through_another_node_is_taken_by_the_running_step(
    a: Client, b: Client, provider: FakeProvider
) -> None:
    provider.script(Reply(Gate("one"), shell("true")), Reply(Text("Two.")))
    made = await a.create("begin")
    await provider.reached("one")
    await b.post(made["id"], "and this")
    provider.open("one")
    await a.until_idle(made["id"])
    assert user_texts(await b.messages(made["id"])) == ["begin", "and this"]
    assert len(provider.requests) == 2
    await assert_sound(b, made["id"])


async def test_a_steer_during_the_last_step_belongs_to_its_run(a: Client, b: Client, provider: FakeProvider) -> None:
    """Also if the model finishes before the worker hears of it."""
    provider.script(
        *[Reply(Text("half"), Gate(str(number)), Text("rest")) for number in range(10)], Reply(Text("End."))
    )
    made = await a.create("begin")
    for number in range(10):
        await provider.reached(str(number))
        await b.post(made["id"], f"steer {number}")
        provider.open(str(number))
    events = await a.until_idle(made["id"])
    assert len(of_type(events, "session.idle")) == 1
    assert len(user_texts(await b.messages(made["id"]))) == 11
    await assert_sound(b, made["id"])


async def test_messages_sent_one_after_the_other_are_each_answered(
    a: Client, b: Client, provider: FakeProvider
) -> None:
    provider.respond(lambda _: Reply(Text("Yes.")))
    made = await a.create("begin")
    await b.until_idle(made["id"])
    for number in range(8):
        client = (a, b)[number % 2]
        await client.say(made["id"], f"message {number}")
        assert (await client.session(made["id"]))["status"] == "idle"
    assert len(user_texts(await a.messages(made["id"]))) == 9
    assert len(provider.requests) == 9
    await assert_sound(a, made["id"])


async def test_an_interrupting_message_ends_the_step(a: Client, b: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("half", 2), Gate("never"), Text("rest")), Reply(Text("New.")))
    made = await a.create("begin")
    await provider.reached("never")
    await b.post(made["id"], "instead", "interrupt")
    await a.until_idle(made["id"])
    assert user_texts(await a.messages(made["id"])) == ["begin", "instead"]
    await assert_sound(b, made["id"])


async def test_a_cancel_through_another_node_ends_a_command(a: Client, b: Client, provider: FakeProvider) -> None:
    provider.script(Reply(shell("echo started; sleep 600", timeout_s=900)))
    made = await a.create("begin")
    await a.wait_for(made["id"], shows("tool.call"))
    begun = time.monotonic()
    assert (await b.http.post(f"/v1/sessions/{made['id']}/cancel", json={})).status_code == 202
    await a.wait_for(made["id"], shows("session.idle"))
    assert time.monotonic() - begun < CANCEL_S
    session = await b.session(made["id"])
    assert session["outcome"] == "cancelled"
    await assert_sound(b, made["id"])


async def test_a_cancel_does_not_wait_for_a_worker(cluster: Cluster, a: Client, provider: FakeProvider) -> None:
    cluster.nodes["w"].end(signal.SIGTERM)
    cluster.start("small", "worker", PALIMPSEST_MAX_RUNS="1")
    provider.script(Reply(Gate("first"), Text("One.")), Reply(Text("Three.")))
    first = await a.create("first")
    await provider.reached("first")
    second = await a.create("second")
    begun = time.monotonic()
    assert (await a.http.post(f"/v1/sessions/{second['id']}/cancel", json={})).status_code == 202
    await a.wait_for(second["id"], shows("session.idle"))
    assert time.monotonic() - begun < CANCEL_S
    assert (await a.session(second["id"]))["outcome"] == "cancelled"
    provider.open("first")
    await a.until_idle(first["id"])
    await a.say(second["id"], "third")
    for session in (first, second):
        await assert_sound(a, session["id"])


async def test_a_run_that_waits_for_a_person_takes_no_slot(cluster: Cluster, a: Client, provider: FakeProvider) -> None:
    cluster.nodes["w"].end(signal.SIGTERM)
    cluster.start("small", "worker", PALIMPSEST_MAX_RUNS="1")
    provider.script(Reply(command("one")), Reply(Text("Second.")), Reply(Text("First.")))
    first = await a.create("first", approval=ALWAYS)
    await a.wait_for(first["id"], shows("approval.requested"))
    second = await a.create("second")
    await asyncio.wait_for(a.until_idle(second["id"]), 60)
    await approve_all(a, first["id"])
    await a.until_idle(first["id"])
    for session in (first, second):
        assert (await a.session(session["id"]))["outcome"] == "completed"


async def test_an_approval_through_another_node_starts_the_call(a: Client, b: Client, provider: FakeProvider) -> None:
    provider.script(Reply(command("one")), Reply(Text("Done.")))
    made = await a.create("begin", approval=ALWAYS)
    await a.wait_for(made["id"], shows("approval.requested"))
    await approve_all(b, made["id"])
    await a.until_idle(made["id"])
    assert (await a.session(made["id"]))["outcome"] == "completed"
    assert await runs(b, made["id"]) == "one\n"
    await assert_sound(b, made["id"])


async def test_a_change_through_another_node_applies_to_the_next_step(
    a: Client, b: Client, provider: FakeProvider
) -> None:
    provider.script(Reply(Gate("one"), shell("true")), Reply(Text("Two.")))
    made = await a.create("begin")
    await provider.reached("one")
    await b.change(made["id"], system_prompt="Answer like a pirate.")
    await a.wait_for(made["id"], shows("session.updated"))
    row = made["last_seq"]
    # The step ends only after its owner has looked at the row.
    await asyncio.wait_for(_seen(b, made["id"], row), 60)
    provider.open("one")
    await a.until_idle(made["id"])
    assert "pirate" in str(provider.requests[1].body)
    await assert_sound(a, made["id"])


async def _seen(client: Client, session_id: str, seq: int) -> None:
    await client.wait_for(session_id, shows("session.updated"), after=seq)


async def test_a_compaction_through_another_node_is_made_and_reverted(
    a: Client, b: Client, provider: FakeProvider
) -> None:
    session_id = await worked(a, provider)
    await compact(b, session_id)
    await a.wait_for(session_id, shows("compaction.completed"))
    assert (await a.session(session_id))["compaction"]["count"] == 1
    await revert(b, session_id, 1)
    await a.say(session_id, "again")
    # The model sees the whole history again.
    assert "step 1 call 0" in str(provider.requests[-1].body)
    await assert_sound(a, session_id)


async def test_a_cancel_through_another_node_ends_a_compaction(a: Client, b: Client, provider: FakeProvider) -> None:
    session_id = await worked(a, provider, LongTask(6, most=4_000, seed=3, summarise=gated("never")))
    await compact(b, session_id)
    await provider.reached("never")
    begun = time.monotonic()
    assert (await a.http.post(f"/v1/sessions/{session_id}/cancel", json={})).status_code == 202
    await b.wait_for(session_id, shows("compaction.cancelled"))
    assert time.monotonic() - begun < CANCEL_S
    await assert_sound(a, session_id)


async def test_a_session_is_deleted_while_it_runs_elsewhere(
    cluster: Cluster, a: Client, b: Client, provider: FakeProvider
) -> None:
    provider.script(Reply(shell("sleep 600", timeout_s=900)))
    made = await a.create("begin")
    await a.wait_for(made["id"], shows("tool.call"))
    following = asyncio.create_task(_until_end(a, made["id"]))
    assert (await b.http.delete(f"/v1/sessions/{made['id']}")).status_code == 204
    assert (await asyncio.wait_for(following, 60))[-1] == "session.deleted"
    assert (await a.http.get(f"/v1/sessions/{made['id']}")).status_code == 404
    assert "owner_fenced_off" not in cluster.log("b")


async def _until_end(client: Client, session_id: str) -> list[str]:
    return [event.type async for event in client.events(session_id)]


@pytest.mark.measured
async def test_a_window_that_a_worker_has_learned_is_soon_known_on_all_nodes(a: Client, provider: FakeProvider) -> None:
    provider.configure(window=24_000, overflow="openai")
    provider.respond(lambda _: Reply(Text("Yes.")))
    other = await a.create()
    assert (await a.get(f"/v1/sessions/{other['id']}/context"))["limit"] == 128_000
    made = await a.create(text_of(40_000))
    await a.until_idle(made["id"])
    async with asyncio.timeout(60):
        while (await a.get(f"/v1/sessions/{other['id']}/context"))["limit"] != 24_000:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_a_worker_serves_only_health_and_metrics(cluster: Cluster) -> None:
    async with Client(cluster.nodes["w"].url) as client:
        assert (await client.http.get("/v1/sessions")).status_code == 404
        assert (await client.http.get("/readyz")).json()["components"]["engine"]["ok"]
        assert "palimpsest_running_sessions 0.0" in (await client.http.get("/metrics")).text
