"""Cancel ends any activity within two seconds and leaves a usable history; resume continues from it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from app.messages import new_id
from tests.behavior.checks import Follower, assert_sound, following, requests_of, user_texts
from tests.behavior.combinations import first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, command, of_type, shows
from tests.behavior.test_interrupt import stubborn
from tests.behavior.test_queue import standing
from tests.load import CANCEL_S
from tests.provider import FakeProvider, Gate, Hang, HttpError, RecordedRequest, Reply, Text, ToolCall
from tests.unit.sandbox.shell import sleepers, unique_seconds

pytestmark = pytest.mark.shared_server


async def cancel(client: Client, session_id: str, **body: Any) -> dict[str, Any]:
    response = await client.http.post(f"/v1/sessions/{session_id}/cancel", json=body)
    assert response.status_code == 202, response.text
    session: dict[str, Any] = response.json()
    return session


@dataclass(frozen=True)
class Moment:
    """Something a session can be busy with: the answer that leads there, and the event that shows it (None: the model
    was called)."""

    name: str
    answer: Any
    reached: Callable[[Event], bool] | None
    statuses: tuple[str, ...] = ()
    """Statuses of its calls' results after a cancel."""
    text: str | None = None


SECONDS = unique_seconds()
MOMENTS = (
    Moment("connecting", Reply(Hang()), None),
    Moment("writing text", Reply(Text("half of it", 3), Hang()), shows("text.delta"), text="half of it"),
    Moment(
        "writing arguments",
        Reply(ToolCall("execute_command", {"command": "echo never"}, chunks=3, pause=Hang())),
        shows("tool.arguments"),
        ("cancelled",),
    ),
    Moment("sleeping before a retry", HttpError(429, headers={"retry-after": "90"}), shows("step.retrying")),
    Moment(
        "running a command",
        Reply(Text("I run it."), command(stubborn(SECONDS))),
        lambda event: event.type == "tool.output" and "stderr" in event.data["text"],
        ("cancelled",),
    ),
    Moment(
        "running one call of many",
        Reply(
            ToolCall("write_file", {"path": "a", "content": "a"}),
            command(stubborn(SECONDS)),
            command("touch never"),
        ),
        lambda event: event.type == "tool.output" and "stderr" in event.data["text"],
        ("completed", "cancelled", "cancelled"),
    ),
    Moment(
        "starting a sandbox",
        Reply(command("sleep 600")),
        shows("tool.call"),
        ("cancelled",),
    ),
)


async def _until_there(provider: FakeProvider, follower: Follower, moment: Moment, task: str) -> None:
    if moment.reached is not None:
        await follower.seen(moment.reached)
        return
    while not requests_of(provider, task):
        await provider.request_count(len(provider.requests) + 1)


async def test_a_cancel_ends_anything_in_time(client: Client, provider: FakeProvider, sandbox: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number, moment in enumerate(MOMENTS):
            model = OPENAI if number % 2 else ANTHROPIC
            tasks.create_task(_cancel_in(client, provider, moment, model))

    assert sleepers(SECONDS) == 0
    assert provider.refusals == []


async def _cancel_in(client: Client, provider: FakeProvider, moment: Moment, model: str) -> None:
    task = f"{moment.name} with {model}"
    provider.script_for(task, moment.answer, Reply(Text("the rest")))
    session_id = (await client.create(task, model=model))["id"]
    async with following(client, session_id) as follower:
        await _until_there(provider, follower, moment, task)
        started = time.monotonic()
        answered = await cancel(client, session_id)
        await follower.type("session.idle")
        took = time.monotonic() - started

    assert took < CANCEL_S, f"{moment.name}: {took:.2f} s"
    assert answered["id"] == session_id
    session = await client.session(session_id)
    assert (session["status"], session["outcome"], session["error"]) == ("idle", "cancelled", None)
    events = await assert_sound(client, session_id)
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["cancelled"]
    results = sorted(of_type(events, "tool.result"), key=lambda event: event.data["index"])
    assert tuple(event.data["status"] for event in results) == moment.statuses
    if moment.text is not None:
        (text,) = of_type(events, "text.completed")
        assert (text.data["text"], text.data["interrupted"]) == (moment.text, True)

    await client.resume(session_id)
    await client.until_idle(session_id)
    assert (await client.session(session_id))["outcome"] == "completed"
    await assert_sound(client, session_id)


async def test_a_cancelled_command_keeps_its_output(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(command(stubborn(unique_seconds()))))
    session_id = (await client.create("task"))["id"]
    async with following(client, session_id) as follower:
        await follower.seen(lambda event: event.type == "tool.output" and "stderr" in event.data["text"])
        await cancel(client, session_id)
        result = await follower.type("tool.result")
        await follower.type("session.idle")

    call_id = result.data["call_id"]
    assert "partial\non stderr\n" in result.data["output"]
    raw = await client.http.get(f"/v1/sessions/{session_id}/tool-calls/{call_id}/output")
    assert raw.content == b"partial\non stderr\n"
    call = await client.get(f"/v1/sessions/{session_id}/tool-calls/{call_id}")
    assert (call["call"]["status"], call["result"]["status"]) == ("cancelled", "cancelled")


async def test_a_message_continues_after_a_cancel(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), Hang()), Reply(Text("whole")))
    session_id = (await client.create("task"))["id"]
    async with following(client, session_id) as follower:
        await follower.type("text.delta")
        await cancel(client, session_id)
        await follower.type("session.idle")

    await client.say(session_id, "go on then")

    assert provider.requests[1].user_texts == ("task", "go on then")
    assert provider.requests[1].assistant_texts == ("half",)
    assert provider.refusals == []
    await assert_sound(client, session_id)


async def _cancelled_with_pending(client: Client, provider: FakeProvider, **body: Any) -> str:
    """A session that was cancelled while three messages waited."""
    async with standing(client, provider) as session_id:
        for text, mode in [("f1", "follow_up"), ("s1", "steer"), ("s2", "steer")]:
            await client.post(session_id, text, mode)
        await cancel(client, session_id, **body)
        await provider.left()
    assert (await client.session(session_id))["outcome"] == "cancelled"
    return session_id


async def test_pending_messages_are_held_until_a_resume(client: Client, provider: FakeProvider) -> None:
    session_id = await _cancelled_with_pending(client, provider)
    queue = await client.get(f"/v1/sessions/{session_id}/queue")
    assert [item["content"] for item in queue["items"]] == ["s1", "s2", "f1"]
    assert (await client.session(session_id))["queue"]["pending"] == 3

    await client.resume(session_id)
    await client.until_idle(session_id)

    assert user_texts(await client.messages(session_id)) == ["task", "s1", "s2", "f1"]
    assert len(provider.requests) == 3
    assert [text for text in provider.requests[1].user_texts if "resumed" not in text] == ["task", "s1", "s2"]
    assert provider.requests[2].user_texts[-1] == "f1"
    events = await assert_sound(client, session_id)
    assert [event.data["outcome"] for event in of_type(events, "session.idle")] == [
        "cancelled",
        "completed",
        "completed",
    ]


async def test_a_resumed_run_leaves_a_follow_up_to_a_separate_run(client: Client, provider: FakeProvider) -> None:
    async with standing(client, provider) as session_id:
        await client.post(session_id, "later", "follow_up")
        await cancel(client, session_id)
        await provider.left()

    await client.resume(session_id)
    await client.until_idle(session_id)

    assert ["later" in request.user_texts for request in provider.requests] == [False, False, True]
    events = await assert_sound(client, session_id)
    assert [event.data["steps"] for event in of_type(events, "session.idle")] == [1, 1, 1]


async def test_a_later_message_delivers_held_ones(client: Client, provider: FakeProvider) -> None:
    session_id = await _cancelled_with_pending(client, provider)

    await client.say(session_id, "s3")

    assert [request.user_texts for request in provider.requests[1:]] == [
        ("task", "s1", "s2", "s3"),
        ("task", "s1", "s2", "s3", "f1"),
    ]
    await assert_sound(client, session_id)


async def test_cancel_can_clear_the_queue(client: Client, provider: FakeProvider) -> None:
    session_id = await _cancelled_with_pending(client, provider, clear_queue=True)

    assert (await client.session(session_id))["queue"]["pending"] == 0
    events = await assert_sound(client, session_id)
    assert len(of_type(events, "message.withdrawn")) == 3
    await client.say(session_id, "anew")
    assert provider.requests[-1].user_texts == ("task", "anew")


async def test_cancel_of_an_idle_session_changes_nothing_but_its_queue(client: Client, provider: FakeProvider) -> None:
    session_id = await _cancelled_with_pending(client, provider)

    await cancel(client, session_id)
    assert (await client.session(session_id))["queue"]["pending"] == 3
    await cancel(client, session_id, clear_queue=True)
    assert (await client.session(session_id))["queue"]["pending"] == 0
    unknown = await client.http.post(f"/v1/sessions/{new_id()}/cancel")
    strange = await client.http.post(f"/v1/sessions/{session_id}/cancel", json={"clear": True})

    assert (unknown.status_code, strange.status_code) == (404, 422)
    await assert_sound(client, session_id)


async def test_a_resume_is_recorded_in_the_history(client: Client, provider: FakeProvider) -> None:
    session_id = await _cancelled_with_pending(client, provider, clear_queue=True)

    await client.resume(session_id)
    await client.until_idle(session_id)

    control = [message for message in await client.messages(session_id) if message["role"] == "control"]
    assert len(control) == 1
    assert "resumed" in control[0]["parts"][0]["text"]
    assert provider.requests[-1].user_texts == ("task", control[0]["parts"][0]["text"])
    events = await assert_sound(client, session_id)
    assert [event.data["trigger"] for event in of_type(events, "session.running")] == ["message", "resume"]


async def test_resume_continues_after_a_failure(client: Client, provider: FakeProvider) -> None:
    provider.script(HttpError(402), Reply(Text("now")))
    session, _ = await client.run("task")
    assert session["outcome"] == "failed"

    await client.resume(session["id"])
    await client.until_idle(session["id"])

    assert (await client.session(session["id"]))["outcome"] == "completed"
    assert (await client.session(session["id"]))["error"] is None
    await assert_sound(client, session["id"])


@pytest.mark.extended
async def test_a_cancel_at_the_last_moment_loses_no_message(client: Client, provider: FakeProvider) -> None:
    """The answer may be complete by then; a resume still delivers waiting messages."""

    async def one(number: int) -> str:
        task = f"task {number}"
        provider.script_for(task, Reply(Text("done"), Gate(task)), Reply(Text("and that")), Reply(Text("that too")))
        session_id: str = (await client.create(task))["id"]
        await client.post(session_id, "later", "follow_up")
        await provider.reached(task)
        provider.open(task)
        await cancel(client, session_id)
        await client.until_idle(session_id)
        session = await client.session(session_id)
        if session["queue"]["pending"]:
            assert session["outcome"] == "cancelled"
            await client.resume(session_id)
            await client.until_idle(session_id)
        assert user_texts(await client.messages(session_id)) == [task, "later"]
        await assert_sound(client, session_id)
        return str(session["outcome"])

    outcomes = [await one(number) for number in range(20)]
    assert "cancelled" in outcomes


async def test_resume_is_refused_if_there_is_nothing_to_resume(client: Client, provider: FakeProvider) -> None:
    fresh = (await client.create())["id"]
    answers = [await client.http.post(f"/v1/sessions/{fresh}/resume")]
    async with standing(client, provider) as session_id:
        answers.append(await client.http.post(f"/v1/sessions/{session_id}/resume"))
    answers.append(await client.http.post(f"/v1/sessions/{session_id}/resume"))
    unknown = await client.http.post(f"/v1/sessions/{new_id()}/resume")

    assert [answer.status_code for answer in answers] == [409, 409, 409]
    assert [answer.json()["code"] for answer in answers] == [
        "nothing_to_resume",
        "session_running",
        "nothing_to_resume",
    ]
    assert unknown.status_code == 404


def _at_work(request: RecordedRequest) -> Reply:
    if request.index % 4 == 3:
        return Reply(Text("done " * 5, 5), pace=200)
    return Reply(
        Text("thinking aloud ", 4),
        ToolCall("execute_command", {"command": "echo a; sleep 0.02; echo b"}, chunks=4),
        ToolCall("list_directory", {"path": "."}),
        pace=200,
    )


@first_of(model=[OPENAI, ANTHROPIC])
@pytest.mark.slow
async def test_stops_at_any_instant_leave_a_sound_history(client: Client, provider: FakeProvider, model: str) -> None:
    provider.respond(_at_work)
    rng = random.Random(model)

    async def harass(number: int) -> None:
        session_id = (await client.create(f"task {number}", model=model))["id"]
        for turn in range(4):
            await asyncio.sleep(rng.random() * 0.15)  # any instant is the point, so there is no state to wait for
            if rng.random() < 0.5:
                await client.post(session_id, f"turn {turn}", "interrupt")
                continue
            await cancel(client, session_id)
            await client.until_idle(session_id)
            await assert_sound(client, session_id)
            await client.post(session_id, f"turn {turn}")
        await client.until_idle(session_id)
        await assert_sound(client, session_id)
        texts = user_texts(await client.messages(session_id))
        assert texts == [f"task {number}", *(f"turn {turn}" for turn in range(4))]

    await asyncio.gather(*(harass(number) for number in range(5)))
    assert provider.refusals == []


async def test_two_cancels_and_a_message_at_once_lose_nothing(client: Client, provider: FakeProvider) -> None:
    provider.respond(_at_work)
    session_id = (await client.create("task"))["id"]

    for turn in range(5):
        await asyncio.gather(
            cancel(client, session_id), client.post(session_id, f"turn {turn}"), cancel(client, session_id)
        )
    await client.say(session_id, "last")

    await assert_sound(client, session_id)
    texts = user_texts(await client.messages(session_id))
    assert sorted(texts) == sorted(["task", *(f"turn {turn}" for turn in range(5)), "last"])
    assert texts[-1] == "last"
    assert provider.refusals == []
