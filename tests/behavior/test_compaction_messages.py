"""Messages and cancels around a compaction: no message is lost, repeated or out of order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.behavior.checks import assert_sound, following, user_texts
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type
from tests.behavior.long_task import LongTask, asks_for_summary
from tests.behavior.rounds import (
    MODELS,
    POLICIES,
    SMALL,
    WINDOW,
    assert_rounds,
    compact,
    compacted,
    context,
    ended,
    gated,
    path,
    rounds,
    settings,
    state,
    steps_of,
    summaries_of,
    worked,
)
from tests.behavior.test_cancel_resume import cancel
from tests.provider import FakeProvider, Gate, RecordedRequest, Reply

BEFORE = "before: ä 😀  two  spaces\n\tand a tab"
DURING = ("during 1: </message> 𝒳", "during 2: ```x```")
AFTER = "after: </transcript>"
LATER = "a follow-up, later"


def held_step(task: LongTask, step: int, gate: str) -> Callable[[RecordedRequest], Reply]:
    """A task whose step with this number waits at a gate."""

    def answer(request: RecordedRequest) -> Reply:
        reply = task(request)
        held = task.made == step and not asks_for_summary(request)
        return Reply(Gate(gate), *reply.parts) if held else reply

    return answer


STEPS = 14
"""At least one more round comes after the first, with each policy."""


@asynccontextmanager
async def in_an_automatic_round(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> AsyncIterator[tuple[Client, str]]:
    """A run whose first round waits for its summary at the gate `summary`, blocking the run."""
    provider.configure(window=WINDOW)
    provider.respond(LongTask(STEPS, summarise=gated("summary")))
    async with Client(start_server(models=SMALL).url) as client:
        waits = {"policy": policy, "background": False}
        session_id = (await client.create("the task", model=model, compaction=waits))["id"]
        await provider.reached("summary")
        yield client, session_id


def places(request: RecordedRequest, texts: tuple[str, ...]) -> list[int]:
    """The positions of the texts in a request's user messages; each must occur once."""
    whole = "\n".join(request.user_texts)
    assert [whole.count(text) for text in texts] == [1] * len(texts), whole[-2_000:]
    return [whole.index(text) for text in texts]


@across(1, policy=POLICIES, model=MODELS)
async def test_messages_around_a_round_between_steps_are_verbatim_in_order_and_once(
    client: Client, provider: FakeProvider, policy: str, model: str
) -> None:
    task = LongTask(9, most=4_000, seed=3, summarise=gated("summary"))
    provider.respond(held_step(task, 6, "step"))
    session_id = (await client.create("the task", model=model, compaction=settings(policy)))["id"]
    async with following(client, session_id) as follower:
        await provider.reached("step")
        await client.post(session_id, BEFORE)
        await client.post(session_id, LATER, "follow_up")
        await compact(client, session_id)
        provider.open("step")
        await provider.reached("summary")
        assert not (await follower.type("compaction.started")).data["background"]
        receipts = [await client.post(session_id, text) for text in DURING]
        assert [receipt["status"] for receipt in receipts] == ["pending"] * 2
        held = len(provider.requests)
        provider.open("summary")
        await follower.type("compaction.completed")
        await client.say(session_id, AFTER)

    next_step = next(r for r in provider.requests[held:] if not asks_for_summary(r))
    assert places(next_step, DURING) == sorted(places(next_step, DURING))
    assert BEFORE in "\n".join(next_step.user_texts)
    for request in provider.requests[held + 3 :]:
        order = places(request, (*DURING, AFTER))
        assert order == sorted(order)
    last = provider.requests[-1]
    assert last.last_user_text.endswith(LATER)
    assert places(last, (*DURING, AFTER, LATER)) == sorted(places(last, (*DURING, AFTER, LATER)))
    history = [text for text in user_texts(await client.messages(session_id)) if not text.startswith("[")]
    assert [text for text in history if text in (BEFORE, *DURING, AFTER, LATER)] == [BEFORE, *DURING, AFTER, LATER]
    await assert_sound(client, session_id)
    await assert_rounds(client, session_id)
    assert provider.refusals == []


@across(1, policy=POLICIES, model=MODELS)
@pytest.mark.slow
async def test_messages_during_an_automatic_round_are_delivered_after_it(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> None:
    async with in_an_automatic_round(start_server, provider, policy, model) as (client, session_id):
        held = len(provider.requests)
        await client.post(session_id, DURING[0])
        await client.post(session_id, AFTER, "interrupt")
        await client.post(session_id, DURING[1])
        assert (await client.session(session_id))["queue"]["pending"] == 3
        assert provider.client_left == 0
        provider.open("summary")
        events = await client.until_idle(session_id)

        assert (await client.session(session_id))["outcome"] == "completed"
        assert of_type(events, "compaction.cancelled") == []
        order = (DURING[0], AFTER, DURING[1])
        next_step = next(r for r in provider.requests[held:] if not asks_for_summary(r))
        assert places(next_step, order) == sorted(places(next_step, order))
        assert [t for t in user_texts(await client.messages(session_id)) if t in order] == list(order)
        await assert_sound(client, session_id)
        await assert_rounds(client, session_id)
    assert provider.client_left == 0
    assert provider.refusals == []


@first_of(mode=["steer", "follow_up", "interrupt"])
async def test_a_message_during_a_round_on_an_idle_session_starts_a_run_after_it(
    client: Client, provider: FakeProvider, mode: str
) -> None:
    session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=gated("summary")))
    await compact(client, session_id)
    await provider.reached("summary")
    await client.post(session_id, DURING[0], mode)
    await client.post(session_id, DURING[1], mode)
    provider.open("summary")
    await client.until_idle(session_id)

    assert provider.client_left == 0
    assert [item["status"] for item in await rounds(client, session_id)] == ["completed"]
    last = provider.requests[-1]
    assert places(last, DURING) == sorted(places(last, DURING))
    assert (await client.session(session_id))["queue"]["pending"] == 0
    await assert_sound(client, session_id)
    await assert_rounds(client, session_id)


async def test_a_message_right_after_a_round_is_in_the_next_request(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    await compacted(client, session_id)
    await client.say(session_id, AFTER)
    assert provider.requests[-1].last_user_text.endswith(AFTER)
    assert places(provider.requests[-1], (AFTER,))


# cancels


@across(1, policy=POLICIES, model=MODELS)
@pytest.mark.slow
async def test_a_cancel_during_an_automatic_round_leaves_everything_as_it_was(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> None:
    async with in_an_automatic_round(start_server, provider, policy, model) as (client, session_id):
        before, history = await context(client, session_id), await client.messages(session_id)
        await cancel(client, session_id)
        events = await client.until_idle(session_id)

        assert (await client.session(session_id))["outcome"] == "cancelled"
        assert events[-2].type == "compaction.cancelled"
        assert await context(client, session_id) == before
        assert await client.messages(session_id) == history
        assert (await state(client, session_id))[1] is False
        await assert_rounds(client, session_id)
        await provider.left()

        await client.resume(session_id)
        await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        statuses = [item["status"] for item in await rounds(client, session_id)]
        assert statuses.count("cancelled") == 1
        assert statuses[-1] == "completed"
        await assert_sound(client, session_id)
        await assert_rounds(client, session_id)
    assert provider.broken == []


@first_of(policy=POLICIES)
async def test_a_cancel_of_a_round_on_an_idle_session(client: Client, provider: FakeProvider, policy: str) -> None:
    session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=gated("summary")))
    before = await context(client, session_id)
    await compact(client, session_id, policy=policy)
    await provider.reached("summary")
    await cancel(client, session_id)
    event = await ended(client, session_id, 1)

    assert event.type == "compaction.cancelled"
    assert await context(client, session_id) == before
    assert await state(client, session_id) == (0, False)
    session = await client.session(session_id)
    assert (session["status"], session["outcome"]) == ("idle", "completed")
    await assert_rounds(client, session_id)
    assert (await compacted(client, session_id)).data["round"] == 2
    await client.say(session_id, "still there?")
    assert (await client.session(session_id))["outcome"] == "completed"
    await assert_sound(client, session_id)


async def test_a_cancel_of_a_round_between_steps_ends_the_run(client: Client, provider: FakeProvider) -> None:
    provider.respond(held_step(LongTask(9, most=4_000, seed=3, summarise=gated("summary")), 6, "step"))
    session_id = (await client.create("the task", compaction=settings()))["id"]
    await provider.reached("step")
    await compact(client, session_id)
    provider.open("step")
    await provider.reached("summary")
    await client.post(session_id, DURING[0])
    await cancel(client, session_id)
    await client.until_idle(session_id)

    assert [item["status"] for item in await rounds(client, session_id)] == ["cancelled"]
    session = await client.session(session_id)
    assert (session["outcome"], session["queue"]["pending"]) == ("cancelled", 1)
    await client.resume(session_id)
    await client.until_idle(session_id)
    assert places(provider.requests[-1], DURING[:1])
    await assert_sound(client, session_id)
    await assert_rounds(client, session_id)


async def test_a_cancel_also_cancels_a_waiting_round(client: Client, provider: FakeProvider) -> None:
    provider.respond(held_step(LongTask(9, most=4_000, seed=3), 6, "step"))
    session_id = (await client.create("the task", compaction=settings()))["id"]
    await provider.reached("step")
    await compact(client, session_id)
    await cancel(client, session_id)
    await client.until_idle(session_id)

    assert (await ended(client, session_id, 1)).type == "compaction.cancelled"
    assert summaries_of(provider) == []
    assert await state(client, session_id) == (0, False)
    assert (await compacted(client, session_id)).data["round"] == 2
    await assert_rounds(client, session_id)


async def test_a_round_that_waits_for_the_last_step_is_made_on_the_idle_session(
    client: Client, provider: FakeProvider
) -> None:
    provider.respond(held_step(LongTask(4, most=4_000, seed=3), 5, "last step"))
    session_id = (await client.create("the task", compaction=settings()))["id"]
    await provider.reached("last step")
    await compact(client, session_id)
    provider.open("last step")
    event = await ended(client, session_id, 1)

    assert event.type == "compaction.completed"
    assert len(steps_of(provider)) == 5
    assert (await client.session(session_id))["status"] == "idle"
    await assert_rounds(client, session_id)


async def test_a_session_is_deleted_during_a_round(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=gated("summary")))
    await compact(client, session_id)
    await provider.reached("summary")
    assert (await client.http.delete(f"/v1/sessions/{session_id}")).status_code == 204
    await provider.left()
    assert (await client.http.get(path(session_id))).status_code == 404


async def test_the_cost_of_a_cancelled_round_is_counted_and_reported(client: Client, provider: FakeProvider) -> None:
    def summarise(request: RecordedRequest, step: int) -> Any:
        return Reply("a summary that " * 50, Gate("summary"), "never ends")

    session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=summarise))
    spent = (await client.session(session_id))["usage"]["output_tokens"]
    await compact(client, session_id)
    await provider.reached("summary")
    await cancel(client, session_id)
    event = await ended(client, session_id, 1)

    [listed] = await rounds(client, session_id)
    assert listed["usage"] == event.data["usage"]
    cost = (await client.session(session_id))["usage"]["output_tokens"] - spent
    assert event.data["usage"]["output_tokens"] == cost
    await assert_rounds(client, session_id)
