"""Tools that a client carries out: their calls wait, and the client posts the results."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import httpx
import pytest

from tests.behavior.approving import command, runs
from tests.behavior.checks import Follower, assert_sound, following
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartProcess
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, of_type
from tests.behavior.test_approvals import statuses
from tests.behavior.test_cancel_resume import cancel
from tests.load import CANCEL_S
from tests.provider import FakeProvider, Gate, Reply, Reset, Text, ToolCall

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


def tool(name: str = "open_ticket", **more: Any) -> dict[str, Any]:
    return {"type": "client", "name": name, "description": "Opens a ticket.", "parameters": SCHEMA, **more}


def ticket(title: str = "Bug", name: str = "open_ticket") -> ToolCall:
    return ToolCall(name, {"title": title})


async def pending(client: Client, session_id: str) -> list[dict[str, Any]]:
    found = await client.get(f"/v1/sessions/{session_id}/tool-calls", status="pending")
    items: list[dict[str, Any]] = found["items"]
    return items


async def answer(client: Client, session_id: str, call_id: str, **body: Any) -> httpx.Response:
    return await client.http.post(f"/v1/sessions/{session_id}/tool-calls/{call_id}/result", json=body)


async def waiting(follower: Follower, count: int = 1) -> Event:
    """The event of the `count`-th call that waits for a client."""
    return await follower.seen(lambda event: bool(event.data.get("waits_for_client")), count)


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
@pytest.mark.shared_server
async def test_a_client_posts_the_result_of_a_call(client: Client, provider: FakeProvider, model: str) -> None:
    provider.script(Reply(Text("I open one."), ticket()), Reply(Text("done")))
    session_id = (await client.create("task", model=model, tools=["read_file", tool()]))["id"]
    async with following(client, session_id) as follower:
        called = await waiting(follower)
        assert (called.data["name"], called.data["arguments"]) == ("open_ticket", {"title": "Bug"})
        assert (await client.session(session_id))["status"] == "awaiting_client"
        (item,) = await pending(client, session_id)
        assert {"call_id": called.data["call_id"], "arguments": {"title": "Bug"}}.items() <= item.items()
        posted = await answer(client, session_id, item["call_id"], output="Ticket 17")
        assert (posted.status_code, posted.content) == (204, b"")
        await follower.type("session.idle")

    events = await assert_sound(client, session_id)
    assert len(of_type(events, "tool.call")) == 1, "shown once, when a client may begin"
    (result,) = of_type(events, "tool.result")
    assert (result.data["status"], result.data["output"]) == ("completed", "Ticket 17")
    assert list(provider.requests[1].tool_results.values()) == ["Ticket 17"]
    assert list(provider.requests[0].tool_names) == ["read_file", "open_ticket"]
    listed = await client.get(f"/v1/sessions/{session_id}/tools")
    assert [(each["name"], each["source"]) for each in listed["items"]] == [
        ("read_file", "builtin"),
        ("open_ticket", "client"),
    ]
    seen = [event.data["session"]["status"] for event in of_type(events, "session.updated")]
    assert seen == ["awaiting_client", "running"]
    again = await answer(client, session_id, item["call_id"], output="Ticket 18")
    assert (again.status_code, again.json()["code"]) == (409, "call_resolved")
    unknown = await answer(client, session_id, "call_0", output="x")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "call_not_found")
    assert "palimpsest_client_wait_seconds" in (await client.http.get("/metrics")).text
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_calls_wait_in_the_models_order_and_adjacent_ones_together(
    client: Client, provider: FakeProvider
) -> None:
    """A command after them starts only when a client has answered, and one before them has run by then."""
    provider.script(
        Reply(command("one"), ticket("a"), ticket("b"), ToolCall("open_ticket", {}), command("two"), ticket("c")),
        Reply(Text("done")),
    )
    session_id = (await client.create("task", tools=[tool()]))["id"]
    async with following(client, session_id) as follower:
        await waiting(follower, 2)
        first, second = await pending(client, session_id)
        assert [each["arguments"]["title"] for each in (first, second)] == ["a", "b"]
        assert await runs(client, session_id) == "one\n"
        early = next(e.data["call_id"] for e in follower.events if e.data.get("arguments") == {"title": "c"})
        not_yet = await answer(client, session_id, early, output="c")
        assert (not_yet.status_code, not_yet.json()["code"]) == (409, "call_not_waiting")
        await client.post(session_id, "look left")
        assert (await answer(client, session_id, second["call_id"], error="No such board")).status_code == 204
        await follower.seen(lambda event: event.type == "tool.result" and event.data["call_id"] == second["call_id"])
        assert await pending(client, session_id) == [first]
        assert (await answer(client, session_id, first["call_id"], output="")).status_code == 204
        await waiting(follower, 3)
        assert await runs(client, session_id) == "one\ntwo\n"
        (third,) = await pending(client, session_id)
        assert (await answer(client, session_id, third["call_id"], output="C")).status_code == 204
        await follower.type("session.idle")

    events = await assert_sound(client, session_id)
    assert statuses(events) == ["completed", "completed", "error", "error", "completed", "completed"]
    outputs = list(provider.requests[1].tool_results.values())
    assert outputs[1:3] == ["[no output]", "Error: No such board"]
    assert "$: 'title' is a required property" in outputs[3]
    assert outputs[5] == "C"
    assert provider.requests[1].user_texts == ("task", "look left")
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_a_call_waits_for_approval_first(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(ticket("yes"), ticket("no")), Reply(Text("done")))
    approval = {"policy": {"tools": ["open_ticket"]}, "timeout_s": 60}
    session_id = (await client.create("task", tools=[tool()], approval=approval))["id"]
    async with following(client, session_id) as follower:
        await follower.type("approval.requested", 2)
        assert not any(event.data.get("waits_for_client") for event in follower.events)
        ids = [event.data["call_id"] for event in of_type(follower.events, "approval.requested")]
        early = await answer(client, session_id, ids[0], output="too early")
        assert (early.status_code, early.json()["code"]) == (409, "call_not_waiting")
        for call_id, decision in zip(ids, ("approve", "deny"), strict=True):
            path = f"/v1/sessions/{session_id}/approvals/{call_id}"
            assert (await client.http.post(path, json={"decision": decision})).status_code == 204
        called = await waiting(follower)
        assert called.data["call_id"] == ids[0]
        assert [each["call_id"] for each in await pending(client, session_id)] == [ids[0]]
        assert (await answer(client, session_id, ids[0], output="Ticket 17")).status_code == 204
        await follower.type("session.idle")
    assert statuses(await assert_sound(client, session_id)) == ["completed", "denied"]
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_an_attempt_that_is_retried_reaches_no_client(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(ticket("void"), Text("more"), Reset()), Reply(ticket("real")), Reply(Text("done")))
    session_id = (await client.create("task", tools=[tool()]))["id"]
    async with following(client, session_id) as follower:
        called = await waiting(follower)
        assert (await answer(client, session_id, called.data["call_id"], output="Ticket 17")).status_code == 204
        await follower.type("session.idle")
    events = await assert_sound(client, session_id)
    assert [event.data["arguments"] for event in of_type(events, "tool.call")] == [{"title": "real"}]
    assert len(of_type(events, "step.retrying")) == 1
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_a_result_that_does_not_come_or_is_long(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(ticket("late", "slow"), ticket("long")), Reply(Text("done")))
    tools = [tool(), tool("slow", timeout_s=0.3)]
    secrets = {"TOKEN": "s3cr3t-value"}
    session_id = (await client.create("task", tools=tools, secrets=secrets))["id"]
    long = "s3cr3t-value" + "x" * 100_000
    async with following(client, session_id) as follower:
        await waiting(follower, 2)
        slow, quick = await pending(client, session_id)
        assert (await answer(client, session_id, quick["call_id"], output=long)).status_code == 204
        await follower.type("session.idle")
    late = await answer(client, session_id, slow["call_id"], output="late")
    assert (late.status_code, late.json()["code"]) == (409, "call_resolved")
    for body in ({}, {"output": "a", "error": "b"}, {"output": 1}, {"output": "x" * 1_000_001}):
        assert (await answer(client, session_id, slow["call_id"], **body)).status_code == 422

    events = await assert_sound(client, session_id)
    assert statuses(events) == ["error", "completed"]
    missing, shown = provider.requests[1].tool_results.values()
    assert "no result within 0.3 s" in missing
    assert shown.startswith("[secret TOKEN]xxx")
    assert len(shown) < 40_000
    raw = await client.http.get(f"/v1/sessions/{session_id}/tool-calls/{quick['call_id']}/output")
    assert raw.text == "[secret TOKEN]" + "x" * 100_000
    assert provider.refusals == []


@pytest.mark.parametrize(
    ("how", "status", "outcome"),
    [
        ("cancel", "cancelled", "cancelled"),
        ("interrupt", "cancelled", "completed"),
        ("limit", "interrupted", "limit_reached"),
    ],
)
@pytest.mark.shared_server
async def test_what_ends_the_step_ends_the_wait(
    client: Client, provider: FakeProvider, how: str, status: str, outcome: str
) -> None:
    provider.script(Reply(ticket("a"), ticket("b"), command("one")), Reply(Text("done")))
    limits = {"max_seconds": 1.5} if how == "limit" else None
    session_id = (await client.create("task", tools=[tool(timeout_s=None)], limits=limits))["id"]
    async with following(client, session_id) as follower:
        called = await waiting(follower, 2)
        started = time.monotonic()
        if how == "cancel":
            await cancel(client, session_id)
        elif how == "interrupt":
            await client.post(session_id, "stop that", "interrupt")
        await follower.type("session.idle")
        took = time.monotonic() - started

    events = await assert_sound(client, session_id)
    assert took < CANCEL_S
    assert statuses(events) == [status] * 3
    assert await pending(client, session_id) == []
    assert await runs(client, session_id) == ""
    assert (await client.session(session_id))["outcome"] == outcome
    late = await answer(client, session_id, called.data["call_id"], output="late")
    assert (late.status_code, late.json()["code"]) == (409, "call_resolved")
    assert provider.refusals == []


async def _left(client: Client, provider: FakeProvider, task: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A session with a call that waits, after one command and before another one."""
    provider.script_for(task, Reply(command("one"), ticket(), command("two")), Reply(Text("done")))
    made = await client.create(task, model=ANTHROPIC, tools=[tool(**more)])
    async with following(client, made["id"]) as follower:
        await waiting(follower)
    (call,) = await pending(client, made["id"])
    return made["id"], call


@first_of(how=[signal.SIGKILL, signal.SIGTERM])
@pytest.mark.slow
async def test_calls_wait_through_a_restart(
    start_process: StartProcess, provider: FakeProvider, how: signal.Signals
) -> None:
    """The result of the command before is kept, the one after it runs once, and the time counts from the call."""
    first = start_process()
    async with Client(first.url) as client:
        held, call = await _left(client, provider, "held")
        expired, _ = await _left(client, provider, "expired", timeout_s=5)
        cancelled, _ = await _left(client, provider, "cancelled")
        interrupted, _ = await _left(client, provider, "interrupted")
        await client.post(held, "look left")
        # Neither is seen by the server before it is gone, or both are: the outcome is the same.
        ends = (cancel(client, cancelled), client.post(interrupted, "stop that", "interrupt"))
        await asyncio.gather(*ends)
        first.end(how)

    async with Client(start_process().url) as client:
        assert (await client.session(held))["status"] == "awaiting_client"
        assert await pending(client, held) == [call], "with the expiry that it had"
        for session_id in (expired, cancelled, interrupted):
            await client.until_idle(session_id)
        assert await runs(client, held) == "one\n"
        assert (await answer(client, held, call["call_id"], output="Ticket 17")).status_code == 204
        await client.until_idle(held)

        events = await assert_sound(client, held)
        assert await runs(client, held) == "one\ntwo\n"
        assert statuses(events) == ["completed", "completed", "completed"]
        assert len([event for event in events if event.data.get("waits_for_client")]) == 1
        (recovered,) = of_type(events, "session.recovered")
        assert (recovered.data["interrupted_step"], recovered.data["closed_calls"]) == (None, [])
        assert statuses(await assert_sound(client, expired)) == ["completed", "error", "completed"]
        assert await runs(client, expired) == "one\ntwo\n"
        metrics = (await client.http.get("/metrics")).text
        assert "palimpsest_context_repairs_total{" not in metrics, "no result is in the context twice"
        for session_id in (cancelled, interrupted):
            assert statuses(await assert_sound(client, session_id)) == ["completed", "cancelled", "cancelled"]
            assert await runs(client, session_id) == "one\n"
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_tools_that_a_session_cannot_have(client: Client) -> None:
    refused: list[tuple[list[Any], str]] = [
        ([tool("read_file")], "another tool has this name"),
        ([tool(), tool()], "another tool has this name"),
        ([tool("submit_output")], "the name is reserved"),
        ([tool("mcp__a__b")], "the name is reserved"),
        ([tool("open ticket")], "letters, digits, _ and -"),
        ([tool(parameters={"type": "array"})], "the top-level type must be object"),
        ([tool(parameters={**SCHEMA, "anyOf": [{}]})], "providers refuse anyOf at the top"),
        ([tool(parameters={"type": "object", "properties": {"a": {"type": 1}}})], "not a valid JSON Schema"),
        ([tool(f"tool_{n}") for n in range(33)], "a session may have at most 32 client tools"),
        ([tool(f"tool_{n}", description="x" * 4_000) for n in range(20)], "65,536 bytes in total"),
        ([tool(timeout_s=0)], "greater than 0"),
        ([{"type": "server"}], "Input should be 'client'"),
        ([1], "Input should be a tool's name or an object"),
    ]
    for tools, why in refused:
        made = await client.http.post("/v1/sessions", json={"tools": tools})
        assert (made.status_code, why in made.text) == (422, True), (why, made.text)


@pytest.mark.shared_server
async def test_a_step_keeps_the_tools_that_it_was_offered(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("I will"), Gate("begun"), ticket()), Reply(Text("done")))
    session_id = (await client.create("task", tools=[tool()]))["id"]
    async with following(client, session_id) as follower:
        await follower.type("text.delta")
        await client.change(session_id, tools=["read_file"])
        provider.open("begun")
        called = await waiting(follower)
        assert (await answer(client, session_id, called.data["call_id"], output="Ticket 17")).status_code == 204
        await follower.type("session.idle")
    assert statuses(await assert_sound(client, session_id)) == ["completed"]
    assert list(provider.requests[1].tool_names) == ["read_file"]
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_changed_tools_apply_from_the_next_step_and_forks_have_them(
    client: Client, provider: FakeProvider
) -> None:
    provider.script(Reply(Text("one")), Reply(Text("two")), Reply(Text("three")))
    session_id = (await client.create("task"))["id"]
    await client.until_idle(session_id)
    unknown = {"approval": {"policy": {"tools": ["open_ticket"]}}}
    assert (await client.http.patch(f"/v1/sessions/{session_id}", json=unknown)).json()["code"] == "unknown_tool"
    await client.change(session_id, tools=["read_file", tool()])
    await client.change(session_id, **unknown)
    await client.say(session_id, "again")
    forked = await client.http.post(f"/v1/sessions/{session_id}/fork", json={})
    await client.say(forked.json()["id"], "again")
    assert list(provider.requests[1].tool_names) == ["read_file", "open_ticket"]
    assert list(provider.requests[2].tool_names) == ["read_file", "open_ticket"]
    before = [each["name"] for each in (await client.get(f"/v1/sessions/{session_id}/context"))["tools"]]
    await client.change(session_id, tools=None)
    after = [each["name"] for each in (await client.get(f"/v1/sessions/{session_id}/context"))["tools"]]
    assert (before, "open_ticket" in after, "execute_command" in after) == (["read_file", "open_ticket"], False, True)
    assert provider.refusals == []
