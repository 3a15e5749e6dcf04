"""Sub-agents: `delegate` has another session work in the same workspace, and the model gets its answer."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.behavior.approving import command, decide, pending, runs
from tests.behavior.checks import assert_sound, following, requests_of
from tests.behavior.conftest import StartProcess, StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, of_type
from tests.behavior.test_approvals import statuses
from tests.behavior.test_cancel_resume import cancel
from tests.provider import FakeProvider, Gate, Hang, Reply, Text, Tokens, ToolCall

TOOLS = ["execute_command", "read_file", "delegate"]
PRICES = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


def delegate(task: str, **more: Any) -> ToolCall:
    return ToolCall("delegate", {"task": task, **more})


async def children_of(client: Client, session_id: str) -> list[dict[str, Any]]:
    """Its sub-agents, oldest first."""
    items: list[dict[str, Any]] = (await client.get("/v1/sessions", parent_id=session_id))["items"]
    return items[::-1]


async def own_usage(client: Client, session_id: str) -> dict[str, float]:
    """What the steps of one session have used."""
    steps = [step["usage"] for step in await client.steps(session_id)]
    return {name: sum(usage[name] or 0 for usage in steps) for name in (*TOKENS, "cost_usd")}


async def assert_usage_counts_once(client: Client, session_id: str) -> None:
    """A session's usage is that of its steps and those of its sub-agents."""
    ids = [session_id, *(child["id"] for child in await children_of(client, session_id))]
    parts = [await own_usage(client, each) for each in ids]
    usage = (await client.session(session_id))["usage"]
    for name in TOKENS:
        assert usage[name] == sum(part[name] for part in parts), name
    if usage["cost_usd"] is not None:
        assert usage["cost_usd"] == pytest.approx(sum(part["cost_usd"] for part in parts), abs=1e-9)


@pytest.mark.shared_server
async def test_sub_agents_work_at_the_same_time_in_one_workspace(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    names = ("one", "two", "three")
    for name in names:
        answer = Reply(Text(f"{name} is "), Gate(name), Text("done"))
        provider.script_for(f"task {name}", Reply(Text("SECRET THOUGHTS"), command(name)), answer)
    calls = [delegate(f"task {name}", context=f"facts about {name}") for name in names]
    provider.script(Reply(Text("I delegate."), *calls), Reply(Text("all done")))
    session_id = (await client.create("parent", tools=TOOLS, system_prompt="Be brief."))["id"]
    for name in names:
        await provider.reached(name)
    assert sorted((await runs(client, session_id)).split()) == ["one", "three", "two"]
    assert (await client.session(session_id))["status"] == "running"
    assert [each["id"] for each in (await client.get("/v1/sessions"))["items"]] == [session_id]
    children = await children_of(client, session_id)
    assert [(each["kind"], each["parent_id"], each["status"]) for each in children] == [
        ("subagent", session_id, "running")
    ] * 3
    assert await runs(client, children[0]["id"]) == await runs(client, session_id), "they share the workspace"
    await assert_only_read(client, children[0]["id"])
    for name in names:
        provider.open(name)
    await client.until_idle(session_id)

    events = await assert_sound(client, session_id)
    (last,) = [each for each in requests_of(provider, "parent") if each.tool_results]
    outputs = list(last.tool_results.values())
    assert [output.splitlines()[1] for output in outputs] == [f"{name} is done" for name in names]
    assert [child["id"] in output for child, output in zip(children, outputs, strict=True)] == [True] * 3
    assert "SECRET" not in str(last.body)
    (first, _) = requests_of(provider, "task one")
    assert first.first_user_text == "task one\n\nfacts about one"
    assert list(first.tool_names) == ["execute_command", "read_file"]
    assert "Be brief." in first.system
    assert "You are a sub-agent" in first.system
    started, finished = of_type(events, "subagent.started"), of_type(events, "subagent.finished")
    assert [event.data["subagent_id"] for event in started] == [child["id"] for child in children]
    assert {event.data["outcome"] for event in finished} == {"completed"}
    assert statuses(events) == ["completed"] * 3
    for child in children:
        await assert_sound(client, child["id"])
    await assert_usage_counts_once(client, session_id)
    checkpoints = (await client.get(f"/v1/sessions/{session_id}/checkpoints"))["items"]
    assert [each["files"] for each in checkpoints] == [0, 1], "of its beginning and its end"
    assert provider.refusals == []
    assert (await client.http.delete(f"/v1/sessions/{session_id}")).status_code == 204
    gone = [(await client.http.get(f"/v1/sessions/{child['id']}")).status_code for child in children]
    assert gone == [404] * 3


async def assert_only_read(client: Client, session_id: str) -> None:
    """A sub-agent can be read, and not changed by a request."""
    path = f"/v1/sessions/{session_id}"
    for suffix in ("", "/messages", "/context", "/steps", "/queue", "/tools", "/files", "/changes", "/checkpoints"):
        assert (await client.http.get(path + suffix)).status_code == 200, suffix
    for method, suffix, body in (
        ("POST", "/queue", {"content": "hi"}),
        ("POST", "/fork", {}),
        ("POST", "/resume", {}),
        ("POST", "/compactions", {}),
        ("PATCH", "", {"title": "x"}),
        ("PUT", "/secrets/NAME", {"value": "12345678"}),
        ("DELETE", "", None),
    ):
        refused = await client.http.request(method, path + suffix, json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "subagent_session"), (method, suffix)
    refused = await client.http.put(f"{path}/files/x", content=b"x")
    assert (refused.status_code, refused.json()["code"]) == (409, "subagent_session")


async def test_reading_of_one_and_a_half_windows_leaves_the_parent_half_empty(
    start_server: StartServer, provider: FakeProvider
) -> None:
    window, reports = 16_000, 4
    server = start_server(models={OPENAI: {"context_window": window, "prices": PRICES}})
    text = "".join(f"line {number} of a long report\n" for number in range(620))
    for part in range(reports):
        reads = [Reply(ToolCall("read_file", {"path": f"report{part}"})) for _ in range(2)]
        provider.script_for(f"read report {part}", *reads, Reply(Text(f"report {part} says {part}")))
    provider.script(Reply(*[delegate(f"read report {part}") for part in range(reports)]), Reply(Text("0 1 2 3")))
    async with Client(server.url) as client:
        session_id = (await client.create(tools=TOOLS))["id"]
        for part in range(reports):
            written = await client.http.put(f"/v1/sessions/{session_id}/files/report{part}", content=text.encode())
            assert written.status_code == 201
        await client.say(session_id, "parent")

        children = await children_of(client, session_id)
        histories = [await client.messages(child["id"]) for child in children]
        parts = [part for history in histories for message in history for part in message["parts"]]
        assert sum(part["tokens"] for part in parts if part["type"] == "tool_result") >= 1.5 * window
        contexts = [step["context"]["tokens"] for step in await client.steps(session_id)]
        assert max(contexts) < window / 2
        session = await client.session(session_id)
        assert session["compaction"]["count"] == 0
        assert session["usage"]["cost_usd"] > sum(child["usage"]["cost_usd"] for child in children) > 0
        await assert_usage_counts_once(client, session_id)
        days = (await client.get("/v1/usage"))["total"]
        assert days["cost_usd"] == pytest.approx(session["usage"]["cost_usd"], abs=1e-9)
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_limits_of_the_session_stop_its_sub_agents(client: Client, provider: FakeProvider) -> None:
    spent = Tokens(input=600, cache_read=0, cache_write=0, output=400)
    for name in ("one", "two"):
        provider.script_for(f"task {name}", *[Reply(command(f"{name}{n}"), usage=spent) for n in range(9)])
    provider.script(Reply(delegate("task one"), delegate("task two"), usage=spent), Reply(Text("end"), usage=spent))
    session_id = (await client.create("parent", tools=TOOLS, limits={"max_tokens": 6_000}))["id"]
    await client.until_idle(session_id)
    session = await client.session(session_id)
    assert (session["outcome"], session["error"]["code"]) == ("limit_reached", "max_tokens")
    children = await children_of(client, session_id)
    assert [(each["outcome"], each["error"]["code"]) for each in children] == [("limit_reached", "max_tokens")] * 2
    # Each of the three may be in a step when the limit is reached, and has a closing one.
    assert 6_000 <= sum(session["usage"][name] for name in TOKENS[:4]) <= 11_000
    await assert_usage_counts_once(client, session_id)
    (result, _) = of_type(await assert_sound(client, session_id), "tool.result")
    assert result.data["status"] == "error"
    assert "max_tokens" in result.data["output"]

    provider.script_for("task three", *[Reply(command(f"three{n}")) for n in range(9)])
    provider.script(Reply(delegate("task three", max_steps=2)), Reply(Text("end")))
    session_id = (await client.create("parent", tools=TOOLS))["id"]
    await client.until_idle(session_id)
    (child,) = await children_of(client, session_id)
    assert (child["outcome"], child["error"]["code"], child["limits"]["max_steps"]) == ("limit_reached", "max_steps", 2)
    assert (await client.session(session_id))["outcome"] == "completed"


@pytest.mark.shared_server
async def test_cancels_and_interrupts_reach_sub_agents(client: Client, provider: FakeProvider) -> None:
    provider.script_for("hangs", *[Reply(Hang())] * 3)
    provider.script_for("works", *[Reply(ToolCall("execute_command", {"command": "sleep 987"}))] * 2)
    both = Reply(delegate("hangs"), delegate("works"))
    provider.script(both, Reply(Gate("turn"), Text("I turn to that.")), both)
    session_id = (await client.create("parent", tools=TOOLS))["id"]
    async with following(client, session_id) as follower:
        await follower.type("subagent.started", 2)
        await client.post(session_id, "a steer waits")
        await client.post(session_id, "now this", "interrupt")
        async with asyncio.timeout(60):
            children = await children_of(client, session_id)
            await asyncio.gather(*(client.until_idle(child["id"]) for child in children))
        provider.open("turn")
        await follower.type("session.idle")
    events = await assert_sound(client, session_id)
    assert statuses(events) == ["cancelled", "cancelled"]
    assert "sub-agent" in of_type(events, "tool.result")[0].data["output"]
    assert requests_of(provider, "parent")[1].user_texts[-2:] == ("a steer waits", "now this")

    await client.post(session_id, "again")
    async with following(client, session_id) as follower:
        await follower.type("subagent.started", 4)
        working = await children_of(client, session_id)
        async with asyncio.timeout(60):
            await cancel(client, session_id)
            await follower.type("session.idle", 2)
            await asyncio.gather(*(client.until_idle(child["id"]) for child in working))
    children = await children_of(client, session_id)
    assert [child["outcome"] for child in children] == ["cancelled"] * 4
    ends = of_type(await assert_sound(client, session_id), "subagent.finished")
    assert [event.data["outcome"] for event in ends] == ["cancelled"] * 4
    assert (await client.session(session_id))["outcome"] == "cancelled"
    for child in children:
        await assert_sound(client, child["id"])
    await assert_usage_counts_once(client, session_id)

    provider.script(Reply(delegate("hangs")), Reply(Text("it was stopped")))
    session_id = (await client.create("parent", tools=TOOLS))["id"]
    async with following(client, session_id) as follower:
        started = await follower.type("subagent.started")
        await cancel(client, started.data["subagent_id"])
        finished = await follower.type("subagent.finished")
        await follower.type("session.idle")
    assert finished.data["outcome"] == "cancelled"
    assert (await client.session(session_id))["outcome"] == "completed"
    (output,) = requests_of(provider, "parent")[-1].tool_results.values()
    assert output.startswith("Error: sub-agent")
    assert "was cancelled" in output


@pytest.mark.shared_server
async def test_calls_of_sub_agents_are_approved_in_their_parent(client: Client, provider: FakeProvider) -> None:
    provider.script_for("task one", Reply(command("one")), Reply(Text("one done")))
    provider.script_for("task two", Reply(command("two")), Reply(Text("two done")))
    provider.script(Reply(delegate("task one"), delegate("task two")), Reply(Text("done")))
    approval = {"policy": {"tools": ["execute_command"]}, "timeout_s": 60}
    session_id = (await client.create("parent", tools=TOOLS, approval=approval))["id"]
    async with following(client, session_id) as follower:
        await follower.type("approval.requested", 2)
        assert (await client.session(session_id))["status"] == "awaiting_approval"
        first, second = await pending(client, session_id)
        children = {child["title"]: child for child in await children_of(client, session_id)}
        assert first["subagent_id"] == children["task one"]["id"]
        assert {first["call_id"], second["call_id"]} == {
            event.data["call_id"] for event in of_type(follower.events, "approval.requested")
        }
        assert (await decide(client, session_id, first["call_id"], "approve")).status_code == 204
        again = await decide(client, session_id, first["call_id"], "deny")
        assert (again.status_code, again.json()["code"]) == (409, "approval_resolved")
        there = await decide(client, second["subagent_id"], second["call_id"], "deny")
        assert there.status_code == 204
        await follower.type("session.idle")
    events = await assert_sound(client, session_id)
    ends = {event.data["subagent_id"]: event.data["decision"] for event in of_type(events, "approval.resolved")}
    assert ends == {first["subagent_id"]: "approve", second["subagent_id"]: "deny"}
    seen = [event.data["session"]["status"] for event in of_type(events, "session.updated")]
    assert seen[0] == "awaiting_approval"
    assert seen[-1] == "running"
    assert await runs(client, session_id) == "one\n"
    assert (await decide(client, session_id, "call_0", "approve")).status_code == 404

    provider.script_for("task one", Reply(command("one")))
    provider.script(Reply(delegate("task one")))
    session_id = (await client.create("parent", tools=TOOLS, approval=approval))["id"]
    async with following(client, session_id) as follower:
        await follower.type("approval.requested")
        await cancel(client, session_id)
        resolved = await follower.type("approval.resolved")
        await follower.type("session.idle")
    assert (resolved.data["decision"], resolved.data["by"]) == ("cancelled", "cancel")
    await asyncio.gather(*(client.until_idle(child["id"]) for child in await children_of(client, session_id)))
    assert await pending(client, session_id) == []


async def test_after_a_kill_each_sub_agent_continues_and_answers_once(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    names = ("asking", "writing", "working", "waiting")
    late = Reply(Text("kept"))
    provider.script_for("task asking", Reply(command("asking")), Reply(Gate("asking"), Hang()), late)
    provider.script_for("task writing", Reply(command("writing")), Reply(Text("half"), Gate("writing"), Hang()), late)
    slow = ToolCall("execute_command", {"command": "echo working >> runs; echo started; sleep 987"})
    provider.script_for("task working", Reply(slow), late)
    provider.script_for("task waiting", Reply(Text("waited"), Gate("waiting")))
    provider.script_for("task fifth", Reply(Text("fifth")))
    provider.script(Reply(*[delegate(f"task {name}") for name in (*names, "fifth")]), Reply(Text("done")))
    first = start_process()
    async with Client(first.url) as client:
        session_id = (await client.create("parent", tools=TOOLS))["id"]
        async with following(client, session_id) as follower:
            working = (await follower.type("subagent.started", 3)).data["subagent_id"]
            for gate in ("asking", "writing", "waiting"):
                await provider.reached(gate)
            async with following(client, working) as of_child:
                await of_child.type("tool.output")
                provider.open("waiting")
                # Its answer is stored, and that of the one that took its place.
                await follower.type("tool.result", 2)
                first.end(signal.SIGKILL)
    async with Client(start_process().url) as client:
        await client.until_idle(session_id)
        events = await assert_sound(client, session_id)
        session = await client.session(session_id)
        assert (session["outcome"], session["answer"]) == ("completed", "done")
        children = await children_of(client, session_id)
        assert [child["title"] for child in children] == [f"task {name}" for name in (*names, "fifth")]
        assert [child["outcome"] for child in children] == ["completed"] * 5
        assert sorted((await runs(client, session_id)).split()) == ["asking", "working", "writing"]
        assert len(of_type(events, "subagent.started")) == len(of_type(events, "subagent.finished")) == 5
        last = requests_of(provider, "parent")
        assert len(last) == 2, "the parent's step is not repeated"
        answers = [output.splitlines()[1] for output in last[1].tool_results.values()]
        assert answers == ["kept"] * 3 + ["waited", "fifth"]
        for child in children:
            await assert_sound(client, child["id"])
        await assert_usage_counts_once(client, session_id)
    assert provider.refusals == []


async def test_a_parked_run_shows_the_end_of_its_sub_agents(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    provider.script_for("task working", Reply(Text("half"), Gate("working"), Hang()))
    provider.script(Reply(delegate("task working")), Reply(Text("done")))
    first = start_process()
    async with Client(first.url) as client:
        session_id = (await client.create("parent", tools=TOOLS))["id"]
        await provider.reached("working")
        first.end(signal.SIGKILL)
    async with Client(start_process(PALIMPSEST_RECOVER="park").url) as client:
        events = await client.until_idle(session_id)
        assert (await client.session(session_id))["error"]["code"] == "run_parked"
        ids = [event.data["subagent_id"] for event in of_type(events, "subagent.started")]
        assert [event.data["subagent_id"] for event in of_type(events, "subagent.finished")] == ids
        assert len(ids) == 1


@pytest.mark.shared_server
@pytest.mark.slow
async def test_calls_that_cannot_be_carried_out_get_errors(client: Client, provider: FakeProvider) -> None:
    bad = [
        delegate("x", tools=["no_tool"]),
        delegate("x", tools=["delegate"]),
        delegate("x", model="no/model"),
        delegate("x", model="openai/gpt-5"),
        delegate("y" * 1_000_000),
        delegate("x", max_steps=0),
        delegate(""),
        ToolCall("delegate", {"context": "x"}),
        ToolCall("delegate", {"task": "x", "session_id": "0"}),
    ]
    provider.script(Reply(*bad), Reply(Text("done")))
    session_id = (await client.create("parent", tools=TOOLS))["id"]
    await client.until_idle(session_id)
    results = sorted(of_type(await assert_sound(client, session_id), "tool.result"), key=lambda e: e.data["index"])
    outputs = [result.data["output"] for result in results]
    assert all(output.startswith(("Error: ", "Invalid")) for output in outputs), outputs
    wanted = ("no_tool", "'delegate'", "no/model", "API key", "20000", "max_steps", "task", "task", "session_id")
    for output, part in zip(outputs, wanted, strict=True):
        assert part in output
    assert await children_of(client, session_id) == []

    # A model cannot choose another one whose cost the session's limit would not count.
    provider.script(Reply(delegate("free", model=ANTHROPIC), delegate("counted", model=OPENAI)), Reply(Text("done")))
    provider.script_for("counted", Reply(Text("done")))
    session_id = (await client.create("parent", model=OPENAI, tools=TOOLS, limits={"max_cost_usd": 1}))["id"]
    await client.until_idle(session_id)
    results = sorted(of_type(await assert_sound(client, session_id), "tool.result"), key=lambda e: e.data["index"])
    assert [result.data["status"] for result in results] == ["error", "completed"]
    assert f"the price of {ANTHROPIC} is unknown" in results[0].data["output"]

    # A sub-agent cannot delegate, and only four work at once.
    provider.script_for("nested", Reply(delegate("deeper")), Reply(Text("could not")))
    for number in range(19):
        provider.script_for(f"task {number:02}", Reply(Gate(f"gate {number:02}"), Text("done")))
    many = [delegate("nested"), *[delegate(f"task {number:02}") for number in range(19)]]
    provider.script(Reply(*many), Reply(Text("done")))
    session_id = (await client.create("parent", tools=TOOLS))["id"]
    async with following(client, session_id) as follower:
        await follower.type("subagent.finished")
        for number in range(19):
            await provider.reached(f"gate {number:02}")
            working = await children_of(client, session_id)
            assert sum(child["status"] != "idle" for child in working) <= 4
            provider.open(f"gate {number:02}")
        await follower.type("session.idle")
    assert len(await children_of(client, session_id)) == 20
    events = await assert_sound(client, session_id)
    assert statuses(events) == ["completed"] * 20
    (nested,) = [each for each in requests_of(provider, "nested") if each.tool_results]
    assert "There is no tool 'delegate'" in str(nested.tool_results)


@pytest.mark.shared_server
async def test_no_token_is_spent_on_it_unless_it_is_named(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(delegate("x")), Reply(Text("done")))
    session_id = (await client.create("task"))["id"]
    await client.until_idle(session_id)
    first, second = provider.requests
    assert "delegate" not in first.tool_names
    assert "sub-agent" not in str(first.body)
    assert "There is no tool 'delegate'" in str(second.tool_results)


async def test_they_continue_in_a_workspace_that_their_session_restores(
    start_server: StartServer, provider: FakeProvider, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    store = f"file://{tmp_path}/store"
    looks = Reply(ToolCall("execute_command", {"command": "cat runs"}))
    provider.script_for("task", Reply(command("kept")), Reply(Gate("begun"), Hang()), looks, Reply(Text("seen")))
    provider.script(Reply(delegate("task")), Reply(Text("done")))
    first = start_server(workspace_store=store)
    async with Client(first.url) as client:
        session_id = (await client.create("parent", tools=TOOLS))["id"]
        await provider.reached("begun")
    await asyncio.to_thread(first.stop)
    workspaces = first.settings.data_dir / "workspaces"
    assert [each.name for each in workspaces.iterdir()] == [session_id]
    shutil.rmtree(workspaces / session_id)
    async with Client(start_server(workspace_store=store).url) as client:
        (recovered,) = of_type(await client.until_idle(session_id), "session.recovered")
        assert recovered.data["workspace_as_of"]
        assert (await client.session(session_id))["answer"] == "done"
        (child,) = await children_of(client, session_id)
        (_, result) = of_type(await assert_sound(client, child["id"]), "tool.result")
        assert result.data["output"].startswith("kept")
        (file,) = (await client.get(f"/v1/sessions/{child['id']}/files"))["items"]
        assert file["path"] == "runs"
    assert provider.refusals == []
