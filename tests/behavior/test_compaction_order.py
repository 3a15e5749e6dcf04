"""Events around a compaction at unfortunate moments: changed settings, consecutive rounds, a revert in the middle, a
reader that waits for the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.behavior.checks import assert_sound, following
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, Event, of_type
from tests.behavior.long_task import SUMMARY, LongTask, asks_for_summary
from tests.behavior.rounds import (
    assert_rounds,
    assert_sent,
    compact,
    compacted,
    context,
    ended,
    gated,
    path,
    revert,
    rounds,
    settings,
    settled,
    state,
    steps_of,
    summaries_of,
    worked,
    worked_here,
)
from tests.behavior.test_background_compaction import NO_PRUNING, ROOMY, WINDOWS, Steady, summary_after
from tests.behavior.test_cancel_resume import cancel
from tests.behavior.test_compaction_messages import held_step
from tests.provider import FakeProvider, Gate, Reply, Text

PRUNING = settings(prune_protect=500, prune_minimum=100, prune_exempt_tools=["recall"])
NEVER_PRUNING = settings(prune_exempt_tools=["execute_command"])


# the round's own settings


@pytest.mark.extended
@pytest.mark.parametrize(("asked", "later"), [(PRUNING, NEVER_PRUNING), (NEVER_PRUNING, PRUNING)])
async def test_a_round_uses_the_settings_of_its_request(
    client: Client, provider: FakeProvider, asked: dict[str, Any], later: dict[str, Any]
) -> None:
    provider.respond(held_step(LongTask(10, most=4_000, seed=3), 10, "step"))
    session_id = (await client.create("the task", compaction=asked))["id"]
    await provider.reached("step")
    await compact(client, session_id)
    await client.change(session_id, compaction=later)
    provider.open("step")
    event = await ended(client, session_id, 1)

    assert event.type == "compaction.completed"
    assert event.data["was_pruned"] is (asked is PRUNING)
    await client.until_idle(session_id)
    await assert_rounds(client, session_id)


# one right after the other


async def would_have(client: Client, session_id: str, policy: str) -> int:
    """The tokens that a round with this policy would leave now."""
    response = await client.http.post(path(session_id), json={"dry_run": True, "policy": policy})
    assert response.status_code == 200, response.text
    return int(response.json()["tokens_after"])


@pytest.mark.extended
@pytest.mark.parametrize("running", [True, False])
async def test_a_summary_names_the_round_that_replaced_it(
    client: Client, provider: FakeProvider, running: bool
) -> None:
    """Two rounds without a step in between, in one run, or in two."""
    provider.respond(held_step(LongTask(12, most=8_000, seed=3), 11, "step"))
    session_id = (await client.create("the task", compaction=settings(tail_tokens=4_000)))["id"]
    await provider.reached("step")
    if running:
        await compact(client, session_id, policy="reactive")
        sizes = [await would_have(client, session_id, policy) for policy in ("reactive", "handoff")]
        # The result of the first round is still too large for the session's new policy.
        await client.change(session_id, compaction={"policy": "handoff", "handoff_threshold": sum(sizes) // 2})
    provider.open("step")
    if not running:
        await client.until_idle(session_id)
        await compacted(client, session_id, policy="reactive")
        await compacted(client, session_id, policy="handoff")
    second = await ended(client, session_id, 2)
    await client.until_idle(session_id)

    assert second.type == "compaction.completed"
    first, *_ = [message for message in await client.messages(session_id) if message["is_summary"]]
    assert first["round"] == 2
    listed = await rounds(client, session_id)
    assert [item["policy"] for item in listed[:2]] == ["reactive", "handoff"]
    shown = await context(client, session_id)
    assert first["id"] not in [message["id"] for message in shown["messages"]]
    await assert_sound(client, session_id)
    await assert_rounds(client, session_id)


async def test_the_context_of_a_live_session_equals_that_after_a_restart(
    start_server: StartServer, provider: FakeProvider
) -> None:
    first = start_server()
    provider.respond(held_step(LongTask(9, most=4_000, seed=3), 7, "step"))
    async with Client(first.url) as client:
        session_id = (await client.create("the task", compaction=settings("threshold")))["id"]
        await provider.reached("step")
        await compact(client, session_id)
        provider.open("step")
        await client.until_idle(session_id)
        await compacted(client, session_id)
        shown, history = await context(client, session_id), await client.messages(session_id)
        steps = (await client.session(session_id))["steps"]
        assert_sent(await context(client, session_id, steps), steps_of(provider)[-1])
    first.stop()

    async with Client(start_server().url) as client:
        assert await context(client, session_id) == shown
        assert await client.messages(session_id) == history
        provider.script(Reply(Text("I see.")))
        await client.say(session_id, "and now?")
        sent = await context(client, session_id, steps + 1)
        assert_sent(sent, steps_of(provider)[-1])
        old = settled(shown)
        assert sent["messages"][: len(old)] == old


# a revert in the middle


@pytest.mark.extended
async def test_a_prepared_summary_is_discarded_if_its_base_is_reverted_meanwhile(
    start_server: StartServer, provider: FakeProvider
) -> None:
    """The session has checked the summary's base and waits for the summary; then the previous round is reverted."""
    told = "The first round's own words."
    provider.configure(window=ROOMY)
    async with Client(start_server(models=WINDOWS).url) as client:
        compaction = {**settings(background=True), **NO_PRUNING}
        session_id = await worked_here(client, provider, compaction=compaction, limits={"max_steps": None})
        before = settled(await context(client, session_id))
        provider.script_when(asks_for_summary, Reply(Text(f"## Decisions\n{told}")))
        await compacted(client, session_id)
        provider.respond(Steady(summary_after("slow"), more=99, rest=0))
        async with following(client, session_id) as follower:
            await client.post(session_id, "go on with it")
            await provider.reached("slow")

            def full(event: Event) -> bool:
                shown = event.data.get("context") or {}
                return event.type == "step.finished" and shown["tokens"] > shown["usable"]

            await follower.seen(full)
            assert told in str(steps_of(provider)[-1].user_texts)
            assert await state(client, session_id) == (1, False)
            count = len(provider.requests)
            await revert(client, session_id, 1)
            provider.respond(LongTask(0))
            provider.open("slow")
            await follower.type("session.idle", 2)

        events = await assert_rounds(client, session_id)
        listed = await rounds(client, session_id)
        assert [item["status"] for item in listed[:3]] == ["reverted", "discarded", "completed"]
        assert listed[1]["usage"]["output_tokens"] > 0
        assert [e.data["round"] for e in of_type(events, "compaction.discarded")] == [2]
        later = provider.requests[count:]
        assert summaries_of(provider)[-1] in later
        assert not any(told in str((*r.user_texts, *r.assistant_texts)) for r in later)
        shown = await context(client, session_id)
        assert told not in str(shown)
        assert before[0] in shown["messages"]
        await assert_sound(client, session_id)
    assert provider.refusals == []


# a run that ends before its first step


async def stop(client: Client, session_id: str, message_id: str) -> None:
    await cancel(client, session_id)


async def withdraw(client: Client, session_id: str, message_id: str) -> None:
    response = await client.http.delete(f"/v1/sessions/{session_id}/queue/{message_id}")
    assert response.status_code == 204, response.text


async def use_up(client: Client, session_id: str, message_id: str) -> None:
    await client.change(session_id, limits={"max_tokens": 1})


@pytest.mark.parametrize(
    ("end", "outcome", "status"),
    [
        (withdraw, "completed", "completed"),
        (use_up, "limit_reached", "completed"),
        (stop, "cancelled", "cancelled"),
    ],
)
async def test_a_round_does_not_stay_open_if_the_run_after_its_request_has_no_step(
    start_server: StartServer,
    provider: FakeProvider,
    end: Callable[[Client, str, str], Awaitable[None]],
    outcome: str,
    status: str,
) -> None:
    async with Client(start_server(max_runs=1).url) as client:
        session_id = await worked(client, provider)
        provider.script_for("hold", Reply(Gate("hold"), Text("done")))
        await client.create("hold")
        await provider.reached("hold")
        await compact(client, session_id)
        posted = await client.post(session_id, "and now?")
        await end(client, session_id, posted["id"])
        provider.open("hold")

        assert (await ended(client, session_id, 1)).type == f"compaction.{status}"
        session = await client.session(session_id)
        assert (session["status"], session["outcome"]) == ("idle", outcome)
        assert not session["compaction"]["in_progress"]
        await assert_sound(client, session_id)
        await assert_rounds(client, session_id)


# a reader that waits


@pytest.mark.parametrize("ends", ["completed", "failed", "cancelled"])
async def test_until_idle_waits_for_a_round_of_an_idle_session(
    client: Client, provider: FakeProvider, ends: str
) -> None:
    session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=gated("summary")))
    if ends == "failed":
        provider.script_when(asks_for_summary, Reply(Text(SUMMARY.format(step=1))))
        await compacted(client, session_id, policy="handoff")
    head = (await client.session(session_id))["last_seq"]
    await compact(client, session_id, policy="handoff")
    if ends != "failed":
        await provider.reached("summary")
    reading = asyncio.create_task(client.until_idle(session_id, head))
    if ends == "cancelled":
        await client.http.post(f"/v1/sessions/{session_id}/cancel")
    provider.open("summary")
    async with asyncio.timeout(60):
        events = await reading
    assert [event.type for event in events][:1] == ["compaction.started"]
    assert f"compaction.{ends}" in [event.type for event in events]
    assert not (await client.session(session_id))["compaction"]["in_progress"]


async def test_until_idle_of_a_session_without_a_round_ends_at_once(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    await compacted(client, session_id)
    async with asyncio.timeout(60):
        events = await client.until_idle(session_id)
    assert events[-1].id == (await client.session(session_id))["last_seq"]
