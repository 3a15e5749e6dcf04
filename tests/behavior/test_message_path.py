"""From a message to the model: one commit, and each fact is read once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.behavior.harness import Client
from tests.behavior.test_start import at_rest
from tests.provider import FakeProvider, RecordedRequest, Reply, Text

_INSERTED = re.compile(r"INSERT INTO (\w+)")
_READ = re.compile(r"FROM (\w+)")


@contextmanager
def writes() -> Iterator[list[list[str]]]:
    """For each write transaction of this process, the tables that get rows."""
    found: list[list[str]] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement == "BEGIN IMMEDIATE":
            found.append([])
        elif inserted := _INSERTED.match(statement):
            found[-1].append(inserted[1])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@contextmanager
def reads() -> Iterator[list[set[str]]]:
    """For each read transaction of this process, its tables."""
    found: dict[int, set[str]] = {}
    ended: list[set[str]] = []

    def note(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement == "BEGIN":
            ended.append(found.setdefault(id(connection), set()))
        elif id(connection) in found:
            found[id(connection)].update(_READ.findall(statement))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield ended
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.mark.sqlite
@pytest.mark.shared_server
async def test_until_the_request_of_an_idle_session_only_its_secrets_and_cost_are_read(
    client: Client, provider: FakeProvider
) -> None:
    session, _ = await client.run("first")
    await at_rest(client)
    asked: list[list[set[str]]] = []

    with reads() as found:

        def answer(_: RecordedRequest) -> Reply:
            asked.append([set(tables) for tables in found])
            return Reply(Text("two"))

        provider.respond(answer)
        await client.post(session["id"], "second")
        await provider.request_count(2)
    await client.until_idle(session["id"])
    # The server also checks regularly that it still has its database, and reads checkpoints meanwhile.
    meanwhile = ({"server"}, {"checkpoints"})
    assert [tables for tables in asked[0] if tables not in meanwhile] == [{"secrets", "sessions", "steps"}]


@pytest.mark.sqlite
@pytest.mark.shared_server
async def test_a_message_to_an_idle_session_is_accepted_and_delivered_in_one_commit(
    client: Client, provider: FakeProvider
) -> None:
    provider.script(Reply(Text("one")), Reply(Text("two")), Reply(Text("three")))
    session, _ = await client.run("first")
    with writes() as found:
        sent = await client.post(session["id"], "second")
        events = await client.until_idle(session["id"])
    begun = next(place for place, tables in enumerate(found) if "steps" in tables)
    assert [tables for tables in found[:begun] if tables and tables != ["checkpoints"]] == [
        ["queue", "messages", "message_parts", "events"]
    ]
    types = [each.type for each in events if each.id is not None]
    order = ["message.queued", "session.running", "message.dequeued", "message.created", "step.started"]
    place = max(number for number, kind in enumerate(types) if kind == "message.queued")
    assert types[place : place + len(order)] == order
    # An interrupting message that was delivered with its acceptance interrupts nothing.
    await client.post(session["id"], "third", mode="interrupt")
    await client.until_idle(session["id"])
    told = await client.messages(session["id"])
    assert [message["parts"][0]["text"] for message in told] == ["first", "one", "second", "two", "third", "three"]
    assert told[2]["id"] == sent["id"]
