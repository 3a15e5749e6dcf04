"""Cleared outputs and past contexts: each step's context stays as it was sent, whatever came after it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, Event, of_type
from tests.behavior.long_task import LongTask, asks_for_summary
from tests.behavior.rounds import (
    MODELS,
    POLICIES,
    SMALL,
    WINDOW,
    assert_rounds,
    assert_sent,
    compacted,
    context,
    ended,
    revert,
    rounds,
    settings,
    steps_of,
    worked_here,
)
from tests.provider import Answer, FakeProvider, HttpError, RecordedRequest, Reply, Text, ToolCall

Responder = Callable[[RecordedRequest], Answer]

ROOMY = 32_000
WINDOWS = {name: {"context_window": ROOMY} for name in MODELS}
USABLE = 24_000
"""The usable part of that window: less a quarter for all reserves."""

PLACEHOLDER = '[Old tool result cleared; recall("{}") returns it]'


async def assert_contexts(client: Client, provider: FakeProvider, session_id: str) -> list[dict[str, Any]]:
    """Each step's context equals its request; returns all contexts, without later metadata of their messages."""
    sent = steps_of(provider)
    count = (await client.session(session_id))["steps"]
    assert len(sent) == count
    contexts = [await context(client, session_id, step) for step in range(1, count + 1)]
    for shown, request in zip(contexts, sent, strict=True):
        assert_sent(shown, request)
        for message in shown["messages"]:
            del message["round"]
            for part in message["parts"]:
                part.pop("compacted_at", None)
                part.pop("original_tokens", None)
    return contexts


@across(1, policy=POLICIES, model=MODELS)
@pytest.mark.slow
async def test_the_context_of_each_step_stays_as_it_was_sent(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> None:
    provider.configure(window=WINDOW)
    provider.respond(LongTask(20))
    async with Client(start_server(models=SMALL).url) as client:
        session, _ = await client.run("the task", model=model, compaction=policy)
        session_id = session["id"]
        assert session["compaction"]["count"] >= 2
        contexts = await assert_contexts(client, provider, session_id)

        latest = [item["round"] for item in await rounds(client, session_id) if item["status"] == "completed"][-1]
        await revert(client, session_id, latest)
        provider.respond(LongTask(3, seed=7))
        await client.say(session_id, "some more")
        assert (await client.session(session_id))["outcome"] == "completed"
        more = await assert_contexts(client, provider, session_id)
        assert more[: len(contexts)] == contexts
        await assert_rounds(client, session_id)
    assert provider.broken == []


@pytest.mark.extended
@across(1, model=MODELS, most=[2, 3])
async def test_contexts_between_rounds_prunes_and_reverts(
    client: Client, provider: FakeProvider, model: str, most: int
) -> None:
    pruning = settings(prune_protect=500, prune_minimum=100)
    session_id = await worked_here(client, provider, LongTask(10, most=4_000, seed=3), compaction=pruning, model=model)

    async def more(text: str) -> None:
        provider.respond(LongTask(3, most=4_000, seed=len(text)))
        await client.say(session_id, text)

    for number in range(1, most + 1):
        await compacted(client, session_id, policy=POLICIES[number % 3])
        await more(f"after round {number}")
    known = await assert_contexts(client, provider, session_id)
    for number in range(most, 0, -1):
        await revert(client, session_id, number)
        await more(f"after the revert of {number}")
    contexts = await assert_contexts(client, provider, session_id)
    assert contexts[: len(known)] == known
    await assert_sound(client, session_id)
    await assert_rounds(client, session_id)
    assert provider.refusals == []


# cleared outputs


def filling(share: float, end: Responder, size: int = 4_000) -> Responder:
    """Steps with one output each until a request reaches this share of the usable window; then `end`'s answer."""

    def answer(request: RecordedRequest) -> Answer:
        if request.tokens >= share * USABLE:
            return end(request)
        command = f"head -c {size} /dev/zero | tr '\\0' x; echo output {len(request.tool_results)}"
        return Reply(ToolCall("execute_command", {"command": command}))

    return answer


def cleared(events: list[Event], reason: str) -> dict[str, Any]:
    [event] = of_type(events, "prune.completed")
    data = event.data
    assert data["reason"] == reason
    assert data["outputs_pruned"] == len(data["call_ids"]) > 0
    assert data["tokens_saved"] == data["tokens_before"] - data["tokens_after"] > 0
    assert data["tools"] == ["execute_command"]
    return data


async def assert_kept(client: Client, session_id: str, call_ids: list[str]) -> None:
    """Cleared outputs are still in the history and stored as raw outputs."""
    base = f"/v1/sessions/{session_id}"
    shown = {
        p["call_id"]: p for m in await client.messages(session_id) for p in m["parts"] if p["type"] == "tool_result"
    }
    for call_id in call_ids:
        raw = await client.http.get(f"{base}/tool-calls/{call_id}/output")
        assert raw.content.startswith(b"x" * 4_000)
        assert shown[call_id]["output"].startswith("x" * 1_000)
        assert shown[call_id]["compacted_at"] is not None
        assert shown[call_id]["original_tokens"] > 900
    assert {id for id, part in shown.items() if part["compacted_at"] is not None} == set(call_ids)


@across(1, outcome=["completed", "failed"], model=MODELS)
async def test_old_outputs_are_cleared_when_a_run_ends_near_the_trigger(
    start_server: StartServer, provider: FakeProvider, model: str, outcome: str
) -> None:
    provider.configure(window=ROOMY)
    ends: dict[str, Answer] = {"completed": Reply(Text("done")), "failed": HttpError(402)}
    provider.respond(filling(0.94, lambda _: ends[outcome]))
    async with Client(start_server(models=WINDOWS).url) as client:
        session, events = await client.run("the task", model=model, compaction="seed-reactive")
        assert session["outcome"] == outcome
        data = cleared(events, "run_end")
        assert events[-2].type == "prune.completed"
        await assert_kept(client, session["id"], data["call_ids"])

        provider.respond(lambda _: Reply(Text("and on")))
        await client.say(session["id"], "next")
        results = provider.requests[-1].tool_results
        placeholders = {id: text for id, text in results.items() if text.startswith("[Old tool result")}
        assert placeholders == {id: PLACEHOLDER.format(id) for id in data["call_ids"]}
        assert provider.requests[-1].tokens < 0.8 * USABLE
        await assert_contexts(client, provider, session["id"])
        await assert_sound(client, session["id"])
        await assert_rounds(client, session["id"])
    assert provider.refusals == []


async def test_by_default_nothing_is_cleared(start_server: StartServer, provider: FakeProvider) -> None:
    """A run that ends near the trigger leaves the context as it is."""
    provider.configure(window=ROOMY)
    provider.respond(filling(0.94, lambda _: Reply(Text("done"))))
    async with Client(start_server(models=WINDOWS).url) as client:
        _, events = await client.run("the task", model=OPENAI)
        assert of_type(events, "prune.completed", "compaction.completed") == []
    assert not any("Old tool result" in text for text in provider.requests[-1].tool_results.values())


async def test_nothing_is_cleared_when_a_run_ends_far_from_the_trigger(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(filling(0.8, lambda _: Reply(Text("done"))))
    async with Client(start_server(models=WINDOWS).url) as client:
        _, events = await client.run("the task", model=OPENAI, compaction="seed-reactive")
        assert of_type(events, "prune.completed") == []


@first_of(model=MODELS)
async def test_old_outputs_are_cleared_at_the_trigger_and_recalled(
    start_server: StartServer, provider: FakeProvider, model: str
) -> None:
    provider.configure(window=ROOMY)
    recalled: list[str] = []

    def answer(request: RecordedRequest) -> Answer:
        old = [id for id, text in request.tool_results.items() if text == PLACEHOLDER.format(id)]
        if recalled:
            return Reply(Text("seen"))
        if old:
            recalled.append(old[-1])
            return Reply(ToolCall("recall", {"call_id": old[-1], "grep": "output"}))
        return work(request)

    work = filling(9, lambda _: Reply(Text("never")))
    provider.respond(answer)
    async with Client(start_server(models=WINDOWS).url) as client:
        session, events = await client.run("the task", model=model, compaction="seed-reactive")
        assert session["outcome"] == "completed"
        data = cleared(events, "trigger")
        assert data["tokens_before"] > USABLE >= data["tokens_after"]
        assert not any(asks_for_summary(request) for request in provider.requests)
        assert await rounds(client, session["id"]) == []
        await assert_kept(client, session["id"], data["call_ids"])
        [result] = [e.data for e in of_type(events, "tool.result") if e.data["name"] == "recall"]
        assert result["status"] == "completed"
        assert "output " in result["output"]
        await assert_contexts(client, provider, session["id"])
        await assert_rounds(client, session["id"])
    assert provider.refusals == []


# all at once


@first_of(seed=range(4))
async def test_concurrent_requests_leave_a_sound_session(
    start_server: StartServer, provider: FakeProvider, seed: int
) -> None:
    """Rounds, reverts, messages and cancels in any order, without waiting in between."""
    provider.configure(window=WINDOW)
    provider.respond(LongTask(1_000_000, most=4_000, seed=seed))
    rng = random.Random(seed)
    async with Client(start_server(models=SMALL).url) as client:
        background = settings(POLICIES[seed % 3], background=seed % 2 == 0)
        made = await client.create("the task", compaction=background, limits={"max_steps": 25}, model=MODELS[seed % 2])
        base = f"/v1/sessions/{made['id']}"

        async def act(number: int) -> int:
            match rng.choice(("compact", "compact", "revert", "steer", "interrupt", "cancel", "resume", "look")):
                case "compact":
                    body = {"policy": rng.choice(POLICIES), "dry_run": rng.random() < 0.3}
                    return (await client.http.post(f"{base}/compactions", json=body)).status_code
                case "revert":
                    known = (await client.get(f"{base}/compactions"))["items"]
                    return (await client.http.delete(f"{base}/compactions/{max(1, len(known))}")).status_code
                case "cancel" | "resume" as call:
                    return (await client.http.post(f"{base}/{call}")).status_code
                case "look":
                    return (await client.http.get(f"{base}/context")).status_code
                case mode:
                    queued = await client.http.post(f"{base}/queue", json={"content": f"word {number}", "mode": mode})
                    return queued.status_code

        for number in range(25):
            codes = await asyncio.gather(act(number), act(number + 100))
            assert set(codes) <= {200, 202, 204, 404, 409}, codes
        provider.respond(lambda request: Reply(Text("a short end.")))
        await client.say(made["id"], "the last word")
        for item in await rounds(client, made["id"]):
            await ended(client, made["id"], item["round"])
        assert any("the last word" in request.last_user_text for request in provider.requests)
        await assert_sound(client, made["id"])
        await assert_rounds(client, made["id"])
    assert provider.broken == []
