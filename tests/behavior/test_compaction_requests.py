"""User messages around a compaction: each message the model has not seen is sent verbatim, in order and once; the
session's task stays the task; a request's images stay with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle
from string import ascii_letters
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, command
from tests.behavior.long_task import LongTask, asks_for_summary
from tests.behavior.rounds import (
    MODELS,
    POLICIES,
    assert_rounds,
    compacted,
    context,
    rounds,
    settings,
    steps_of,
    summaries_of,
    told,
)
from tests.behavior.test_compaction_contexts import assert_contexts
from tests.provider import Answer, FakeProvider, Gate, HttpError, RecordedRequest, Reply, Text, ToolCall

PROSE = "## Next Step\nGo on with the next file."

LETTERS = cycle(ascii_letters)

FIRST, SECOND = f"first word {'a' * 3_000} of two", "second word"
"""User messages; the first is longer than the part a summary repeats."""


def prints(size: int) -> ToolCall:
    """A call with an output of `size` characters, different each time, so that the loop guard does not act."""
    return command(f"head -c {size} /dev/zero | tr '\\0' {next(LETTERS)}")


def playing(*steps: Answer) -> Callable[[RecordedRequest], Answer]:
    """A model that plays these steps and then ends; its summaries are short."""
    left = list(steps)

    def answer(request: RecordedRequest) -> Answer:
        if asks_for_summary(request):
            return Reply(Text(PROSE))
        return left.pop(0) if left else Reply(Text("done"))

    return answer


def assert_once_in_order(request: RecordedRequest, *texts: str) -> None:
    whole = told(request)
    assert [whole.count(text) for text in texts] == [1] * len(texts)
    assert sorted(map(whole.index, texts)) == list(map(whole.index, texts))


@across(policy=POLICIES, background=[False, True], model=MODELS)
async def test_unseen_messages_survive_a_round_verbatim_and_once(
    start_server: StartServer, provider: FakeProvider, policy: str, background: bool, model: str
) -> None:
    steps = [Reply(prints(16_000)), Reply(prints(9_000)), Reply(Gate("step"), prints(16_000)), Reply(prints(1))]
    provider.respond(playing(*steps))
    wanted = settings(policy, background=background, threshold_percent=1, prune_exempt_tools=["execute_command"])
    async with Client(start_server(models={name: {"context_window": 12_000} for name in MODELS}).url) as client:
        session_id = (await client.create("the task itself", model=model, compaction=wanted))["id"]
        await provider.reached("step")
        await client.post(session_id, FIRST)
        await client.post(session_id, SECOND)
        provider.open("step")
        await client.until_idle(session_id)

        assert [item["status"] for item in await rounds(client, session_id)].count("completed") == 1
        assert len(steps_of(provider)) == 5
        for request in steps_of(provider)[3:]:
            assert_once_in_order(request, FIRST, SECOND)
        await assert_contexts(client, provider, session_id)
        await assert_sound(client, session_id)
        await assert_rounds(client, session_id)
    assert provider.refusals == []


async def test_a_prepared_summary_does_not_call_an_older_request_the_last_one(
    client: Client, provider: FakeProvider
) -> None:
    work = playing(Reply(prints(9_000)), Reply(prints(9_000)), Reply(prints(9_000)), Reply(Gate("step"), prints(9_000)))

    def answer(request: RecordedRequest) -> Answer:
        return Reply(Gate("summary"), Text(PROSE)) if asks_for_summary(request) else work(request)

    provider.respond(answer)
    wanted = {"policy": "handoff", "handoff_threshold": 11_000, "background": True}
    session_id = (await client.create("the old task", compaction=wanted))["id"]
    await provider.reached("summary")
    await provider.reached("step")
    await client.post(session_id, "something else now")
    provider.open("step")
    provider.open("summary")
    await client.until_idle(session_id)

    [round] = await rounds(client, session_id)
    assert round["status"] == "completed"
    last = steps_of(provider)[-1]
    assert "Session Summary" in told(last)
    assert "The user's latest request:" not in told(last)
    assert_once_in_order(last, "the old task", "something else now")


@first_of(policy=POLICIES)
async def test_the_task_of_a_session_with_an_imported_history_stays(
    client: Client, provider: FakeProvider, policy: str
) -> None:
    task = "build the thing exactly like so; " * 150
    history = [{"role": "user", "content": "hi, what can you do?"}, {"role": "assistant", "content": "Much."}]
    provider.respond(LongTask(5, most=4_000, seed=3))
    wanted = settings(policy)
    session_id = (
        await client.create(task, history={"format": "openai", "messages": history}, model=OPENAI, compaction=wanted)
    )["id"]
    await client.until_idle(session_id)
    await client.say(session_id, "and add a test")
    for _ in range(2):
        await compacted(client, session_id)
        provider.respond(LongTask(3, most=4_000, seed=5))
        await client.say(session_id, "go on")

    texts = [
        part["text"] for m in (await context(client, session_id))["messages"] for part in m["parts"] if "text" in part
    ]
    summaries = [text for text in texts if text.startswith("## Session Summary")]
    assert len(summaries) == 1
    assert "### Original Task\nhi, what can you do?" not in summaries[0]
    if policy == "handoff":
        assert summaries[0].count(task.strip()) == 1
        assert f"### Original Task\n{task.strip()}" in summaries[0]
    else:
        assert [text.strip() for text in texts].count(task.strip()) == 1
        assert task.strip() not in summaries[0]
    assert "hi, what can you do?" not in texts
    await assert_contexts(client, provider, session_id)


@pytest.mark.extended
async def test_a_model_that_cannot_read_the_whole_task_still_summarizes(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(windows={"small": 16_000})
    provider.respond(LongTask(6, most=9_000, seed=3))
    windows = {OPENAI: {"context_window": 128_000}, "fake-openai/small": {"context_window": 16_000}}
    task = "one line of what is to be done\n" * 4_000
    async with Client(start_server(models=windows).url) as client:
        small = settings(model="fake-openai/small")
        session, _ = await client.run(task, model=OPENAI, compaction=small)
        completed = await compacted(client, session["id"])
        assert completed.data["rung"] == "summary"
        assert all(request.model == "small" for request in summaries_of(provider))
        texts = [m["parts"][0].get("text") for m in (await context(client, session["id"]))["messages"]]
        assert texts[0] == task
    assert provider.refusals == []


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@first_of(policy=POLICIES)
async def test_the_images_of_the_last_request_stay(client: Client, provider: FakeProvider, policy: str) -> None:
    shows: list[dict[str, Any]] = [
        {"type": "text", "text": "make it look like this"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    history = [
        {"role": "user", "content": "start"},
        {"role": "assistant", "content": "x" * 9_000},
        {"role": "user", "content": shows},
    ]
    provider.respond(playing())
    made = await client.create(history={"format": "openai", "messages": history}, compaction=settings(policy))
    await compacted(client, made["id"])
    messages = (await context(client, made["id"]))["messages"]
    [shown] = [m for m in messages if any(part["type"] == "image" for part in m["parts"])]
    assert [part["type"] for part in shown["parts"]] == ["text", "image"]
    assert json.dumps(messages).count("make it look like this") == 1


OVERFLOW = HttpError(
    400,
    {
        "error": {
            "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in"
            " 130000 tokens.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }
    },
)


@first_of(policy=["reactive", "threshold"])
async def test_a_round_overtaken_by_another_builds_on_it(client: Client, provider: FakeProvider, policy: str) -> None:
    work = [Reply(Text(f"step {number}"), prints(4_000)) for number in range(6)]
    after = [Reply(Text(f"step {number}"), prints(4_000)) for number in range(3)]
    provider.respond(playing(*work, Reply(Gate("step"), OVERFLOW), *after))
    session_id = (await client.create("the very task", model=OPENAI, compaction=settings(policy)))["id"]
    await provider.reached("step")
    asked = await client.http.post(f"/v1/sessions/{session_id}/compactions", json={})
    assert (asked.status_code, asked.json()["round"]) == (202, 1)
    provider.open("step")
    await client.until_idle(session_id)

    assert [(item["status"], item["reason"]) for item in await rounds(client, session_id)] == [
        ("completed", "manual"),
        ("completed", "provider_overflow"),
    ]
    events = await assert_rounds(client, session_id)
    assert [event.data["round"] for event in events if event.type == "compaction.completed"] == [2, 1]
    messages = (await context(client, session_id))["messages"]
    assert len({m["id"] for m in messages}) == len(messages)
    [summary] = [m for m in messages if m["is_summary"]]
    assert "(Compaction Round 1)" in summary["parts"][0]["text"]
    assert "incorporates 1 earlier round." in summary["parts"][0]["text"]
    await assert_contexts(client, provider, session_id)
    await assert_sound(client, session_id)

    path = f"/v1/sessions/{session_id}/compactions"
    refused = await client.http.delete(f"{path}/2")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_the_latest_round")
    assert (await client.http.delete(f"{path}/1")).status_code == 204
    [summary] = [m for m in (await context(client, session_id))["messages"] if m["is_summary"]]
    assert "(Compaction Round 2)" in summary["parts"][0]["text"]
    assert (await client.http.delete(f"{path}/2")).status_code == 204
    assert not any(m["is_summary"] for m in (await context(client, session_id))["messages"])
    await assert_contexts(client, provider, session_id)
    assert len(summaries_of(provider)) == 2
