"""Replayed thinking: the strict provider refuses a block after any prefix but the one it was issued after, and a
session never sends one there; a session refused anyway is repaired by one retry."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, of_type
from tests.behavior.long_task import asks_for_summary
from tests.behavior.packed import packed
from tests.behavior.rounds import compacted
from tests.provider import FakeProvider, Gate, HttpError, Reasoning, RecordedRequest, Reply, Text, ToolCall

BOUND, LATER = "fake-anthropic/claude-opus-5-5", "fake-anthropic/claude-fable-5-1"
THINKING = ("thinking", "redacted_thinking")
BETA = "thinking-binding-controls-2026-08-01"
POLICIES = ("reactive", "threshold", "handoff")


def think(request: RecordedRequest) -> Reply:
    """Two calls with thinking before, between tool turns, then an answer with thinking of both kinds."""
    if asks_for_summary(request):
        return Reply(Reasoning("What happened?"), Text("## Completed Work\nall of it"))
    if request.wire == "openai":
        return Reply(Text("done"))
    results = sum(block.get("type") == "tool_result" for block in request.messages[-1]["content"])
    if not results:
        return Reply(Reasoning("I look."), Text("Looking."), ToolCall("list_directory", {"path": "."}))
    return Reply(Reasoning("secret", redacted=True), Reasoning("I saw it."), Text("done"))


def thinking_of(request: RecordedRequest) -> int:
    """How many thinking blocks a request sends back."""
    return sum(block.get("type") in THINKING for message in request.messages for block in message["content"])


def asks_to_drop(request: RecordedRequest) -> bool:
    binding = request.body.get("thinking", {}).get("block_binding")
    assert (binding is not None) == (request.headers.get("anthropic-beta") == BETA)
    return bool(binding == {"prefix_mismatch_behavior": "drop_block"})


async def say(client: Client, session_id: str, text: str) -> list[Any]:
    """Posts a message and follows the session until it is idle again; returns the events from then on."""
    seq = (await client.session(session_id))["last_seq"]
    return await client.say(session_id, text, seq)


@pytest.fixture
def thinker(provider: FakeProvider) -> FakeProvider:
    provider.respond(think)
    return provider


@pytest.mark.shared_server
async def test_within_a_generation_all_thinking_is_sent_back(client: Client, thinker: FakeProvider) -> None:
    session, events = await client.run("look", model=BOUND)
    await say(client, session["id"], "and again")
    assert [thinking_of(request) for request in thinker.requests] == [0, 1, 3, 4]
    assert not any(map(asks_to_drop, thinker.requests))
    assert thinker.refusals == []
    assert all("input_transformations" not in event.data for event in of_type(events, "step.finished"))


@pytest.mark.shared_server
@first_of(policy=POLICIES)
async def test_after_a_round_of_compaction(client: Client, thinker: FakeProvider, policy: str) -> None:
    made = await client.create(model=BOUND, compaction=policy)
    for number in range(4):
        await say(client, made["id"], f"look {number}")
    assert thinking_of(thinker.requests[-1]) > 0
    await compacted(client, made["id"])
    count = len(thinker.requests)
    await say(client, made["id"], "and again")
    assert [thinking_of(request) for request in thinker.requests[count:]] == [0, 1]
    assert thinker.refusals == []

    assert (await client.http.delete(f"/v1/sessions/{made['id']}/compactions/1")).is_success
    await say(client, made["id"], "and after the round was reverted")
    assert thinker.refusals == []


@pytest.mark.shared_server
async def test_after_changes_of_the_session(client: Client, thinker: FakeProvider) -> None:
    session, _ = await client.run("look", model=BOUND)
    path = f"/v1/sessions/{session['id']}"
    changes: list[dict[str, Any]] = [
        {"tools": ["list_directory", "read_file"]},
        {"system_prompt": "Be brief."},
        {"model": LATER},
        {"model": OPENAI, "tools": []},
        {"model": BOUND, "tools": ["list_directory"]},
    ]
    for change in changes:
        assert (await client.http.patch(path, json=change)).is_success
        count = len(thinker.requests)
        await say(client, session["id"], "and again")
        if thinker.requests[-1].wire == "anthropic":
            assert [thinking_of(request) for request in thinker.requests[count:]] == [0, 1]
    assert asks_to_drop(thinker.requests[-1])
    assert thinker.refusals == []


async def test_forks_and_imports_ask_for_blocks_to_be_dropped(client: Client, thinker: FakeProvider) -> None:
    session, _ = await client.run("look", model=BOUND)
    fork = (await client.http.post(f"/v1/sessions/{session['id']}/fork", json={})).json()
    count = len(thinker.requests)
    await say(client, fork["id"], "go on in the fork")
    assert [thinking_of(request) for request in thinker.requests[count:]] == [3, 4]
    assert all(map(asks_to_drop, thinker.requests[count:]))

    made = await client.create(model=BOUND, history=packed("the task", 3))
    count = len(thinker.requests)
    events = await say(client, made["id"], "go on with what was imported")
    assert all(map(asks_to_drop, thinker.requests[count:]))
    assert thinking_of(thinker.requests[-1]) == 1
    assert thinker.refusals == []
    assert all("input_transformations" not in event.data for event in of_type(events, "step.finished"))


@pytest.mark.shared_server
async def test_steering_retries_and_interruptions(client: Client, provider: FakeProvider) -> None:
    call = ToolCall("list_directory", {"path": "."})
    provider.script(
        Reply(Reasoning("First."), Text("Looking."), Gate("steer"), call),
        HttpError(529),
        Reply(Reasoning("Second."), call),
        Reply(Reasoning("Third."), Text("Half of"), Gate("interrupt"), Text(" it")),
        Reply(Reasoning("Fourth."), Text("done")),
        Reply(Reasoning("Fifth."), Text("done")),
    )
    made = await client.create("look", model=BOUND)
    await provider.reached("steer")
    await client.post(made["id"], "and mind the time")
    provider.open("steer")
    await client.wait_for(made["id"], lambda event: event.type == "text.delta" and "Half" in event.data["text"])
    await client.post(made["id"], "stop, do this instead", "interrupt")
    await client.until_idle(made["id"])
    await say(client, made["id"], "and again")
    assert [refusal.message for refusal in provider.refusals] == []
    assert thinking_of(provider.requests[-1]) == 4
    assert (await client.session(made["id"]))["outcome"] == "completed"


async def test_a_restart_continues_with_the_same_bytes(
    start_server: StartServer, thinker: FakeProvider, tmp_path: Any
) -> None:
    first = start_server(data_dir=tmp_path / "kept")
    async with Client(first.url) as client:
        session, _ = await client.run("look", model=BOUND)
    await asyncio.to_thread(first.stop)
    async with Client(start_server(data_dir=tmp_path / "kept").url) as client:
        await say(client, session["id"], "and again")
    assert [thinking_of(request) for request in thinker.requests] == [0, 1, 3, 4]
    assert thinker.refusals == []


@pytest.mark.parametrize("in_stream", [False, True])
async def test_a_refused_prefix_is_repaired_by_one_retry(
    client: Client, thinker: FakeProvider, in_stream: bool
) -> None:
    thinker.configure(refuses_in_stream=in_stream)
    session, _ = await client.run("look", model=BOUND)
    thinker.rebind_thinking()
    count = len(thinker.requests)
    events = await say(client, session["id"], "and again")

    assert len(thinker.refusals) == 1
    retrying = of_type(events, "step.retrying")
    assert [(event.data["code"], event.data["delay_ms"]) for event in retrying] == [("reshape_drop_block", 0)]
    assert "bound to a different conversation" in retrying[0].data["detail"]
    later = thinker.requests[count:]
    assert [asks_to_drop(request) for request in later] == [False, True, True]
    assert [thinking_of(request) for request in later] == [3, 0, 1]
    assert (await client.session(session["id"]))["outcome"] == "completed"

    thinker.rebind_thinking()
    events = await say(client, session["id"], "once more")
    assert len(thinker.refusals) == 1
    dropped = [event.data.get("input_transformations", []) for event in of_type(events, "step.finished")]
    assert dropped[0][0]["type"] == "thinking_dropped"
    assert asks_to_drop(thinker.requests[-1])


async def test_a_model_not_known_to_bind_thinking_is_learned(client: Client, thinker: FakeProvider) -> None:
    session, _ = await client.run("look", model="fake-anthropic/model")
    thinker.rebind_thinking()
    await say(client, session["id"], "and again")
    assert len(thinker.refusals) == 1
    assert asks_to_drop(thinker.requests[-1])


@pytest.mark.shared_server
async def test_the_effort_goes_out_in_the_words_of_the_api(client: Client, thinker: FakeProvider) -> None:
    session, _ = await client.run("look", model=BOUND, reasoning_effort="high")
    sent = thinker.requests[-1].body
    assert (sent["thinking"], sent["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert "temperature" not in sent
    await client.change(session["id"], reasoning_effort="none")
    await say(client, session["id"], "and again")
    assert thinker.requests[-1].body["thinking"] == {"type": "disabled"}

    refused = {"error": {"message": "output_config.effort: Input should be 'low', 'medium' or 'high'"}}
    thinker.script(HttpError(400, orjson.dumps(refused)), Reply(Text("done")), Reply(Text("done")))
    await client.change(session["id"], reasoning_effort="max")
    await say(client, session["id"], "with all effort")
    assert thinker.requests[-1].body["output_config"] == {"effort": "high"}
    await client.change(session["id"], reasoning_effort="none")
    await say(client, session["id"], "and without any")
    assert thinker.requests[-1].body["thinking"] == {"type": "disabled"}

    thinker.respond(think)
    await client.run("an older one", model="fake-anthropic/claude-sonnet-4-20250514", reasoning_effort="medium")
    thinking = thinker.requests[-1].body["thinking"]
    assert (thinking["type"], thinking["budget_tokens"]) == ("enabled", 4_096)
    assert thinker.refusals == []
