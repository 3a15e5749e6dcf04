"""The conversations of idle sessions are kept for their next message: the model gets what a restarted server would
send, and what was changed meanwhile is read again."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.behavior.checks import following
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, RESPONSES, Client, RunningServer, of_type
from tests.behavior.long_task import asks_for_summary
from tests.behavior.packed import CLEARS_ALL, worked_before
from tests.behavior.pictures import image, png, text
from tests.behavior.rounds import compact, compacted, ended, revert
from tests.behavior.test_long_histories import TURNS, imported
from tests.behavior.test_start import at_rest, numbers
from tests.databases import locked
from tests.provider import FakeProvider, Gate, Hang, HttpError, Reasoning, RecordedRequest, Reply, Text, ToolCall

pytestmark = pytest.mark.sqlite
TOOLS = ["update_plan"]
"""One that needs no sandbox."""
KEPT_BYTES = "palimpsest_kept_conversations_bytes"
PLAN = ToolCall("update_plan", {"items": [{"content": "all of it", "status": "in_progress"}]})


@contextmanager
def conversations_read() -> Iterator[list[str]]:
    """The statements of this process that read what was repaired, as only the reading of a conversation does."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT generations.repairs"):
            found.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def used_tools(client: Client, provider: FakeProvider) -> str:
    provider.script(Reply(Text("First"), PLAN), Reply(PLAN, PLAN), Reply(Text("done")))
    session, _ = await client.run("use tools", model=ANTHROPIC, tools=TOOLS)
    return str(session["id"])


async def thought(client: Client, provider: FakeProvider) -> str:
    provider.script(Reply(Reasoning("so"), PLAN), Reply(Reasoning("then"), Text("done")))
    session, _ = await client.run("think", model=ANTHROPIC, tools=TOOLS)
    return str(session["id"])


async def saw_images(client: Client, provider: FakeProvider) -> str:
    provider.script(Reply(Text("ready")), Reply(Text("a cat")))
    session, _ = await client.run("look", model=RESPONSES, tools=TOOLS)
    await client.say(session["id"], [text("what is it?"), image(png(40, 30))])
    return str(session["id"])


async def was_compacted(client: Client, provider: FakeProvider) -> str:
    """Most of its messages were never read, and one more came than were read."""
    provider.respond(lambda request: Reply(Text("the summary" if asks_for_summary(request) else "Done.")))
    session_id = await imported(client, TURNS)
    await client.say(session_id, "and now?")
    return session_id


async def was_cleared(client: Client, provider: FakeProvider) -> str:
    """Its old outputs were cleared with a change of the model."""
    provider.script(Reply(Text("one")), Reply(Text("two")))
    made = await client.create(model=OPENAI, history=worked_before(40), compaction=CLEARS_ALL, tools=TOOLS)
    await client.say(made["id"], "one")
    await client.change(made["id"], model=ANTHROPIC)
    events = await client.say(made["id"], "two")
    assert of_type(events, "prune.completed")
    return str(made["id"])


async def was_steered(client: Client, provider: FakeProvider) -> str:
    provider.script(Reply(Gate("steered"), PLAN), Reply(Text("as you like")))
    made = await client.create("steer me", tools=TOOLS)
    await provider.reached("steered")
    await client.post(made["id"], "to the left")
    await client.post(made["id"], "and later", "follow_up")
    await client.change(made["id"], system_prompt="Be brief.")
    provider.open("steered")
    await client.until_idle(made["id"])
    return str(made["id"])


async def was_interrupted(client: Client, provider: FakeProvider) -> str:
    provider.script(Reply(Text("half of "), Hang()), Reply(Text("fine")))
    made = await client.create("interrupt me", tools=TOOLS)
    async with following(client, made["id"]) as follower:
        await follower.type("text.delta")
        await client.post(made["id"], "other way", "interrupt")
        await follower.type("session.idle")
    return str(made["id"])


async def was_cancelled(client: Client, provider: FakeProvider) -> str:
    provider.script(Reply(Text("half of "), PLAN, Hang()))
    made = await client.create("cancel me", tools=TOOLS)
    async with following(client, made["id"]) as follower:
        await follower.type("text.delta")
        await client.http.post(f"/v1/sessions/{made['id']}/cancel")
        await follower.type("session.idle")
    return str(made["id"])


async def was_retried(client: Client, provider: FakeProvider) -> str:
    provider.script(HttpError(500), Reply(Text("cut"), finish="length"), Reply(Text(" off")))
    session, _ = await client.run("retry", tools=TOOLS)
    return str(session["id"])


HISTORIES: tuple[Callable[[Client, FakeProvider], Awaitable[str]], ...] = (
    used_tools,
    thought,
    saw_images,
    was_compacted,
    was_cleared,
    was_steered,
    was_interrupted,
    was_cancelled,
    was_retried,
)


async def sent(client: Client, provider: FakeProvider, session_id: str) -> list[bytes]:
    """The requests that two messages lead to, without the id that the first one's answer has there."""
    before = len(provider.requests)
    for message in ("and now?", "and then?"):
        await client.say(session_id, message)
        await at_rest(client)
    first, second = (request.raw for request in provider.requests[before:])
    return [first, re.sub(rb"msg_\w+(?=[^{}]*[{][^{}]*Go on)", b"", second)]


async def test_the_next_requests_are_those_of_a_restarted_server(
    start_server: StartServer, provider: FakeProvider, tmp_path: Path
) -> None:
    async with Client(start_server().url) as client:
        sessions = {made.__name__: await made(client, provider) for made in HISTORIES}
        await at_rest(client)
        copy = tmp_path / "copy"
        copy.mkdir(mode=0o700)
        with (
            closing(sqlite3.connect(tmp_path / "data" / "palimpsest.db")) as stored,
            closing(sqlite3.connect(copy / "palimpsest.db")) as copied,
        ):
            stored.backup(copied)
        provider.respond(lambda _: Reply(Text("Go on.")))
        with conversations_read() as read:
            kept = {name: await sent(client, provider, session_id) for name, session_id in sessions.items()}
        assert read == []
    async with Client(start_server(data_dir=copy).url) as client:
        with conversations_read() as read:
            restarted = {name: await sent(client, provider, session_id) for name, session_id in sessions.items()}
        assert len(read) >= len(sessions)
    for name, requests in kept.items():
        assert requests == restarted[name], name
    assert provider.refusals == []


async def test_what_was_changed_is_read_again(client: Client, provider: FakeProvider) -> None:
    provider.respond(lambda request: Reply(Text("the summary" if asks_for_summary(request) else "Done.")))
    session_id = await imported(client, TURNS)

    async def said(message: str) -> tuple[RecordedRequest, bool]:
        """The request, and whether the conversation was read for it."""
        await at_rest(client)
        before = len(provider.requests)
        with conversations_read() as read:
            await client.say(session_id, message)
        return provider.requests[before], bool(read)

    assert (await said("after a round"))[1]
    assert not (await said("at once"))[1]
    await client.http.post(f"/v1/sessions/{session_id}/seen")
    assert not (await said("after a look"))[1]
    await client.change(session_id, system_prompt="Be brief.")
    request, was_read = await said("with instructions")
    assert was_read
    assert b"Be brief." in request.raw
    assert not (await said("at once"))[1]
    await compacted(client, session_id)
    request, was_read = await said("after another round")
    assert was_read
    assert request.user_texts[-1] == "after another round"
    assert "with instructions" not in request.user_texts[:2]
    await revert(client, session_id, 2)
    request, was_read = await said("after its revert")
    assert was_read
    assert "with instructions" in request.user_texts

    provider.script(HttpError(402))
    await said("that fails")
    provider.respond(lambda _: Reply(Text("Done.")))
    request, was_read = await said("after a failure")
    assert was_read
    assert request.user_texts[-2:] == ("that fails", "after a failure")
    await client.change(session_id, limits={"max_steps": 1})
    provider.script(Reply(PLAN), Reply(Text("Not yet.")), Reply(Text("Done.")))
    await said("up to the limit")
    assert (await said("after the limit"))[1]

    await at_rest(client)
    assert (await numbers(client))[KEPT_BYTES] > 50_000
    assert (await client.http.delete(f"/v1/sessions/{session_id}")).is_success
    assert (await numbers(client))[KEPT_BYTES] == 0


async def test_a_revert_during_the_last_step_is_in_the_next_request(client: Client, provider: FakeProvider) -> None:
    """The owner learns of it, and has no step to use it for."""
    provider.respond(lambda request: Reply(Text("the summary" if asks_for_summary(request) else "Done.")))
    session_id = await imported(client, TURNS)
    await client.say(session_id, "one")
    await at_rest(client)
    provider.script(Reply(Gate("last"), Text("Done.")), Reply(Text("Done.")))
    await client.post(session_id, "two")
    await provider.reached("last")
    await revert(client, session_id, 1)
    provider.open("last")
    await client.until_idle(session_id)
    await at_rest(client)
    await client.say(session_id, "three")
    assert [f"Do part {number}." for number in range(1, TURNS + 1)] == list(provider.requests[-1].user_texts[:TURNS])


async def test_a_revert_that_shares_a_commit_with_a_message_is_in_its_request(
    client: Client, server: RunningServer, provider: FakeProvider
) -> None:
    """The message has claimed the session by then, for an owner that does not exist yet."""
    provider.respond(lambda request: Reply(Text("the summary" if asks_for_summary(request) else "Done.")))
    session_id = await imported(client, TURNS)
    seq = (await client.say(session_id, "one"))[-1].id
    await at_rest(client)
    other = (await client.create())["id"]
    with locked(server.settings.data_dir / "palimpsest.db"):
        # A commit that waits for the lock, and then the next one.
        writes: list[asyncio.Task[Any]] = [asyncio.create_task(client.change(other, title="in the first"))]
        while not await waiting_writes(client):
            writes.append(asyncio.create_task(client.change(other, title="in one of them")))
        before = await waiting_writes(client)
        for number, write in enumerate((client.post(session_id, "two"), revert(client, session_id, 1)), 1):
            writes.append(asyncio.create_task(write))
            while await waiting_writes(client) < before + number:
                pass
    await asyncio.gather(*writes)
    await client.until_idle(session_id, seq)
    assert [f"Do part {number}." for number in range(1, TURNS + 1)] == list(provider.requests[-1].user_texts[:TURNS])


async def waiting_writes(client: Client) -> float:
    """How many writes are in no commit yet."""
    return (await numbers(client))["palimpsest_database_waiting_writes"]


async def test_a_round_in_a_kept_conversation_counts_all_work(client: Client, provider: FakeProvider) -> None:
    """It has messages that were read, others that were not, and some that came since."""
    provider.respond(lambda request: Reply(Text("the summary" if asks_for_summary(request) else "Done.")))
    session_id = await imported(client, TURNS)
    search = Reply(ToolCall("history_search", {"query": "part"}))
    provider.script(search, Reply(Text("Found.")), Reply(Text("Done.")))
    for message in ("one", "two"):
        await client.say(session_id, message)
        await at_rest(client)
    provider.script(Reply(Gate("plan"), PLAN), Reply(Text("the summary")), Reply(Text("Done.")))
    with conversations_read() as read:
        await client.post(session_id, "three")
        await provider.reached("plan")
    assert read == []
    number = (await compact(client, session_id))["round"]
    provider.open("plan")
    assert (await ended(client, session_id, number)).type == "compaction.completed"
    await client.until_idle(session_id)
    summary = [message for message in await client.messages(session_id) if message["is_summary"]][-1]
    assert f"Completed tool calls: read_file {TURNS}, history_search 1." in summary["parts"][0]["text"]
