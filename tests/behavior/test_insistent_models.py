"""Servers with their own rules about messages: each rule costs one refused request ever, whatever happens to the
session and across restarts."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest
from sqlalchemy import func, select, update

from app.db.models import model_quirks
from app.messages import now
from app.runtime.learned_models import QUIRKS_BELIEVED_FOR
from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, of_type
from tests.behavior.long_task import ASKS_IN_CONVERSATION, ASKS_WITH_TEXT, LongTask
from tests.behavior.rounds import POLICIES, compact, compacted, ended, settings, summaries_of
from tests.behavior.test_cancel_resume import cancel
from tests.databases import opened
from tests.provider import FakeProvider, Gate, Hang, HttpError, Raw, Reasoning, Reply, Text, ToolCall

RULES = {"mistral": 2, "alternating": 1, "two_roles": 3}
"""The number of requests the servers refuse before all of their rules are known: Gemma's template has no system role,
no tools, and requires alternating turns."""


def step(text: str) -> Reply:
    return Reply(Text(text), ToolCall("list_directory", {"path": "."}))


async def work(client: Client, provider: FakeProvider, name: str, policy: str) -> str:
    """A session that is steered between steps, interrupted, cancelled, resumed, followed up and compacted."""
    provider.script(step("one"), Reply(Text("two"), Gate(f"{name} steer"), ToolCall("list_directory", {"path": "."})),
                    Reply(Text("three"), Gate(f"{name} interrupt"), Hang()))  # fmt: skip
    session_id = str((await client.create("the task itself", compaction=settings(policy)))["id"])
    await provider.reached(f"{name} steer")
    await client.post(session_id, "look left")
    await client.post(session_id, "then right")
    provider.open(f"{name} steer")
    await provider.reached(f"{name} interrupt")
    provider.script(step("four"), Reply(Text("five"), Gate(f"{name} cancel"), Hang()))
    await client.post(session_id, "stop that", "interrupt")
    await provider.reached(f"{name} cancel")
    provider.script(step("six"), Reply(Text("seven")), step("eight"), Reply(Text("nine")))
    await cancel(client, session_id)
    await client.until_idle(session_id)
    await client.resume(session_id)
    await client.until_idle(session_id)
    await client.post(session_id, "and this", "follow_up")
    await client.until_idle(session_id)
    provider.respond(LongTask(4, most=2_000))
    await client.post(session_id, "much more", "follow_up")
    await client.until_idle(session_id)
    completed = await compacted(client, session_id)
    assert completed.type == "compaction.completed"
    return session_id


@across(1, rule=RULES, policy=POLICIES)
async def test_each_rule_costs_one_request_ever(
    start_server: StartServer, provider: FakeProvider, rule: str, policy: str
) -> None:
    provider.configure(insists=frozenset({rule}))
    server = start_server()
    async with Client(server.url) as client:
        session_id = await work(client, provider, "first", policy)
        await assert_sound(client, session_id)
    server.stop()
    assert len(provider.refusals) == RULES[rule], provider.refusals

    async with Client(start_server().url) as client:
        provider.script(step("ten"), Reply(Text("eleven")))
        await client.post(session_id, "after the restart", "follow_up")
        await client.until_idle(session_id)
        await work(client, provider, "second", policy)
        await assert_sound(client, session_id)
    assert len(provider.refusals) == RULES[rule], provider.refusals
    assert provider.broken == []


@first_of(rule=RULES)
async def test_a_rule_that_is_stated_inside_a_stream_is_learned(
    client: Client, provider: FakeProvider, rule: str
) -> None:
    provider.configure(insists=frozenset({rule}), refuses_in_stream=True)
    session_id = await work(client, provider, "first", "reactive")
    await assert_sound(client, session_id)
    assert len(provider.refusals) == RULES[rule], provider.refusals


@pytest.mark.parametrize("in_stream", [True, False])
async def test_a_call_its_parser_did_not_understand_is_retried(
    client: Client, provider: FakeProvider, in_stream: bool
) -> None:
    """Groq's refusal quotes what the model wrote, so nothing is learned about the model."""
    wrote = "create(max_tokens=100)  # unknown field, conversation roles must alternate user/assistant"
    wrote += "; the model's maximum context length is 4096 tokens, your messages resulted in 5000 tokens"
    error = {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed",
             "failed_generation": wrote}  # fmt: skip
    data = orjson.dumps({"error": error})
    failed = Reply(Raw(b"data: " + data + b"\n\n")) if in_stream else HttpError(400, data)
    provider.script(failed, step("one"), Reply(Text("done")))
    session, events = await client.run("task")
    assert session["outcome"] == "completed"
    assert len(of_type(events, "step.retrying")) == 1
    first, *later = [set(request.body) for request in provider.requests]
    assert later == [first, first]


async def test_an_error_after_text_is_not_a_refusal(client: Client, provider: FakeProvider) -> None:
    """Both may come in one piece."""
    delta = {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Half"}}]}
    error = {"error": {"message": "Unsupported parameter: 'stream_options'.", "type": "invalid_request_error"}}
    pieces = b"".join(b"data: " + orjson.dumps(document) + b"\n\n" for document in (delta, error))
    provider.script(Reply(Raw(pieces)), Reply(Text("never")))
    session, _ = await client.run("task")
    assert (session["outcome"], session["error"]["code"]) == ("failed", "provider_bad_request")
    assert len(provider.requests) == 1
    assert (await client.messages(session["id"]))[-1]["parts"][0]["text"] == "Half"


async def test_a_rule_is_learned_again_after_a_month(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(refused_parameters=frozenset({"stream_options"}))
    server = start_server()
    async with Client(server.url) as client:
        await client.run("one")
    server.stop()
    with opened(server.settings.data_dir / "palimpsest.db") as database:
        count = database.execute(select(func.count()).select_from(model_quirks)).scalar_one()
        old = now() - QUIRKS_BELIEVED_FOR - timedelta(days=1)
        database.execute(update(model_quirks).values(learned_at=old))
    assert (count, len(provider.refusals)) == (1, 1)

    server = start_server()
    async with Client(server.url) as client:
        await client.run("two")
    server.stop()
    assert len(provider.refusals) == 2
    async with Client(start_server().url) as client:
        await client.run("three")
    assert len(provider.refusals) == 2


@first_of(policy=POLICIES)
async def test_a_summary_refused_in_the_conversation_is_asked_for_as_text(
    client: Client, provider: FakeProvider, policy: str
) -> None:
    refusal = HttpError(400, {"error": {"message": "This conversation is not to my liking."}})
    provider.respond(LongTask(4, most=4_000, seed=3))
    session, _ = await client.run("the task itself", compaction=settings(policy))
    provider.script_when(lambda request: ASKS_IN_CONVERSATION in request.last_user_text, *[refusal] * 9)

    completed = await compacted(client, session["id"])
    assert (completed.type, completed.data["rung"]) == ("compaction.completed", "summary")
    asked = ["text" if ASKS_WITH_TEXT in r.last_user_text else "inside" for r in summaries_of(provider)]
    # Once more, since it names nothing, and without its temperature, which `threshold` sets.
    assert asked == ["inside"] * (3 if policy == "threshold" else 2) + ["text"]
    assert of_type(await assert_sound(client, session["id"]), "compaction.failed") == []


async def test_a_refused_key_is_not_retried_as_text(client: Client, provider: FakeProvider) -> None:
    provider.respond(LongTask(4, most=4_000, seed=3))
    session, _ = await client.run("the task itself", model=OPENAI, compaction=settings("reactive"))
    provider.script_when(lambda request: ASKS_IN_CONVERSATION in request.last_user_text, HttpError(401))
    started = await compact(client, session["id"])
    await ended(client, session["id"], started["round"])
    assert len(summaries_of(provider)) == 1


@first_of(policy=POLICIES)
async def test_the_field_of_reasoning_that_a_server_wants_with_all_calls_costs_one_request_ever(
    start_server: StartServer, provider: FakeProvider, policy: str
) -> None:
    provider.configure(insists=frozenset({"echo"}))
    server = start_server()
    thinking = [Reply(Reasoning(f"thought {n}"), Text(f"t{n}"), step("x").parts[1]) for n in range(3)]
    async with Client(server.url) as client:
        provider.script(*thinking, Reply(Reasoning("at last"), Text("done")))
        session, events = await client.run("the task itself", compaction=settings(policy))
        assert session["outcome"] == "completed"
        assert of_type(events, "step.retrying") == []
        sent = [m.get("reasoning_content") for m in provider.requests[-1].messages if m["role"] == "assistant"]
        assert sent == ["thought 0", "thought 1", "thought 2"]
        await assert_sound(client, session["id"])
    server.stop()
    async with Client(start_server().url) as client:
        provider.script(*thinking, Reply(Text("done")))
        await client.post(session["id"], "after the restart", "follow_up")
        await client.until_idle(session["id"])
        provider.script(*thinking, Reply(Text("done")))
        other, _ = await client.run("another task", compaction=settings(policy))
        provider.respond(LongTask(4, most=2_000))
        await client.post(other["id"], "much more", "follow_up")
        await client.until_idle(other["id"])
        assert (await compacted(client, other["id"])).type == "compaction.completed"
        await assert_sound(client, other["id"])
    assert len(provider.refusals) == 1, provider.refusals


@pytest.mark.parametrize("text", ["{}", "<tool_call>{}</tool_call>"])
async def test_a_call_written_as_text_is_run(client: Client, provider: FakeProvider, text: str) -> None:
    call = '{"name": "list_directory", "arguments": {"path": "."}}'
    provider.script(Reply(Text(text.format(call), chunks=9)), Reply(Text("done")))
    session, events = await client.run("task")
    assert session["outcome"] == "completed"
    asked = (await client.messages(session["id"]))[1]
    assert [part["type"] for part in asked["parts"]] == ["tool_call"]
    assert [event.data["status"] for event in of_type(events, "tool.result")] == ["completed"]
    assert of_type(events, "text.delta")[0].data["text"] == "done"
    await assert_sound(client, session["id"])


async def test_an_answer_that_repeats_itself_is_cut_off_and_tried_once_more(
    client: Client, provider: FakeProvider
) -> None:
    # Only the cutoff ends it.
    endless = Reply(Text("I begin. " + "na " * 4_000, chunks=300), Hang())
    provider.script(endless, Reply(Text("done")))
    session, events = await client.run("task")
    assert session["outcome"] == "completed"
    assert [event.data["code"] for event in of_type(events, "step.retrying")] == ["degenerate_output"]
    assert "repeated the same characters" in provider.requests[1].last_user_text
    await assert_sound(client, session["id"])

    provider.script(endless, endless, Reply(Text("never")))
    session, events = await client.run("task again")
    assert (session["outcome"], session["error"]["code"]) == ("failed", "degenerate_output")
    kept = (await client.messages(session["id"]))[-1]
    assert kept["parts"][0]["text"].startswith("I begin. na na")
    await assert_sound(client, session["id"])
