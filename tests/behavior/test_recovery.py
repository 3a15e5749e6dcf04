"""A server killed at any instant loses nothing committed; the next one continues by itself."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.behavior.checks import Follower, assert_sound, following, log_of, requests_of, user_texts
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartProcess
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, of_type
from tests.behavior.test_cancel_resume import cancel
from tests.behavior.test_interrupt import stubborn
from tests.provider import FakeProvider, Gate, Hang, HttpError, RecordedRequest, Reply, Text, ToolCall
from tests.unit.sandbox.shell import sleepers, unique_seconds


@dataclass(frozen=True)
class Doing:
    """A session's activity when its server goes down: the answer that leads there, how to detect it, the text shown by
    then, and the number of open calls."""

    name: str
    answer: Any
    reached: Callable[[Event], bool] | None = None
    text: str = ""
    open_calls: int = 0
    gate: str | None = None


COMMAND = "echo ran >> runs; "


def _doings(seconds: str) -> tuple[Doing, ...]:
    return (
        Doing("asking", Reply(Gate("asking"), Hang()), gate="asking"),
        Doing("writing", Reply(Text("half of it", 3), Hang()), lambda e: e.type == "text.delta", text="half of it"),
        Doing(
            "calling",
            Reply(ToolCall("write_file", {"path": "never", "content": ""}, chunks=3, pause=Hang())),
            lambda e: e.type == "tool.arguments",
        ),
        Doing(
            "working",
            Reply(
                ToolCall("write_file", {"path": "kept", "content": "kept"}),
                ToolCall("execute_command", {"command": COMMAND + stubborn(seconds)}),
                ToolCall("execute_command", {"command": "touch never"}),
            ),
            lambda e: e.type == "tool.output" and "stderr" in e.data["text"],
            open_calls=2,
        ),
        Doing("sleeping", HttpError(429, headers={"retry-after": "90"}), lambda e: e.type == "step.retrying"),
    )


async def _begin(client: Client, provider: FakeProvider, doing: Doing, model: str) -> str:
    """A session in this state, with a steer and a follow-up waiting."""
    provider.script_for(doing.name, doing.answer, Reply(Text("the rest")))
    session_id: str = (await client.create(doing.name, model=model))["id"]
    if doing.gate is not None:
        await provider.reached(doing.gate)
    else:
        async with following(client, session_id) as follower:
            await follower.seen(doing.reached or (lambda _: True))
    await client.post(session_id, f"follow {doing.name}", "follow_up")
    await client.post(session_id, f"steer {doing.name}")
    return session_id


@first_of(how=[signal.SIGKILL, signal.SIGTERM])
@pytest.mark.slow
async def test_every_session_continues_by_itself_after_the_server_went_down(
    start_process: StartProcess, provider: FakeProvider, how: signal.Signals, sandbox: str
) -> None:
    seconds = unique_seconds()
    doings = _doings(seconds)
    first = start_process()
    async with Client(first.url) as client:
        begun = [
            _begin(client, provider, doing, OPENAI if place % 2 else ANTHROPIC) for place, doing in enumerate(doings)
        ]
        ids = await asyncio.gather(*begun)
        late = [(await client.create(f"late {number}"))["id"] for number in range(3)]
        code = first.end(how)
    assert code in (-how, 0)

    async with Client(start_process().url) as client:
        await asyncio.gather(*(client.until_idle(session_id) for session_id in [*ids, *late]))
        assert sleepers(seconds) == 0
        for doing, session_id in zip(doings, ids, strict=True):
            await _assert_went_on(client, provider, doing, session_id, parked=how is signal.SIGTERM)
        for number, session_id in enumerate(late):
            await assert_sound(client, session_id)
            assert user_texts(await client.messages(session_id)) == [f"late {number}"]
            assert (await client.session(session_id))["outcome"] == "completed"
    assert provider.refusals == []


async def _assert_went_on(
    client: Client, provider: FakeProvider, doing: Doing, session_id: str, *, parked: bool
) -> None:
    session = await client.session(session_id)
    assert (session["status"], session["outcome"]) == ("idle", "completed"), doing.name
    events = await assert_sound(client, session_id)
    (recovered,) = of_type(events, "session.recovered")
    triggers = [event.data["trigger"] for event in of_type(events, "session.running")]
    assert triggers == ["message", "recovery", "message"]
    finished = [event.data["finish_reason"] for event in of_type(events, "step.finished")]
    assert finished == ["interrupted", "stop", "stop"]
    results = sorted(of_type(events, "tool.result"), key=lambda event: event.data["index"])
    statuses = [event.data["status"] for event in results]
    if not parked:
        assert recovered.data["interrupted_step"] == 1
        assert len(recovered.data["closed_calls"]) == doing.open_calls or doing.name == "calling"
    if doing.name == "working":
        (first, *_) = of_type(events, "step.finished")
        assert first.data["usage"]["output_tokens"] > 0, "what the answer has cost is known"
        total = sum(event.data["usage"]["output_tokens"] for event in of_type(events, "step.finished"))
        assert session["usage"]["output_tokens"] == total
        assert statuses[0] == "completed"
        assert set(statuses[1:]) <= {"interrupted", "cancelled"}
        files = f"/v1/sessions/{session_id}/files"
        assert (await client.http.get(f"{files}/runs")).content == b"ran\n", "nothing was silently run twice"
        assert (await client.http.get(f"{files}/kept")).content == b"kept"
        assert (await client.http.get(f"{files}/never")).status_code == 404
    for event in of_type(events, "text.completed")[:-2]:
        assert event.data["interrupted"]
        assert doing.text.startswith(event.data["text"])

    texts = [doing.name, f"steer {doing.name}", f"follow {doing.name}"]
    assert user_texts(await client.messages(session_id)) == texts
    last = "\n".join(requests_of(provider, doing.name)[-1].user_texts)
    assert [last.count(text) for text in texts[1:]] == [1, 1]


@asynccontextmanager
async def _followed(client: Client, session_id: str, wanted: str) -> AsyncIterator[Follower]:
    async with following(client, session_id) as follower:
        await follower.type(wanted)
        yield follower


async def test_stored_text_survives_and_is_marked_as_interrupted(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    provider.script(Reply(Text("half of it"), Hang()), Reply(Text("the rest")))
    first = start_process()
    async with Client(first.url) as client:
        session_id = (await client.create("task"))["id"]
        async with _followed(client, session_id, "text.delta"):
            while not (await client.messages(session_id))[-1]["parts"]:
                pass  # it is stored within a quarter of a second, and no event reports that
        first.end(signal.SIGKILL)

    async with Client(start_process().url) as client:
        await client.until_idle(session_id)
        events = await assert_sound(client, session_id)
        text = of_type(events, "text.completed")[0]
        assert (text.data["text"], text.data["interrupted"]) == ("half of it", True)
        assert provider.requests[1].assistant_texts == ("half of it",)
        control = provider.requests[1].last_user_text
        assert control not in ("task", "")
    assert provider.refusals == []


@pytest.mark.slow
async def test_a_run_that_keeps_killing_its_server_is_parked(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    provider.respond(lambda _: Reply(Text("boom"), Hang()))
    server = start_process()
    async with Client(server.url) as client:
        session_id = (await client.create("task"))["id"]
    for count in range(1, 5):
        async with Client(server.url) as client, following(client, session_id) as follower:
            # The request may be sent before the start of the step is stored.
            await follower.type("step.started", count)
            await provider.request_count(count)
        server.end(signal.SIGKILL)
        server = start_process()

    async with Client(server.url) as client:
        await client.until_idle(session_id)
        session = await client.session(session_id)
        assert (session["outcome"], session["error"]["code"]) == ("interrupted", "recovery_limit")
        assert len(provider.requests) == 4
        provider.script(Reply(Text("fine")))
        await client.resume(session_id)
        await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        await assert_sound(client, session_id)
    assert provider.refusals == []


async def test_a_cancel_is_not_forgotten_in_a_crash(start_process: StartProcess, provider: FakeProvider) -> None:
    provider.script(Reply(Gate("never"), Text("x")))
    first = start_process()
    async with Client(first.url) as client:
        session_id = (await client.create("task"))["id"]
        await provider.reached("never")
        await client.post(session_id, "held", "follow_up")
        await cancel(client, session_id)
        first.end(signal.SIGKILL)

    async with Client(start_process().url) as client:
        await client.until_idle(session_id)
        session = await client.session(session_id)
        assert (session["status"], session["outcome"], session["queue"]["pending"]) == ("idle", "cancelled", 1)
        await assert_sound(client, session_id)


def _working(request: RecordedRequest) -> Reply:
    if request.index % 3 == 2:
        return Reply(Text("done " * 4, 4), pace=100)
    return Reply(Text("so "), ToolCall("execute_command", {"command": "echo a; sleep 0.05"}, chunks=3), pace=100)


@pytest.mark.extended
async def test_kills_at_any_instant_lose_and_repeat_nothing(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    provider.respond(_working)
    rng = random.Random(5)
    server = start_process()
    async with Client(server.url) as client:
        ids = [(await client.create(f"task {number}"))["id"] for number in range(4)]
    accepted: dict[str, list[str]] = {session_id: [] for session_id in ids}
    for turn in range(2):
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(server.url))
            for session_id in ids:
                mode = rng.choice(["steer", "interrupt", "follow_up"])
                accepted[session_id].append((await client.post(session_id, f"turn {turn}", mode))["id"])
            await asyncio.sleep(rng.random() * 0.3)  # any instant is the point
            seen = {session_id: await log_of(client, session_id) for session_id in ids}
            server.end(signal.SIGKILL)
        server = start_process()

    async with Client(server.url) as client:
        await asyncio.gather(*(client.until_idle(session_id) for session_id in ids))
        for number, session_id in enumerate(ids):
            events = await assert_sound(client, session_id)
            assert events[: len(seen[session_id])] == seen[session_id], "what was shown had been committed"
            messages = await client.messages(session_id)
            delivered = [message["id"] for message in messages if message["role"] == "user"]
            assert sorted(delivered[1:]) == sorted(accepted[session_id])
            last = requests_of(provider, f"task {number}")[-1].user_texts
            assert [last.count(f"turn {turn}") for turn in range(2)] == [1, 1]
    assert provider.refusals == []


async def test_the_seconds_of_a_run_continue_across_a_restart(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    provider.script(Reply(Text("half of it"), Hang()), Reply(Text("That is where it stands.")))
    first = start_process()
    async with Client(first.url) as client, AsyncExitStack() as stack:
        session_id = (await client.create("task", limits={"max_seconds": 1}))["id"]
        await stack.enter_async_context(_followed(client, session_id, "step.started"))
        await provider.request_count(1)
        arrived = time.monotonic()
        first.end(signal.SIGKILL)
    await asyncio.sleep(1 - (time.monotonic() - arrived))  # the limit itself is of time
    async with Client(start_process().url) as client:
        await client.until_idle(session_id)
        session = await client.session(session_id)
    assert (session["outcome"], session["error"]["code"]) == ("limit_reached", "max_seconds")
    assert len(provider.requests) == 2, "what was begun, and the last step"
    assert "last step" in provider.requests[1].last_user_text


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("sandbox", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True)
async def test_a_sandbox_that_was_left_running_goes_with_the_next_server(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    """No sandbox of another kind outlives its server."""
    provider.script(Reply(ToolCall("execute_command", {"command": "true"})), Reply(Text("done")))
    first = start_process()
    async with Client(first.url) as client:
        session, _ = await client.run("task")
    first.end(signal.SIGKILL)
    name = f"palimpsest-{session['id']}"
    assert _container_state(name) == "running"

    assert start_process().end(signal.SIGTERM) in (-signal.SIGTERM, 0)
    assert _container_state(name) is None


def _container_state(name: str) -> str | None:
    """The Engine's state of a container; None if it does not exist."""
    command = ["docker", "container", "inspect", "--format", "{{.State.Status}}", name]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    return shown.stdout.strip() if shown.returncode == 0 else None
