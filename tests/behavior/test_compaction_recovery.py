"""A server that goes down during a compaction: the round fails, and everything else continues."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest

from tests.behavior.checks import assert_sound, following, user_texts
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartProcess
from tests.behavior.harness import Client, of_type
from tests.behavior.long_task import LongTask
from tests.behavior.replica import USAGE, Replica
from tests.behavior.rounds import (
    MODELS,
    POLICIES,
    SMALL,
    WINDOW,
    assert_rounds,
    compact,
    compacted,
    context,
    gated,
    revert,
    rounds,
    settings,
    snapshot,
    state,
    worked,
)
from tests.behavior.test_compaction_messages import STEPS, held_step
from tests.provider import FakeProvider, Gate, Reply, Text

ENDS = [signal.SIGKILL, signal.SIGTERM]


@pytest.mark.extended
@across(1, policy=POLICIES, how=ENDS)
async def test_a_run_continues_after_its_server_ended_during_an_automatic_round(
    start_process: StartProcess, provider: FakeProvider, how: signal.Signals, policy: str
) -> None:
    # In turn: all twelve combinations would prove no more.
    model = MODELS[(POLICIES.index(policy) + ENDS.index(how)) % 2]
    provider.configure(window=WINDOW)
    provider.respond(LongTask(STEPS, summarise=gated("summary")))
    small = {"PALIMPSEST_MODELS": json.dumps(SMALL)}
    first = start_process(**small)
    async with Client(first.url) as client:
        waits = {"policy": policy, "background": False}
        session_id = (await client.create("the task", model=model, compaction=waits))["id"]
        await provider.reached("summary")
        assert (await state(client, session_id))[1]
        asked = (await rounds(client, session_id))[-1]["round"]
        await client.post(session_id, "said meanwhile")
        assert first.end(how) in (-how, 0)

    async with Client(start_process(**small).url) as client:
        await client.until_idle(session_id)
        session = await client.session(session_id)
        assert (session["outcome"], session["error"]) == ("completed", None)
        listed = await rounds(client, session_id)
        assert listed[asked - 1]["status"] == "cancelled"
        assert session["compaction"]["count"] == len([item for item in listed if item["status"] == "completed"]) > 0
        assert user_texts(await client.messages(session_id)).count("said meanwhile") == 1
        events = await assert_sound(client, session_id)
        [cancelled] = of_type(events, "compaction.cancelled")
        assert cancelled.data["round"] == asked
        assert len(of_type(events, "session.recovered")) <= 1
        await assert_rounds(client, session_id)
    assert provider.broken == []


async def _billed_round(client: Client, session_id: str) -> dict[str, Any]:
    """The running round once its first answer is billed; no event reports that."""
    async with asyncio.timeout(60):
        while True:
            [running] = [item for item in await rounds(client, session_id) if item["status"] == "running"]
            if running["usage"]["output_tokens"] > 0:
                return running


@pytest.mark.extended
@first_of(how=ENDS)
async def test_the_cost_of_a_round_before_its_server_ended_is_kept(
    start_process: StartProcess, provider: FakeProvider, how: signal.Signals
) -> None:
    """The first answer is truncated, so the model is called again; the server ends before it has answered."""
    short = Reply(Text("half of"), finish="length")
    answers = iter([short, Reply(Gate("again"), Text("never read"))])
    provider.configure(window=WINDOW)
    provider.respond(LongTask(30, most=4_000, summarise=lambda request, step: next(answers, short)))
    small = {"PALIMPSEST_MODELS": json.dumps(SMALL)}
    first = start_process(**small)
    async with Client(first.url) as client:
        session_id = (await client.create("the task", compaction=settings("threshold", background=False)))["id"]
        await provider.reached("again")
        running = await _billed_round(client, session_id)
        first.end(how)

    async with Client(start_process(**small).url) as client:
        await client.until_idle(session_id)
        listed = await rounds(client, session_id)
        cut_off = listed[running["round"] - 1]
        assert cut_off["status"] == "cancelled"
        assert cut_off["usage"]["output_tokens"] >= running["usage"]["output_tokens"]
        [cancelled] = of_type(await assert_sound(client, session_id), "compaction.cancelled")
        assert cancelled.data["usage"] == cut_off["usage"]
        made = (await client.get(f"/v1/sessions/{session_id}/steps", limit=500))["items"]
        used = (await client.session(session_id))["usage"]
        for kind in USAGE:
            assert used[kind] == sum(row["usage"][kind] for row in [*made, *listed]), kind


@first_of(how=ENDS)
async def test_an_idle_session_is_unchanged_after_its_server_ended_during_a_round(
    start_process: StartProcess, provider: FakeProvider, how: signal.Signals
) -> None:
    first = start_process()
    async with Client(first.url) as client:
        session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=gated("summary")))
        before, history = await context(client, session_id), await client.messages(session_id)
        await compact(client, session_id)
        await provider.reached("summary")
        first.end(how)

    async with Client(start_process().url) as client:
        assert await state(client, session_id) == (0, False)
        assert [item["status"] for item in await rounds(client, session_id)] == ["cancelled"]
        assert await context(client, session_id) == before
        assert await client.messages(session_id) == history
        assert (await client.session(session_id))["status"] == "idle"
        assert (await compacted(client, session_id)).data["round"] == 2
        await assert_sound(client, session_id)
        await assert_rounds(client, session_id)


@across(1, begun=[True, False], how=ENDS)
async def test_a_running_session_continues_after_its_server_ended_before_or_during_a_round(
    start_process: StartProcess, provider: FakeProvider, how: signal.Signals, begun: bool
) -> None:
    provider.respond(held_step(LongTask(9, most=4_000, seed=3, summarise=gated("summary")), 6, "step"))
    first = start_process()
    async with Client(first.url) as client:
        session_id = (await client.create("the task", compaction=settings()))["id"]
        await provider.reached("step")
        await compact(client, session_id)
        if begun:
            provider.open("step")
            await provider.reached("summary")
        first.end(how)
    provider.open("step")

    async with Client(start_process().url) as client:
        await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        assert [item["status"] for item in await rounds(client, session_id)] == ["cancelled"]
        assert await state(client, session_id) == (0, False)
        await assert_sound(client, session_id)
        await assert_rounds(client, session_id)


async def test_a_compaction_survives_a_kill(start_process: StartProcess, provider: FakeProvider) -> None:
    first = start_process()
    async with Client(first.url) as client:
        session_id = await worked(client, provider)
        before = await context(client, session_id)
        await compacted(client, session_id)
        shown, listed = await context(client, session_id), await rounds(client, session_id)
        first.end(signal.SIGKILL)
    async with Client(start_process().url) as client:
        assert await context(client, session_id) == shown
        assert await rounds(client, session_id) == listed
        assert await state(client, session_id) == (1, False)
        await revert(client, session_id, 1)
        assert await context(client, session_id) == before
        await assert_rounds(client, session_id)


# what a client knows


@pytest.mark.shared_server
@first_of(policy=POLICIES)
async def test_a_snapshot_at_any_event_and_the_stream_after_it_are_the_whole(
    client: Client, provider: FakeProvider, policy: str
) -> None:
    """A client that joins at any event of these rounds ends with the same state as one present from the start."""
    provider.respond(LongTask(9, most=4_000, seed=3, summarise=gated("first")))
    pruning = settings(policy, prune_protect=500, prune_minimum=100)
    made = await client.create("the task", compaction=pruning)
    session_id: str = made["id"]
    late: list[Replica] = []
    async with following(client, session_id) as follower:
        await follower.type("session.idle")
        late.append(await snapshot(client, session_id))
        await compact(client, session_id)
        await provider.reached("first")
        late.append(await snapshot(client, session_id))
        provider.open("first")
        await follower.type("compaction.completed")
        late.append(await snapshot(client, session_id))
        await revert(client, session_id, 1)
        late.append(await snapshot(client, session_id))
        await compact(client, session_id)
        await follower.type("compaction.completed", 2)
        late.append(await snapshot(client, session_id))
        await client.post(session_id, "more")
        await follower.type("session.idle", 2)

    events = await assert_rounds(client, session_id)
    views: list[Any] = []
    for replica in late:
        for event in events:
            if event.id is not None and event.id > replica.last_seq:
                replica.apply(event)
        view = replica.view
        if not replica.rounds.sure_of_usage:
            view["usage"] = (await client.session(session_id))["usage"] | {"cost_usd": None}
            view["usage"].pop("cost_usd")
        views.append(view)
    whole = (await snapshot(client, session_id)).view
    assert [replica.rounds.sure_of_usage for replica in late] == [True, False, True, True, True]
    for view in views:
        assert view == whole


@pytest.mark.shared_server
@pytest.mark.extended
async def test_events_of_rounds_applied_twice_do_no_harm(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider, compaction=settings(prune_protect=500, prune_minimum=100))
    await compacted(client, session_id)
    await revert(client, session_id, 1)
    await compacted(client, session_id)
    events = await assert_rounds(client, session_id)
    whole = (await snapshot(client, session_id)).view
    for seq in range(0, len(events), 3):
        replica = await snapshot(client, session_id)
        replica.last_seq = seq
        for event in events[seq:]:
            replica.apply(event)
        assert replica.view == whole
