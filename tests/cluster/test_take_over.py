"""Workers that die, freeze or are stopped in the middle of a step: another one continues, and nothing is lost, written
twice or run twice."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as EngineClient

from app.cluster.workflow import session_workflow_id
from scripts.servers.temporal import temporal
from tests.behavior.checks import assert_sound, log_of
from tests.behavior.harness import Client, Event, of_type, shows
from tests.behavior.harness import command as shell
from tests.behavior.process import ServerProcess
from tests.cluster.rig import Cluster
from tests.provider import FakeProvider, Gate, Reply, Text

TAKE_OVER_S = 8.0
"""A take-over takes four seconds here; what is measured exactly is in `benchmarks/take_over.py`."""

RUNS = "runs"


@pytest.fixture(autouse=True)
def workers(cluster: Cluster) -> None:
    for name in ("w1", "w2"):
        cluster.start(name, "worker")


async def until(reached: Callable[[], Any]) -> None:
    """Polls for what has no event, such as a line in a log."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(reached):  # noqa: ASYNC110 - it is another process's
            await asyncio.sleep(0.05)


async def _in_a_step(a: Client, provider: FakeProvider) -> str:
    """A session that has run a command, and whose model is in the middle of its second answer."""
    provider.script(
        Reply(shell(f"echo ran >> {RUNS}")),
        Reply(Text("half of it", 3), Gate("half"), Text(" and the rest")),
        Reply(shell(f"echo again >> {RUNS}")),
        Reply(Text("Done.")),
    )
    made = await a.create("begin")
    await a.wait_for(made["id"], lambda event: event.type == "step.started" and event.data["step"] == 2)
    await provider.reached("half")
    return str(made["id"])


async def _assert_continued(a: Client, session_id: str, begun: float) -> list[Event]:
    """Another worker took over in time, from exactly where the first one was."""
    await a.wait_for(session_id, shows("session.recovered"))
    assert time.monotonic() - begun < TAKE_OVER_S
    await a.until_idle(session_id)
    assert (await a.session(session_id))["outcome"] == "completed"
    assert (await a.http.get(f"/v1/sessions/{session_id}/files/{RUNS}")).text == "ran\nagain\n"
    events = await assert_sound(a, session_id)
    assert [event.data["interrupted_step"] for event in of_type(events, "session.recovered")] == [2]
    return events


async def test_a_killed_workers_session_continues_on_another(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    session_id = await _in_a_step(a, provider)
    first = cluster.worker_of(session_id)
    begun = time.monotonic()
    cluster.nodes[first].end(signal.SIGKILL)
    await _assert_continued(a, session_id, begun)
    assert cluster.row(session_id)["epoch"] == 2


async def _time_outs(session_id: str) -> int:
    """How often the engine has given up a worker of the session."""
    engine = await EngineClient.connect(temporal().address)
    history = await engine.get_workflow_handle(session_workflow_id(session_id)).fetch_history()
    return sum(event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT for event in history.events)


async def test_a_step_that_a_user_has_interrupted_is_not_named(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    provider.script(Reply(Text("half"), Gate("half"), Text("never")), Reply(Text("Done.")))
    session_id = (await a.create("begin"))["id"]
    await a.wait_for(session_id, shows("step.started"))
    await provider.reached("half")
    first = cluster.nodes[cluster.worker_of(session_id)]
    # So that it cannot end the step before it dies.
    first.freeze()
    message = await a.post(session_id, "stop that", "interrupt")
    first.end(signal.SIGKILL)
    await a.wait_for(session_id, shows("session.recovered"))
    await a.until_idle(session_id)
    events = await assert_sound(a, session_id)
    [recovered] = of_type(events, "session.recovered")
    assert recovered.data["interrupted_step"] is None
    assert of_type(events, "message.dequeued")[-1].data["message_id"] == message["id"]


async def test_a_frozen_workers_session_continues_on_another_and_it_is_refused(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    session_id = await _in_a_step(a, provider)
    first = cluster.worker_of(session_id)
    # After this, the oldest request for a session that the engine has is that of the first worker.
    provider.script_for("short", Reply(Text("Done.")))
    await a.until_idle((await a.create("short"))["id"])
    begun = time.monotonic()
    cluster.nodes[first].freeze()
    events = await _assert_continued(a, session_id, begun)
    assert await _time_outs(session_id) == 1, "the frozen worker did not get the session again"
    cluster.nodes[first].thaw()
    provider.open("half")
    await until(lambda: "session_taken_over" in cluster.log(first))
    await until(lambda: running_on(cluster.nodes[first]) == 0)
    assert [event.id for event in await log_of(a, session_id)] == [event.id for event in events]
    # It works as before.
    provider.respond(lambda _: Reply(Text("Again.")))
    await a.say(session_id, "once more")
    await assert_sound(a, session_id)


def running_on(node: ServerProcess) -> int:
    import httpx

    text = httpx.get(f"{node.url}/metrics", trust_env=False).text
    line = next(line for line in text.splitlines() if line.startswith("palimpsest_running_sessions "))
    return int(float(line.split()[1]))


async def test_a_stopped_worker_lets_its_step_end_and_hands_over_at_once(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    provider.script(Reply(Gate("one"), shell(f"echo ran >> {RUNS}")), Reply(Text("Done.")))
    made = await a.create("begin")
    await provider.reached("one")
    first = cluster.worker_of(made["id"])
    stopping = asyncio.create_task(asyncio.to_thread(cluster.nodes[first].end, signal.SIGTERM))
    await until(lambda: "worker_draining" in cluster.log(first))
    assert not stopping.done()
    begun = time.monotonic()
    provider.open("one")
    await a.until_idle(made["id"])
    assert time.monotonic() - begun < 3.0
    assert await stopping == -signal.SIGTERM
    session = await a.session(made["id"])
    assert (session["outcome"], session["steps"]) == ("completed", 2)
    events = await assert_sound(a, made["id"])
    assert [event.data["status"] for event in of_type(events, "tool.result")] == ["completed"]


async def test_a_step_that_does_not_end_is_interrupted_and_continues_elsewhere(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    cluster.start("w3", "worker", PALIMPSEST_DRAIN_S="0.5")
    for name in ("w1", "w2"):
        cluster.nodes[name].end(signal.SIGKILL)
    provider.script(Reply(Text("half", 2), Gate("never")), Reply(Text("Done.")))
    made = await a.create("begin")
    await provider.reached("never")
    cluster.start("w4", "worker")
    begun = time.monotonic()
    await asyncio.to_thread(cluster.nodes["w3"].end, signal.SIGTERM)
    await a.until_idle(made["id"])
    assert time.monotonic() - begun < 4.0
    assert (await a.session(made["id"]))["outcome"] == "completed"
    events = await assert_sound(a, made["id"])
    assert [event.data["interrupted_step"] for event in of_type(events, "session.recovered")] == [1]


async def test_a_session_waits_for_a_worker(cluster: Cluster, a: Client, provider: FakeProvider) -> None:
    for name in ("w1", "w2"):
        cluster.nodes[name].end(signal.SIGKILL)
    provider.script(Reply(Text("Late.")))
    made = await a.create("begin")
    assert (await a.session(made["id"]))["status"] == "running"
    cluster.start("w3", "worker")
    await a.until_idle(made["id"])
    await assert_sound(a, made["id"])
