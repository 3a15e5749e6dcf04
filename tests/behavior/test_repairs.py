"""A context that no provider would accept is repaired before it is sent: reported once, and stable from then on."""

from __future__ import annotations

from typing import Any

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type
from tests.behavior.rounds import MODELS, POLICIES, assert_sent, compacted, context, settings, steps_of
from tests.provider import FakeProvider, Reasoning, Reply, Text, ToolCall

REPAIRS = "palimpsest_context_repairs_total"
BEGUN_BY_THE_ASSISTANT: dict[str, Any] = {
    "format": "openai",
    "messages": [
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Hello to you."},
        {"role": "assistant", "content": "What shall I do? " * 200},
    ],
}


async def repairs(client: Client) -> dict[str, float]:
    """How often each kind was counted."""
    lines = (await client.http.get("/metrics")).text.splitlines()
    found = [line.removeprefix(REPAIRS).split() for line in lines if line.startswith(REPAIRS)]
    return {label.split('"')[1]: float(count) for label, count in found}


async def generations(client: Client, session_id: str) -> list[int]:
    return [step["generation"] for step in await client.steps(session_id)]


async def test_a_history_that_is_sent_in_another_shape_stays_repaired(client: Client, provider: FakeProvider) -> None:
    provider.configure(insists=frozenset({"echo"}))
    step = Reply(Reasoning("I look."), ToolCall("list_directory", {"path": "."}))
    provider.script(step, Reply(Text("done")))
    session, events = await client.run("look", history=BEGUN_BY_THE_ASSISTANT)
    assert session["outcome"] == "completed"
    assert of_type(events, "step.retrying") == []
    first = [next(m["role"] for m in request.messages if m["role"] != "system") for request in provider.requests]
    assert set(first) == {"user"}
    assert_sent(await context(client, session["id"], 2), provider.requests[-1])


@first_of(model=MODELS)
async def test_a_repair_is_reported_once(start_server: StartServer, provider: FakeProvider, model: str) -> None:
    provider.respond(lambda _: Reply(Text("Fine.")))
    first = start_server()
    async with Client(first.url) as client:
        session_id = (await client.create(model=model, history=BEGUN_BY_THE_ASSISTANT))["id"]
        assert await repairs(client) == {}
        for number in range(3):
            await client.say(session_id, f"message {number}")
        assert await repairs(client) == {"first_message": 1}
        (generation,) = set(await generations(client, session_id))
    first.stop()
    async with Client(start_server().url) as client:
        await client.say(session_id, "message 3")
        # No new generation started, so the provider's cache stays valid.
        assert await generations(client, session_id) == [generation] * 4
        assert await repairs(client) == {}
        for number, request in enumerate(provider.requests, 1):
            assert_sent(await context(client, session_id, number), request)
        assert all(later.cached_tokens > 0 for later in provider.requests[1:])
        await assert_sound(client, session_id)
    assert provider.refusals == []


async def test_a_new_generation_needs_no_second_one_for_earlier_repairs(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.respond(lambda _: Reply(Text("Fine.")))
    async with Client(start_server().url) as client:
        session_id = (await client.create(model=MODELS[0], history=BEGUN_BY_THE_ASSISTANT))["id"]
        await client.say(session_id, "one")
        await client.change(session_id, model=MODELS[1])
        await client.say(session_id, "two")
        before, after = await generations(client, session_id)
        assert after == before + 1
        assert await repairs(client) == {"first_message": 1}
        assert_sent(await context(client, session_id, 2), provider.requests[-1])
        other = (await client.create(model=MODELS[0], history=BEGUN_BY_THE_ASSISTANT))["id"]
        await client.say(other, "one")
        assert await repairs(client) == {"first_message": 2}
    assert provider.refusals == []


@first_of(policy=POLICIES)
async def test_a_round_includes_repaired_messages(
    start_server: StartServer, provider: FakeProvider, policy: str
) -> None:
    provider.respond(lambda _: Reply(Text("## Completed Work\nall so far")))
    async with Client(start_server().url) as client:
        made = await client.create(history=BEGUN_BY_THE_ASSISTANT, compaction=settings(policy))
        session_id = made["id"]
        await client.say(session_id, "one")
        await compacted(client, session_id)
        await client.say(session_id, "two")
        before, after = await generations(client, session_id)
        assert after == before + 1
        assert await repairs(client) == {"first_message": 1}
        assert_sent(await context(client, session_id, 2), steps_of(provider)[-1])
    assert provider.refusals == []
