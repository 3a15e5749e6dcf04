"""Sub-agents in a cluster are owned with their session: they move together, and the next owner fences them off."""

from __future__ import annotations

import asyncio
import signal
import subprocess

import pytest
from sqlalchemy import text

from tests.behavior.approving import command, decide, pending, runs
from tests.behavior.checks import assert_sound, following, log_of, requests_of
from tests.behavior.harness import Client, of_type, shows
from tests.behavior.test_cancel_resume import cancel
from tests.behavior.test_subagents import TOOLS, assert_usage_counts_once, children_of, delegate
from tests.cluster.rig import Cluster
from tests.cluster.test_take_over import running_on, until
from tests.cluster.test_workspaces import Start, start
from tests.provider import FakeProvider, Gate, Hang, Reply, Text, ToolCall

__all__ = ["start"]

LONG = "sleep 98761"


async def test_sub_agents_continue_with_their_session_on_another_worker(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    """One worker freezes; then the one that has continued is killed, and the first one continues."""
    for name in ("w1", "w2"):
        cluster.start(name, "worker")
    slow = ToolCall("execute_command", {"command": f"echo working >> runs; {LONG}"})
    provider.script_for("task working", Reply(slow), Reply(Gate("works"), Hang()), Reply(Text("worked")))
    asks = ToolCall("write_file", {"path": "asked", "content": "x"})
    provider.script_for("task asking", Reply(asks), Reply(Text("asked")))
    halves = [Reply(Text("half"), Gate(gate), Hang()) for gate in ("half", "again")]
    provider.script_for("task writing", Reply(command("writing")), *halves, Reply(Text("wrote")))
    names = ("working", "asking", "writing")
    provider.script(Reply(*[delegate(f"task {name}") for name in names]), Reply(Text("done")))
    approval = {"policy": {"tools": ["write_file"]}, "timeout_s": 120}
    session_id = (await a.create("parent", tools=[*TOOLS, "write_file"], approval=approval))["id"]
    async with following(a, session_id) as follower:
        await follower.type("approval.requested")
        working, asking, writing = [child["id"] for child in await children_of(a, session_id)]
        ids = (session_id, working, asking, writing)
        while "working" not in await runs(a, session_id):  # noqa: ASYNC110 - it is another process's
            await asyncio.sleep(0.02)
        await provider.reached("half")
        first = cluster.worker_of(session_id)
        owner = cluster.row(session_id)["owner"]
        assert [cluster.row(each)["owner"] for each in ids] == [owner] * 4

        cluster.nodes[first].freeze()
        await a.wait_for(working, shows("session.recovered"))
        for gate in ("works", "again"):
            await provider.reached(gate)
        await until(lambda: cluster.row(asking)["owner"] not in (owner, None))
        assert len({cluster.row(each)["owner"] for each in ids} | {owner}) == 2
        left = await asyncio.to_thread(subprocess.run, ["pgrep", "-f", LONG], check=False)
        assert left.returncode == 1, "the command of the frozen worker has ended"
        (asked,) = await pending(a, session_id)
        assert (await decide(a, session_id, asked["call_id"], "approve")).status_code == 204
        await follower.type("tool.result")  # the parent's last event for now
        logs = [await log_of(a, each) for each in ids]
        cluster.nodes[first].thaw()
        # Of all or of some: the first one that notices it ends the others.
        await until(lambda: "session_taken_over" in cluster.log(first))
        await until(lambda: running_on(cluster.nodes[first]) == 0)
        assert [await log_of(a, each) for each in ids] == logs, "what was frozen writes nothing"

        (second,) = {"w1", "w2"} - {first}
        cluster.nodes[second].end(signal.SIGKILL)
        await follower.type("session.idle")
    events = await assert_sound(a, session_id)
    for child in ids[1:]:
        await assert_sound(a, child)
    assert [event.data["outcome"] for event in of_type(events, "subagent.finished")] == ["completed"] * 3
    assert len(of_type(events, "approval.requested")) == len(of_type(events, "approval.resolved")) == 1
    (_, last) = requests_of(provider, "parent")
    answers = [output.splitlines()[1] for output in last.tool_results.values()]
    assert answers == ["worked", "asked", "wrote"]
    assert sorted((await runs(a, session_id)).split()) == ["working", "writing"]
    assert (await a.session(session_id))["answer"] == "done"
    await assert_usage_counts_once(a, session_id)
    assert provider.refusals == []


async def test_a_stopped_worker_hands_over_its_session_when_the_steps_of_sub_agents_have_ended(
    cluster: Cluster, provider: FakeProvider, start: Start
) -> None:
    """To a machine that has only the snapshot taken after those steps."""
    stores = Reply(Gate("begun"), ToolCall("execute_command", {"command": "echo stored > file"}))
    reads = Reply(ToolCall("execute_command", {"command": "cat file"}))
    provider.script_for("task storing", stores, reads, Reply(Text("stored it")))
    asks = ToolCall("write_file", {"path": "asked", "content": "x"})
    provider.script_for("task asking", Reply(asks), Reply(Text("asked")))
    provider.script(Reply(delegate("task storing"), delegate("task asking")), Reply(Text("done")))
    approval = {"policy": {"tools": ["write_file"]}, "timeout_s": 120}
    async with Client(start("a", "api")) as client:
        start("one", "worker")
        session_id = (await client.create("parent", tools=[*TOOLS, "write_file"], approval=approval))["id"]
        await client.wait_for(session_id, shows("approval.requested"))
        await provider.reached("begun")
        storing, asking = [child["id"] for child in await children_of(client, session_id)]
        start("two", "worker")
        ending = asyncio.create_task(asyncio.to_thread(cluster.nodes["one"].end, signal.SIGTERM))
        await until(lambda: "worker_draining" in cluster.log("one"))
        assert not ending.done()
        provider.open("begun")
        events = await client.until_idle(storing)
        assert [event.data["status"] for event in of_type(events, "tool.result")] == ["completed"] * 2
        assert of_type(events, "tool.result")[-1].data["output"].startswith("stored")
        assert [event.data["interrupted_step"] for event in of_type(events, "session.recovered")] == [None]
        await ending
        listed = (await client.http.get(f"/v1/sessions/{storing}/files")).json()
        assert ([item["path"] for item in listed["items"]], listed["as_of"]) == (["file"], None)
        (asked,) = await pending(client, session_id)
        assert (await decide(client, asking, asked["call_id"], "approve")).status_code == 204
        [recovered] = of_type(await client.until_idle(session_id), "session.recovered")
        assert recovered.data["workspace_as_of"]
        assert (await client.session(session_id))["answer"] == "done"
        assert [each["outcome"] for each in await children_of(client, session_id)] == ["completed"] * 2
        for each in (session_id, storing, asking):
            await assert_sound(client, each)
    assert provider.refusals == []


@pytest.mark.measured
async def test_cancels_reach_the_sub_agents_of_a_frozen_worker(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    """The node that gets the request stores them: there is no other worker."""
    cluster.start("w", "worker")
    names = ("one", "two")
    for name in names:
        provider.script_for(f"task {name}", Reply(Text("half"), Gate(name), Hang()))
    provider.script(Reply(*[delegate(f"task {name}") for name in names]), Reply(Text("again")))
    session_id = (await a.create("parent", tools=TOOLS))["id"]
    for name in names:
        await provider.reached(name)
    one, two = [child["id"] for child in await children_of(a, session_id)]
    cluster.nodes["w"].freeze()
    for cancelled, ended in ((one, (one,)), (session_id, (two, session_id))):
        await cancel(a, cancelled)
        for each in ended:
            await a.wait_for(each, shows("session.idle"))
    assert {(await a.session(each))["outcome"] for each in (one, two, session_id)} == {"cancelled"}
    assert [cluster.row(each)["owner"] for each in (one, two, session_id)] == [None] * 3
    logs = [await log_of(a, each) for each in (one, two, session_id)]
    cluster.nodes["w"].thaw()
    await until(lambda: running_on(cluster.nodes["w"]) == 0)
    assert [await log_of(a, each) for each in (one, two, session_id)] == logs
    await a.say(session_id, "go on")
    ends = of_type(await assert_sound(a, session_id), "subagent.finished")
    assert [event.data["outcome"] for event in ends] == ["cancelled"] * 2
    for each in (one, two):
        await assert_sound(a, each)


def has_snapshot(cluster: Cluster, session_id: str) -> bool:
    with cluster.database.connect() as connection:
        query = text("SELECT snapshot_id FROM workspaces WHERE session_id = :id")
        return connection.execute(query, {"id": session_id}).scalar() is not None


async def test_what_a_late_sub_agent_stores_replaces_nothing(
    cluster: Cluster, provider: FakeProvider, start: Start
) -> None:
    """Its worker was frozen with files that no snapshot has, and its session has ended on another machine."""
    lines = ("echo stored > file", "echo late > file", "cat file; echo kept > file")
    first, second, again = [ToolCall("execute_command", {"command": line}) for line in lines]
    frozen = Reply(Text("half"), Gate("half"), Text("never"))
    answers = (Reply(first), Reply(Gate("stored"), second), frozen, Reply(again), Reply(Text("kept it")))
    provider.script_for("task late", *answers)
    provider.script(Reply(delegate("task late")), Reply(Text("done")))
    async with Client(start("a", "api")) as client:
        start("one", "worker")
        session_id = (await client.create("parent", tools=TOOLS))["id"]
        await until(lambda: has_snapshot(cluster, session_id))
        provider.open("stored")
        await provider.reached("half")
        [child] = await children_of(client, session_id)
        start("two", "worker")
        cluster.nodes["one"].freeze()
        await client.until_idle(session_id)
        logs = [await log_of(client, each) for each in (session_id, child["id"])]
        cluster.nodes["one"].thaw()
        provider.open("half")
        await until(lambda: "workspace_moved" in cluster.log("one"))
        await until(lambda: running_on(cluster.nodes["one"]) == 0)
        assert [await log_of(client, each) for each in (session_id, child["id"])] == logs
        outputs = [event.data["output"] for event in of_type(logs[1], "tool.result")]
        assert outputs[-1].startswith("stored"), "the command after the newest snapshot is lost with its machine"
        [recovered] = of_type(logs[0], "session.recovered")
        assert recovered.data["workspace_as_of"]
        assert (await client.http.get(f"/v1/sessions/{session_id}/files/file")).text == "kept\n"
        for each in (session_id, child["id"]):
            await assert_sound(client, each)
    assert provider.refusals == []
