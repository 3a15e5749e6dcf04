"""Manual compaction: requesting a round on an idle and on a running session, listing rounds, reverting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.behavior.checks import assert_sound, following
from tests.behavior.combinations import across, first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, of_type
from tests.behavior.long_task import LongTask, asks_for_summary
from tests.behavior.packed import CLEARS_ALL, worked_before
from tests.behavior.rounds import (
    POLICIES,
    POLICIES_ON_WIRES,
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
from tests.provider import FakeProvider, Gate, HttpError, RecordedRequest, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

# requesting a round


@pytest.mark.parametrize(("policy", "model"), POLICIES_ON_WIRES)
async def test_a_round_of_any_policy_on_an_idle_session(
    client: Client, provider: FakeProvider, policy: str, model: str
) -> None:
    session_id = await worked_here(client, provider, model=model)
    before = await client.session(session_id)

    asked = await compact(client, session_id, policy=policy, instructions="keep the API decisions")
    assert (asked["round"], asked["reason"], asked["policy"]) == (1, "manual", policy)
    event = await ended(client, session_id, 1)

    assert event.type == "compaction.completed"
    assert event.data["was_summarized"]
    assert 0 < event.data["tokens_after"] < event.data["tokens_before"]
    session = await client.session(session_id)
    assert (session["status"], session["outcome"]) == ("idle", "completed")
    assert session["compaction"]["count"] == 1
    assert session["compaction"]["last_at"] == event.data["at"]
    assert not session["compaction"]["in_progress"]
    assert session["context"] == before["context"] | {"tokens": event.data["tokens_after"], "source": "estimated"}
    [summary] = [m for m in await client.messages(session_id) if m["is_summary"]]
    assert summary["role"] == ("assistant" if policy == "threshold" else "user")
    [request] = summaries_of(provider)
    assert "keep the API decisions" in request.last_user_text
    spent = {name: session["usage"][name] - before["usage"][name] for name in ("input_tokens", "output_tokens")}
    assert spent == {name: event.data["usage"][name] for name in spent}
    assert spent["output_tokens"] > 0
    [listed] = await rounds(client, session_id)
    assert {name: event.data[name] for name in listed} == listed
    await assert_rounds(client, session_id)

    provider.script(Reply(Text("after the round")))
    await client.say(session_id, "and now?")
    assert_sent(await context(client, session_id, session["steps"] + 1), provider.requests[-1])
    assert provider.requests[-1].tokens < steps_of(provider)[-2].tokens
    assert provider.refusals == []


async def test_messages_show_the_round_that_covers_them(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    event = await compacted(client, session_id)

    messages = await client.messages(session_id)
    ids = [message["id"] for message in messages]
    first, last = ids.index(event.data["first_message_id"]), ids.index(event.data["last_message_id"])
    covered = [m for m in messages if m["round"] == 1]
    assert {m["id"] for m in covered} == set(ids[first : last + 1])
    assert len(covered) == event.data["messages_compacted"]
    shown = [message["id"] for message in (await context(client, session_id))["messages"]]
    assert not {m["id"] for m in covered} & set(shown)
    assert [message["id"] for message in messages if message["round"] is None and message["id"] not in shown] == []


async def test_a_round_on_a_running_session_is_made_between_its_steps(client: Client, provider: FakeProvider) -> None:
    task = LongTask(8, most=4_000, seed=3)

    def answer(request: RecordedRequest) -> Reply:
        reply = task(request)
        return Reply(Gate("step 7"), *reply.parts) if task.made == 7 and not asks_for_summary(request) else reply

    provider.respond(answer)
    session_id = (await client.create("go", compaction=settings()))["id"]
    await provider.reached("step 7")
    asked = await compact(client, session_id)
    assert await state(client, session_id) == (0, True)
    again = await client.http.post(path(session_id), json={})
    assert (again.status_code, again.json()["code"]) == (409, "compaction_in_progress")
    assert summaries_of(provider) == []
    provider.open("step 7")
    await client.until_idle(session_id)

    events = await assert_sound(client, session_id)
    kinds = [event.type for event in events]
    completed = kinds.index("compaction.completed")
    assert of_type(events, "compaction.started")[0].data["round"] == asked["round"]
    steps = [(e.type, e.data["step"]) for e in events if e.type in ("step.started", "step.finished")]
    done = [(e.type, e.data["step"]) for e in events[:completed] if e.type in ("step.started", "step.finished")]
    assert done == [step for step in steps if step[1] <= 7]
    assert (await client.session(session_id))["outcome"] == "completed"
    views = await client.steps(session_id)
    assert [view["compaction_round"] for view in views] == [0] * 7 + [1] * 2
    await assert_rounds(client, session_id)


async def test_a_run_that_starts_during_a_round_waits_for_it(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=gated("summary")))
    asked = await compact(client, session_id)
    await provider.reached("summary")
    count = len(provider.requests)
    await client.post(session_id, "go on meanwhile")
    assert (await client.session(session_id))["status"] == "running"
    assert len(provider.requests) == count
    provider.open("summary")
    events = await client.until_idle(session_id)

    completed = next(e for e in events if e.type == "compaction.completed")
    assert completed.data["round"] == asked["round"]
    started = of_type(events, "step.started")
    assert events.index(started[-2]) < events.index(completed) < events.index(started[-1])
    assert "go on meanwhile" in provider.requests[-1].last_user_text
    await assert_sound(client, session_id)
    await assert_rounds(client, session_id)


async def test_a_dry_run_reports_the_result_and_changes_nothing(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    before = await client.session(session_id)
    shown = await context(client, session_id)
    for policy in POLICIES:
        response = await client.http.post(path(session_id), json={"dry_run": True, "policy": policy})
        assert response.status_code == 200
        would = response.json()
        assert would["policy"] == policy
        assert 0 < would["tokens_after"] < would["tokens_before"] <= would["limit"]
        assert would["messages_compacted"] > 0
    # Its node may still leave it.
    assert await client.session(session_id) | {"node": before["node"]} == before
    assert await context(client, session_id) == shown
    assert (await rounds(client, session_id), summaries_of(provider)) == ([], [])


async def test_a_dry_run_reports_what_a_round_then_does(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    response = await client.http.post(path(session_id), json={"dry_run": True})
    would, did = response.json(), (await compacted(client, session_id)).data
    same = ("policy", "first_message_id", "last_message_id", "messages_compacted", "outputs_pruned", "tokens_before")
    assert {name: would[name] for name in same} == {name: did[name] for name in same}


async def test_a_dry_run_is_answered_during_a_round(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=gated("summary")))
    await compact(client, session_id)
    await provider.reached("summary")
    assert (await client.http.post(path(session_id), json={"dry_run": True})).status_code == 200
    provider.open("summary")
    await ended(client, session_id, 1)


@pytest.mark.parametrize(
    "body",
    [
        {"unknown": 1},
        {"policy": "other"},
        {"policy": 1},
        {"instructions": ""},
        {"instructions": 5},
        {"dry_run": "yes"},
        {"dry_run": True, "rounds": 2},
    ],
)
async def test_an_invalid_body_is_refused(client: Client, body: dict[str, Any]) -> None:
    session_id = (await client.create())["id"]
    response = await client.http.post(path(session_id), json=body)
    assert response.status_code == 422
    assert next(reversed(body)) in response.text
    assert await rounds(client, session_id) == []


async def test_a_round_needs_no_body(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    response = await client.http.post(path(session_id))
    assert (response.status_code, response.json()["policy"]) == (202, "reactive")
    assert (await ended(client, session_id, 1)).type == "compaction.completed"


async def test_an_unknown_session_has_no_rounds(client: Client) -> None:
    nobody = "0197a8a0-0000-7000-8000-000000000001"
    for method, where in (("POST", path(nobody)), ("GET", path(nobody)), ("DELETE", path(nobody, 1))):
        response = await client.http.request(method, where, json={} if method == "POST" else None)
        assert (response.status_code, response.json()["code"]) == (404, "session_not_found")


# failed rounds


@across(said=[0, 1], policy=POLICIES)
async def test_a_round_with_nothing_to_compact_fails_once(
    client: Client, provider: FakeProvider, policy: str, said: int
) -> None:
    session_id = (await client.create())["id"]
    for number in range(said):
        await client.say(session_id, f"word {number}")
    calls = len(provider.requests)
    shown = await context(client, session_id)
    would = (await client.http.post(path(session_id), json={"dry_run": True, "policy": policy})).json()
    assert (would["messages_compacted"] == 0) == (would["tokens_after"] == would["tokens_before"])
    await compact(client, session_id, policy=policy)
    event = await ended(client, session_id, 1)

    assert event.type == "compaction.failed"
    assert event.data["code"] in ("nothing_to_compact", "not_small_enough")
    assert await state(client, session_id) == (0, False)
    [item] = await rounds(client, session_id)
    assert (item["status"], item["tokens_after"]) == ("failed", None)
    assert item["error"] == {"code": event.data["code"], "detail": event.data["detail"]}
    if said == 0:
        assert event.data["detail"].startswith("Nothing is old enough to compact")
    assert len(provider.requests) - calls <= 1
    assert await context(client, session_id) == shown
    events = await assert_rounds(client, session_id)
    kinds = [e.type for e in events if e.type.startswith("compaction.")]
    assert kinds.count("compaction.started") == 1
    assert len(kinds) <= 4
    await client.say(session_id, "still there?")
    assert (await client.session(session_id))["outcome"] == "completed"


async def test_a_failed_round_does_not_end_the_run(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(Gate("step"), ToolCall("list_directory", {"path": "."})),
        Reply(Text("finished")),
    )
    session_id = (await client.create("go", compaction="handoff"))["id"]
    await provider.reached("step")
    provider.script_when(asks_for_summary, Reply(Text("words " * 3_000)))
    await compact(client, session_id)
    provider.open("step")
    events = await client.until_idle(session_id)

    assert (await client.session(session_id))["outcome"] == "completed"
    assert of_type(events, "compaction.failed")
    assert [item["status"] for item in await rounds(client, session_id)] in (["failed"], ["completed"])
    await assert_rounds(client, session_id)


async def test_a_failing_summarizer_is_replaced_by_a_fold(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    provider.script_when(asks_for_summary, HttpError(403))
    event = await compacted(client, session_id)
    assert (event.data["rung"], event.data["was_summarized"]) == ("fold", False)
    events = await assert_rounds(client, session_id)
    [failed] = of_type(events, "compaction.failed")
    assert (failed.data["round"], failed.data["rung"], failed.data["next"]) == (1, "summary", "fold")


# all rounds


@pytest.mark.extended
async def test_rounds_follow_each_other_and_are_all_listed(client: Client, provider: FakeProvider) -> None:
    session_id = await worked_here(client, provider)
    task = LongTask(40, most=4_000, seed=5)
    for number in range(1, 4):
        await compacted(client, session_id)
        provider.respond(task)
        task.steps = task.made + 4
        await client.say(session_id, f"part {number}")
    listed = await rounds(client, session_id)
    assert [(item["round"], item["status"]) for item in listed] == [(n, "completed") for n in (1, 2, 3)]
    assert all(0 < item["tokens_after"] < item["tokens_before"] and item["error"] is None for item in listed)
    session = await client.session(session_id)
    assert session["compaction"]["count"] == 3
    context_ids = [m for m in (await context(client, session_id))["messages"] if m["is_summary"]]
    assert len(context_ids) == 1, "a summary takes the place of those before it"
    assert "the task itself" in provider.requests[-1].user_texts[0]
    await assert_sound(client, session_id)
    await assert_rounds(client, session_id)


# reverting


@pytest.mark.parametrize(("policy", "model"), POLICIES_ON_WIRES)
async def test_a_revert_gives_the_context_back_as_it_was(
    client: Client, provider: FakeProvider, policy: str, model: str
) -> None:
    session_id = await worked_here(client, provider, model=model)
    before = await context(client, session_id)
    event = await compacted(client, session_id, policy=policy)
    assert await context(client, session_id) != before

    await revert(client, session_id, 1)
    assert (await client.session(session_id))["context"]["tokens"] == event.data["tokens_before"]
    assert await context(client, session_id) == before
    assert [item["status"] for item in await rounds(client, session_id)] == ["reverted"]
    assert {message["round"] for message in await client.messages(session_id)} == {None}
    again = await client.http.delete(path(session_id, 1))
    assert (again.status_code, again.json()["code"]) == (409, "not_the_latest_round")
    events = await assert_rounds(client, session_id)
    assert of_type(events, "compaction.reverted")[0].data["round"] == event.data["round"]

    provider.script(Reply(Text("answer")))
    await client.say(session_id, "later")
    after, old = settled(await context(client, session_id)), settled(before)
    assert after[: len(old)] == old
    assert len(after) == len(old) + 2
    second = await compacted(client, session_id, policy=policy)
    assert second.data["round"] == 2, "numbers are never used again"
    assert provider.broken == []


async def test_later_messages_stay_after_a_revert(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    before = settled(await context(client, session_id))
    await compacted(client, session_id)
    provider.script(Reply(ToolCall("list_directory", {"path": "."})), Reply(Text("seen")))
    await client.say(session_id, "look around")
    later = [m for m in await client.messages(session_id) if not m["is_summary"]][-4:]

    await revert(client, session_id, 1)
    shown = settled(await context(client, session_id))
    assert shown[: len(before)] == before
    assert [m["id"] for m in shown[len(before) :]] == [m["id"] for m in later]
    provider.script(Reply(Text("sure")))
    await client.say(session_id, "sure?")
    steps = (await client.session(session_id))["steps"]
    assert_sent(await context(client, session_id, steps), provider.requests[-1])
    await assert_rounds(client, session_id)
    assert provider.refusals == []


async def test_only_the_latest_round_can_be_reverted(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider)
    contexts = [await context(client, session_id)]
    await compacted(client, session_id)
    task = LongTask(4, most=4_000, seed=9)
    provider.respond(task)
    await client.say(session_id, "more")
    contexts.append(await context(client, session_id))
    await compacted(client, session_id)

    older = await client.http.delete(path(session_id, 1))
    assert (older.status_code, older.json()["code"]) == (409, "not_the_latest_round")
    for number in (3, 99):
        unknown = await client.http.delete(path(session_id, number))
        assert (unknown.status_code, unknown.json()["code"]) == (404, "round_not_found")
    await revert(client, session_id, 2)
    assert await context(client, session_id) == contexts[1]
    await revert(client, session_id, 1)
    old = settled(contexts[0])
    assert (await context(client, session_id))["messages"][: len(old)] == old
    assert [item["status"] for item in await rounds(client, session_id)] == ["reverted", "reverted"]
    await assert_rounds(client, session_id)


async def test_a_revert_during_a_round_is_refused(client: Client, provider: FakeProvider) -> None:
    session_id = await worked(client, provider, LongTask(4, most=4_000, seed=3, summarise=gated("summary")))
    await compact(client, session_id)
    await provider.reached("summary")
    refused = await client.http.delete(path(session_id, 1))
    assert (refused.status_code, refused.json()["code"]) == (409, "compaction_in_progress")
    provider.open("summary")
    assert (await ended(client, session_id, 1)).type == "compaction.completed"
    await revert(client, session_id, 1)


@first_of(model=[OPENAI, ANTHROPIC])
async def test_a_revert_on_a_running_session_takes_effect_at_its_next_step(
    client: Client, provider: FakeProvider, model: str
) -> None:
    session_id = await worked(client, provider, model=model)
    before = settled(await context(client, session_id))
    await compacted(client, session_id)
    provider.script(Reply(Gate("step"), ToolCall("list_directory", {"path": "."})), Reply(Text("end")))
    await client.post(session_id, "look around")
    await provider.reached("step")
    await revert(client, session_id, 1)
    provider.open("step")
    await client.until_idle(session_id)

    with_round, without = provider.requests[-2:]
    assert len(with_round.messages) < len(without.messages)
    steps = (await client.session(session_id))["steps"]
    assert_sent(await context(client, session_id, steps - 1), with_round)
    last = await context(client, session_id, steps)
    assert_sent(last, without)
    assert last["messages"][: len(before)] == before
    await assert_sound(client, session_id)
    await assert_rounds(client, session_id)
    assert provider.refusals == []


async def test_a_revert_removes_only_the_marks_of_its_round(client: Client, provider: FakeProvider) -> None:
    provider.respond(LongTask(0))
    session_id = (await client.create(history=worked_before(40), compaction=CLEARS_ALL))["id"]
    before = await context(client, session_id)
    event = await compacted(client, session_id)
    assert event.data["was_pruned"]
    assert event.data["outputs_pruned"] > 0

    def marked(messages: list[dict[str, Any]]) -> list[str]:
        return [p["call_id"] for m in messages for p in m["parts"] if p.get("compacted_at") is not None]

    pruned = marked(await client.messages(session_id))
    assert len(pruned) == event.data["outputs_pruned"]
    events = await assert_rounds(client, session_id)
    assert sorted(of_type(events, "prune.completed")[0].data["call_ids"]) == sorted(pruned)
    await revert(client, session_id, 1)
    assert marked(await client.messages(session_id)) == []
    assert await context(client, session_id) == before
    await assert_rounds(client, session_id)


@pytest.mark.extended
async def test_sessions_compact_at_the_same_time(client: Client, provider: FakeProvider) -> None:
    ids = [await worked(client, provider) for _ in range(4)]
    async with following(client, ids[0]) as follower:
        events = await asyncio.gather(*(compacted(client, session_id) for session_id in ids))
        await follower.type("compaction.completed")
        assert {event.data["session_id"] for event in follower.events} == {ids[0]}
    assert [event.data["round"] for event in events] == [1] * 4
