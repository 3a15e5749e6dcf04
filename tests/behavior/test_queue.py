"""The queue: every accepted message is delivered exactly once, in order, whatever the session is doing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from app.messages import new_id
from tests.behavior.checks import Follower, assert_sound, following, requests_of, user_texts
from tests.behavior.combinations import first_of
from tests.behavior.harness import Client, Event, command, of_type, shows
from tests.provider import FakeProvider, Gate, HttpError, RecordedRequest, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

WAIT_FOR_FILE = "echo begun; while [ ! -e go ]; do sleep 0.02; done"
"""A command that waits until the test uploads the file `go`."""


async def release(client: Client, session_id: str) -> None:
    """Lets `WAIT_FOR_FILE` end."""
    response = await client.http.put(f"/v1/sessions/{session_id}/files/go", content=b"")
    assert response.is_success


@dataclass(frozen=True)
class Phase:
    """A phase of a run: the answers that lead there, how to detect it, and what lets the run continue."""

    name: str
    answers: tuple[Any, ...]
    reached: Callable[[FakeProvider, Follower], Any]
    gate: str | None = None
    active: bool = True
    """Whether a step is running, which an interrupt cancels."""


def _gate(name: str) -> Callable[[FakeProvider, Follower], Any]:
    return lambda provider, _: provider.reached(name)


def _event(wanted: Callable[[Event], bool]) -> Callable[[FakeProvider, Follower], Any]:
    return lambda _, follower: follower.seen(wanted)


PHASES = (
    Phase("before the answer", (Reply(Gate("g1"), Text("answer")),), _gate("g1"), "g1"),
    Phase("in the text", (Reply(Text("half ", 2), Gate("g2"), Text("whole")),), _gate("g2"), "g2"),
    Phase(
        "in the arguments",
        (Reply(ToolCall("list_directory", {"path": "."}, chunks=4, pause=Gate("g3"))),),
        _gate("g3"),
        "g3",
    ),
    Phase(
        "in a command",
        (Reply(command(WAIT_FOR_FILE)),),
        _event(shows("tool.output")),
    ),
    Phase(
        "in the retry's sleep",
        (HttpError(429, headers={"retry-after": "3"}),),
        _event(shows("step.retrying")),
    ),
    Phase("before the end", (Reply(Text("all of it"), Gate("g4")),), _gate("g4"), "g4"),
    Phase("at the text's end", (Reply(Text("short")),), _event(shows("text.completed")), None, False),
    Phase("at the step's end", (Reply(Text("short")),), _event(shows("step.finished")), None, False),
    Phase("at idle", (Reply(Text("short")),), _event(shows("session.idle")), None, False),
)


@pytest.mark.parametrize("mode", ["steer", "follow_up", "interrupt"])
@pytest.mark.slow
async def test_a_message_in_any_phase_is_delivered_exactly_once(
    client: Client, provider: FakeProvider, mode: str
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for phase in PHASES:
            tasks.create_task(_post_in(client, provider, phase, mode))

    assert provider.refusals == []


async def _post_in(client: Client, provider: FakeProvider, phase: Phase, mode: str) -> None:
    task, word = f"task {phase.name}", f"word {phase.name}"
    provider.script_for(task, *phase.answers, Reply(Text("more")))
    session_id = (await client.create(task))["id"]
    async with following(client, session_id) as follower:
        await phase.reached(provider, follower)
        asked = len(requests_of(provider, task))
        receipt = await client.post(session_id, word, mode)
        if phase.gate is not None:
            provider.open(phase.gate)
        if phase.name == "in a command":
            await release(client, session_id)
    await client.until_idle(session_id)

    events = await assert_sound(client, session_id)
    messages = await client.messages(session_id)
    assert [message["id"] for message in messages].count(receipt["id"]) == 1
    assert user_texts(messages) == [task, word]
    sent = [request.user_texts.count(word) for request in requests_of(provider, task)]
    assert sent == sorted(sent)
    assert sent[-1] == 1
    finished = [event.data["finish_reason"] for event in of_type(events, "step.finished")]
    runs = len(of_type(events, "session.idle"))
    if phase.active:
        assert runs == (2 if mode == "follow_up" else 1)
        assert (finished[0] == "cancelled") == (mode == "interrupt")
    if phase.active and (mode == "interrupt" or (mode == "steer" and phase.name != "in the retry's sleep")):
        assert sent[asked] == 1, "the very next request holds it"


async def test_steers_are_delivered_together_and_follow_ups_in_one_run_each(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    provider.script(Reply(command(WAIT_FOR_FILE)), per_conversation=True)
    session_id = (await client.create("task"))["id"]
    async with following(client, session_id) as follower:
        await follower.type("tool.output")
        receipts = [
            await client.post(session_id, text, mode)
            for text, mode in [
                ("f1", "follow_up"),
                ("s1", "steer"),
                ("f2", "follow_up"),
                ("s2", "steer"),
                ("s3", "steer"),
            ]
        ]
        queue = await client.get(f"/v1/sessions/{session_id}/queue")
        await release(client, session_id)
    await client.until_idle(session_id)

    assert [receipt["position"] for receipt in receipts] == [1, 1, 3, 2, 3]
    assert [item["content"] for item in queue["items"]] == ["s1", "s2", "s3", "f1", "f2"]
    assert [item["position"] for item in queue["items"]] == [1, 2, 3, 4, 5]
    assert [request.user_texts for request in provider.requests] == [
        ("task",),
        ("task", "s1", "s2", "s3"),
        ("task", "s1", "s2", "s3", "f1"),
        ("task", "s1", "s2", "s3", "f1", "f2"),
    ]
    events = await assert_sound(client, session_id)
    assert [event.data["steps"] for event in of_type(events, "session.idle")] == [2, 1, 1]
    assert provider.refusals == []


async def test_a_follow_up_of_an_idle_session_starts_a_run(client: Client, provider: FakeProvider) -> None:
    session_id = (await client.create())["id"]
    assert (await client.session(session_id))["status"] == "idle"

    await client.post(session_id, "first", "follow_up")
    assert (await client.session(session_id))["outcome"] in (None, "completed")
    await client.until_idle(session_id)
    await client.post(session_id, "second", "interrupt")
    await client.until_idle(session_id)

    assert [request.user_texts for request in provider.requests] == [("first",), ("first", "second")]
    await assert_sound(client, session_id)


def _busy(request: RecordedRequest) -> Reply:
    """Works for a few steps after each user message, in answers of several pieces."""
    if request.index % 3:
        return Reply(Text("so ", 3), ToolCall("list_directory", {"path": "."}, chunks=3))
    return Reply(Text("done with it", 4))


@first_of(posters=[3, 8])
async def test_concurrent_posters_lose_nothing_and_repeat_nothing(
    client: Client, provider: FakeProvider, posters: int
) -> None:
    provider.respond(_busy)
    session_id = (await client.create("task", limits={"max_steps": None}))["id"]
    rng = random.Random(20)
    accepted: dict[str, str] = {}

    async def poster(name: int, modes: list[str]) -> None:
        for number, mode in enumerate(modes):
            text = f"message {name}/{number}."
            accepted[(await client.post(session_id, text, mode))["id"]] = text

    modes = ["steer", "steer", "follow_up", "interrupt"]
    async with asyncio.TaskGroup() as tasks:
        for name in range(posters):
            tasks.create_task(poster(name, rng.choices(modes, k=8)))
    await client.until_idle(session_id)

    events = await assert_sound(client, session_id)
    delivered = [message for message in await client.messages(session_id) if message["role"] == "user"][1:]
    assert {message["id"]: message["parts"][0]["text"] for message in delivered} == accepted
    assert len(delivered) == len(accepted) == 8 * posters
    last = provider.requests[-1].user_texts
    assert sorted(text for text in last if text.startswith("message")) == sorted(accepted.values())
    assert provider.refusals == []
    _assert_in_line(events)


def _assert_in_line(events: list[Event]) -> None:
    """Steers and interrupts are delivered in order of acceptance, and so are follow-ups."""
    for line in ({"steer", "interrupt"}, {"follow_up"}):
        accepted, delivered = (
            [event.data["message_id"] for event in of_type(events, name) if event.data["mode"] in line]
            for name in ("message.queued", "message.dequeued")
        )
        assert delivered == accepted


@asynccontextmanager
async def standing(client: Client, provider: FakeProvider, task: str = "task") -> AsyncIterator[str]:
    """A session whose model does not answer until exit."""
    gate = f"gate of {task}"
    provider.script_for(task, Reply(Gate(gate), Text("answer")))
    session_id = (await client.create(task))["id"]
    await provider.reached(gate)
    try:
        yield session_id
    finally:
        provider.open(gate)
        await client.until_idle(session_id)


async def test_an_id_makes_a_retry_safe(client: Client, provider: FakeProvider) -> None:
    message_id, session_id = new_id(), new_id()
    task = {"id": session_id, "task": "task", "model": "fake-openai/model"}
    provider.script(Reply(Gate("answer"), Text("answer")))

    first = await client.http.post("/v1/sessions", json=task)
    again = await client.http.post("/v1/sessions", json=task)
    other = await client.http.post("/v1/sessions", json={**task, "task": "another"})
    await provider.reached("answer")
    step = await client.wait_for(session_id, shows("step.started"))  # which is stored while the model is asked
    queue = f"/v1/sessions/{session_id}/queue"
    receipts = [await client.post(session_id, "word", "follow_up", id=message_id) for _ in range(2)]
    conflict = await client.http.post(queue, json={"content": "another", "id": message_id})
    reused = await client.http.post(queue, json={"content": "task", "id": step.data["message_id"]})
    await client.http.patch(f"{queue}/{message_id}", json={"content": "a better word"})
    edited = await client.post(session_id, "word", "follow_up", id=message_id)
    provider.open("answer")
    await client.until_idle(session_id)
    late = await client.post(session_id, "word", "follow_up", id=message_id)
    made = await client.http.post("/v1/sessions", json=task)

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert receipts[0] == receipts[1] == edited
    assert receipts[0] == {"id": message_id, "position": 1, "mode": "follow_up", "status": "pending"}
    assert (conflict.status_code, conflict.json()["code"]) == (409, "id_in_use")
    assert (reused.status_code, reused.json()["code"]) == (409, "id_in_use")
    assert late == {"id": message_id, "position": 0, "mode": "follow_up", "status": "delivered"}
    assert made.json()["outcome"] == "completed"
    assert [request.user_texts for request in provider.requests] == [("task",), ("task", "a better word")]
    await assert_sound(client, session_id)


async def test_pending_messages_can_be_edited_and_withdrawn(client: Client, provider: FakeProvider) -> None:
    async with standing(client, provider) as session_id:
        queue = f"/v1/sessions/{session_id}/queue"
        ids = [(await client.post(session_id, f"m{n}", "follow_up"))["id"] for n in range(3)]
        edited = await client.http.patch(f"{queue}/{ids[1]}", json={"content": "better", "mode": "steer"})
        gone = await client.http.delete(f"{queue}/{ids[0]}")
        twice = await client.http.delete(f"{queue}/{ids[0]}")
        page = await client.get(queue)
        nothing = await client.http.patch(f"{queue}/{ids[2]}", json={})
    delivered = [
        await client.http.patch(f"{queue}/{ids[1]}", json={"content": "late"}),
        await client.http.delete(f"{queue}/{ids[1]}"),
    ]
    unknown = [
        await client.http.delete(f"{queue}/{new_id()}"),
        await client.http.delete(f"/v1/sessions/{new_id()}/queue/{ids[1]}"),
        await client.http.post(f"/v1/sessions/{new_id()}/queue", json={"content": "x"}),
    ]

    assert (edited.status_code, edited.json()["position"], edited.json()["content"]) == (200, 1, "better")
    assert (gone.status_code, twice.status_code, nothing.status_code) == (204, 409, 422)
    assert [(item["content"], item["mode"]) for item in page["items"]] == [("better", "steer"), ("m2", "follow_up")]
    assert [answer.status_code for answer in delivered] == [409, 409]
    assert {answer.json()["code"] for answer in [*delivered, twice]} == {"message_not_pending"}
    assert [answer.status_code for answer in unknown] == [404, 404, 404]
    assert [answer.json()["code"] for answer in unknown] == ["message_not_found", *["session_not_found"] * 2]
    events = await assert_sound(client, session_id)
    assert [event.data["content"] for event in of_type(events, "message.edited")] == ["better"]
    assert [event.data["message_id"] for event in of_type(events, "message.withdrawn")] == [ids[0]]
    assert provider.requests[-1].user_texts == ("task", "better", "m2")


async def test_an_edit_to_interrupt_ends_the_step(client: Client, provider: FakeProvider) -> None:
    async with standing(client, provider) as session_id:
        message_id = (await client.post(session_id, "now", "follow_up"))["id"]
        await client.http.patch(f"/v1/sessions/{session_id}/queue/{message_id}", json={"mode": "interrupt"})
        await provider.left()
        await provider.request_count(2)

    assert provider.requests[1].user_texts == ("task", "now")
    events = await assert_sound(client, session_id)
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["cancelled", "stop"]
    assert len(of_type(events, "session.idle")) == 1


async def test_a_run_whose_only_message_is_withdrawn_ends(client: Client, provider: FakeProvider) -> None:
    """The withdrawal races with the delivery; either may win, but the session must not hang."""
    for _ in range(4):
        session_id, message_id = (await client.create())["id"], new_id()
        queue = f"/v1/sessions/{session_id}/queue"
        _, answer = await asyncio.gather(
            client.post(session_id, "oh no", id=message_id), client.http.delete(f"{queue}/{message_id}")
        )
        await client.until_idle(session_id)
        assert answer.status_code in (204, 404, 409)
        assert user_texts(await client.messages(session_id)) == ([] if answer.status_code == 204 else ["oh no"])
        await assert_sound(client, session_id)


async def test_a_withdrawn_message_keeps_the_previous_outcome(
    start_server: Callable[..., Any], provider: FakeProvider
) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(start_server(max_runs=1).url))
        provider.script(HttpError(402))
        session, _ = await client.run("fails")
        await stack.enter_async_context(standing(client, provider))
        message_id = (await client.post(session["id"], "waits for its turn"))["id"]
        path = f"/v1/sessions/{session['id']}"
        assert (await client.http.delete(f"{path}/queue/{message_id}")).status_code == 204
        provider.open("gate of task")
        await client.until_idle(session["id"])
        last = await client.session(session["id"])
        assert (last["outcome"], last["error"]["code"]) == ("failed", session["error"]["code"])
        assert (await client.http.post(f"{path}/resume")).status_code == 202


async def test_whitespace_alone_is_not_a_message(client: Client) -> None:
    session_id = (await client.create())["id"]
    answers = [
        await client.http.post("/v1/sessions", json={"task": " \n"}),
        await client.http.post(f"/v1/sessions/{session_id}/queue", json={"content": "\t"}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(422, "validation_error")] * 2
    assert "whitespace" in answers[1].json()["detail"]


async def test_a_full_queue_says_when_to_come_back(start_server: Callable[..., Any], provider: FakeProvider) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(start_server(queue_limit=3).url))
        session_id = await stack.enter_async_context(standing(client, provider))
        for number in range(3):
            await client.post(session_id, f"m{number}")
        full = await client.http.post(f"/v1/sessions/{session_id}/queue", json={"content": "one more"})
        provider.open("gate of task")
        await client.until_idle(session_id)
        await client.say(session_id, "one more")

        assert (full.status_code, full.json()["code"], full.json()["limit"]) == (429, "queue_full", 3)
        assert int(full.headers["retry-after"]) >= 1
        assert user_texts(await client.messages(session_id)) == ["task", "m0", "m1", "m2", "one more"]


async def test_a_hundred_messages_may_wait(client: Client, provider: FakeProvider) -> None:
    async with standing(client, provider) as session_id:
        await asyncio.gather(*(client.post(session_id, f"m{number}") for number in range(100)))
        full = await client.http.post(f"/v1/sessions/{session_id}/queue", json={"content": "one more"})
        page = await client.get(f"/v1/sessions/{session_id}/queue")
        assert (await client.session(session_id))["queue"]["pending"] == 100

    assert full.status_code == 429
    assert len(page["items"]) == 100
    assert provider.requests[-1].user_texts == ("task", *(item["content"] for item in page["items"]))
