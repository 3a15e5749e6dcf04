"""Order and pairing: whatever models and users do, the strict provider accepts every request, each call gets one
result, and the API shows contexts exactly as sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.behavior.combinations import across, first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, command, durable, of_type
from tests.behavior.replica import Replica
from tests.behavior.stories import DEEDS, Deed, Story, Turn, turns
from tests.behavior.test_streams import SHARED_SERVER, stored
from tests.provider import FakeProvider, Interleaved, RecordedRequest, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

Json = dict[str, Any]


async def tell(client: Client, provider: FakeProvider, story: Story) -> str:
    """Plays a story with its user's actions to its end; returns the session's id."""
    provider.script_for(story.name, *story.answers)
    session_id: str = (await client.create(f"{story.name} go", model=story.model))["id"]
    for place, turn in enumerate(story.turns):
        if turn.deed != "nothing":
            await _do(client, provider, session_id, story, place, turn.deed)
    await client.until_idle(session_id)
    return session_id


async def _do(client: Client, provider: FakeProvider, session_id: str, story: Story, place: int, deed: Deed) -> None:
    """Waits until the answer is at its gate, acts, and releases it. If the run has ended before, it is started
    again."""
    gate = story.gate(place)
    session = await client.session(session_id)
    reaching = asyncio.create_task(provider.reached(gate, timeout=60))
    while not reaching.done():
        session = await client.session(session_id)
        if session["status"] == "idle":
            await client.post(session_id, f"go on {gate}")
        idle = asyncio.create_task(client.until_idle(session_id))
        await asyncio.wait({reaching, idle}, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        await asyncio.wait({idle})
    await reaching
    if deed == "cancel":
        seq = (await client.session(session_id))["last_seq"]
        await client.http.post(f"/v1/sessions/{session_id}/cancel")
        await client.wait_for(session_id, lambda e: e.type == "session.idle", after=seq)
        provider.open(gate)
        assert (await client.http.post(f"/v1/sessions/{session_id}/resume")).status_code == 202
    else:
        await client.post(session_id, f"{deed} at {gate} 😀", deed)
        provider.open(gate)


def check_pairing(messages: list[Json]) -> None:
    """Every call has one result, in the message that follows its own, in order."""
    counted = [m for m in messages if m["voided_at"] is None]
    for place, message in enumerate(counted):
        calls = [p["call_id"] for p in message["parts"] if p["type"] == "tool_call"]
        if message["role"] == "tool":
            assert counted[place - 1]["role"] == "assistant"
        if calls:
            following = counted[place + 1]
            assert following["role"] == "tool"
            assert [p["call_id"] for p in following["parts"]] == calls
            assert following["seq"] > message["seq"]
            assert {p["status"] for p in message["parts"] if p["type"] == "tool_call"} <= {
                "completed",
                "error",
                "cancelled",
            }
    every = [p["call_id"] for m in counted for p in m["parts"] if p["type"] == "tool_result"]
    assert len(every) == len(set(every))


def check_request(context: Json, request: RecordedRequest) -> None:
    """The context that the API shows against what arrived at the provider."""
    messages = [item["message"] for item in context["messages"]]

    def text(*roles: str) -> str:
        return "".join(p["text"] for m in messages if m["role"] in roles for p in m["parts"] if p["type"] == "text")

    parts = [p for m in messages for p in m["parts"]]
    assert context["system"]["text"] == request.system
    assert text("user", "control") == "".join(request.user_texts)
    assert text("assistant") == "".join(request.assistant_texts)
    assert {p["call_id"]: p["output"] for p in parts if p["type"] == "tool_result"} == request.tool_results
    sent_calls = {p["call_id"]: p for p in parts if p["type"] == "tool_call"}
    assert sent_calls.keys() == request.tool_calls.keys()
    for call_id, (name, arguments) in request.tool_calls.items():
        assert sent_calls[call_id]["name"] == name
        if isinstance(sent_calls[call_id]["arguments"], dict):
            assert sent_calls[call_id]["arguments"] == arguments
    assert tuple(tool["name"] for tool in context["tools"]) == request.tool_names


async def check(client: Client, provider: FakeProvider, story: Story, session_id: str) -> None:
    events = await client.until_idle(session_id)
    session = await client.session(session_id)
    assert [event.id for event in durable(events)] == list(range(1, session["last_seq"] + 1))
    replica = Replica()
    for event in events:
        replica.apply(event)
    assert replica.view == await stored(client, session_id)
    assert len(replica.steps) == session["steps"]
    check_pairing(await client.messages(session_id))
    check_events(events)

    requests = [r for r in provider.requests if story.name in r.first_user_text]
    attempts = (await client.get(f"/v1/sessions/{session_id}/steps", limit=500))["items"]
    assert len(requests) == len(attempts)
    for attempt, request in zip(attempts, requests, strict=True):
        context = await client.get(f"/v1/sessions/{session_id}/context", step=attempt["step"])
        check_request(context, request)


def check_events(events: list[Any]) -> None:
    """Each call is answered after it was made, once, and before its step is finished."""
    called = [e.data["call_id"] for e in of_type(events, "tool.call")]
    answered = [e.data["call_id"] for e in of_type(events, "tool.result")]
    assert len(answered) == len(set(answered))
    voided = {e.data["message_id"] for e in of_type(events, "step.retrying")}
    counted = [e.data["call_id"] for e in of_type(events, "tool.call") if e.data["message_id"] not in voided]
    assert set(answered) == set(counted) <= set(called)
    open_calls: set[str] = set()
    for event in events:
        if event.type == "tool.call" and event.data["message_id"] not in voided:
            open_calls.add(event.data["call_id"])
        elif event.type == "tool.result":
            open_calls.remove(event.data["call_id"])
        elif event.type in ("step.finished", "step.started", "session.idle"):
            assert not open_calls, f"{event.type} with calls open"


@pytest.mark.extended
@pytest.mark.slow
@settings(SHARED_SERVER, max_examples=5)
@given(data=st.data())
async def test_any_conversation_is_in_order_and_shown_as_it_was_sent(
    client: Client, provider: FakeProvider, data: st.DataObject
) -> None:
    scripts = data.draw(st.lists(st.lists(turns(DEEDS), min_size=1, max_size=4), min_size=2, max_size=4))

    async def play(story: Story) -> None:
        session_id = await tell(client, provider, story)
        await check(client, provider, story, session_id)

    async with asyncio.TaskGroup() as sessions:
        for number, script in enumerate(scripts):
            name = f"tale-{len(provider.requests)}-{number}."
            sessions.create_task(play(Story(name, tuple(script), (OPENAI, ANTHROPIC)[number % 2])))
    assert provider.refusals == []


@across(deed=DEEDS, model=[OPENAI, ANTHROPIC])
async def test_calls_of_every_kind_and_a_user_who_interrupts(
    client: Client, provider: FakeProvider, model: str, deed: Deed
) -> None:
    calls = (
        ToolCall("list_directory", {"path": "."}, chunks=2),
        ToolCall("no_such_tool", {"a": 1}),
        ToolCall("read_file", '{"path": '),
        ToolCall("write_file", {"path": "a", "content": "😀"}, chunks=4),
        ToolCall("read_file", {"path": "a"}),
        command("cat a; exit 2"),
    )
    whole = Turn((), "denke", "los", 3, calls, interleaved=True, deed="nothing")
    cut = Turn((), None, "halb", 2, calls[:2], interleaved=False, deed=deed)
    end = Turn((), None, "fertig", 1, (), interleaved=False, deed="nothing")
    story = Story("story.", (whole, cut, whole, end), model)

    session_id = await tell(client, provider, story)

    await check(client, provider, story, session_id)
    assert provider.refusals == []


@first_of(model=[OPENAI, ANTHROPIC])
async def test_results_keep_the_order_of_their_calls_however_these_arrive(
    client: Client, provider: FakeProvider, model: str
) -> None:
    names = [f"f{n}.txt" for n in range(6)]
    provider.script(
        Reply(*[ToolCall("write_file", {"path": name, "content": name}) for name in names]),
        Reply(Interleaved(*[ToolCall("read_file", {"path": name}, chunks=1 + n) for n, name in enumerate(names)])),
        Reply(Text("end")),
    )
    session, events = await client.run("go", model=model)

    messages = await client.messages(session["id"])
    check_pairing(messages)
    read_back = [part["output"] for part in messages[4]["parts"]]
    assert all(name in output for name, output in zip(names, read_back, strict=True))
    indexes = [e.data["index"] for e in of_type(events, "tool.result")]
    assert sorted(indexes) == sorted([*range(6), *range(6)])
    assert provider.refusals == []
