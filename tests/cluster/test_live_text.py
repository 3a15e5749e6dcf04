"""Live text of a cluster with a broker: a node that does not own the session has it as its owner writes it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

import pytest

from scripts.servers.redis import RedisServer
from tests.behavior.checks import assert_sound
from tests.behavior.harness import Client, Event, durable, of_type, shows
from tests.cluster.rig import Cluster
from tests.load import CANCEL_S
from tests.provider import FakeProvider, Gate, Reply, Text


@pytest.fixture
async def clients(cluster: Cluster, redis: RedisServer) -> AsyncIterator[tuple[Client, Client]]:
    """Clients of two API nodes, whose sessions run on a third node."""
    start = partial(cluster.start, PALIMPSEST_BROKER=redis.url)
    start("w", "worker")
    async with Client(start("a", "api").url) as a, Client(start("b", "api").url) as b:
        yield a, b


async def until_text(client: Client, session_id: str, text: str, last_event_id: int | None = None) -> list[Event]:
    """The events of a new stream until its deltas make this text."""
    events: list[Event] = []
    async with aclosing(client.events(session_id, last_event_id=last_event_id)) as stream:  # type: ignore[type-var]
        async for event in stream:
            events.append(event)
            deltas = of_type(events, "text.delta")
            if "".join(delta.data["text"] for delta in deltas) == text:
                return events
    raise AssertionError(events)


def assert_contiguous(events: list[Event]) -> None:
    """Deltas of one part: the first one from the part's beginning."""
    end = 0
    for delta in of_type(events, "text.delta"):
        assert delta.id is None
        assert delta.data["offset"] == end
        end += len(delta.data["text"])


async def test_open_text_is_seen_on_nodes_that_do_not_own_the_session(
    clients: tuple[Client, Client], provider: FakeProvider
) -> None:
    a, b = clients
    provider.script(Reply(Text("Hello 😀 "), Gate("one"), Text("𝒳 "), Gate("never"), Text("end")))
    made = await a.create("begin")
    await provider.reached("one")
    first = await until_text(b, made["id"], "Hello 😀 ")
    assert_contiguous(first)
    assert not of_type(first, "text.completed"), "it is still being written"
    seqs = [event.id for event in durable(first)]
    assert seqs == list(range(1, len(seqs) + 1))

    provider.open("one")
    again = await until_text(a, made["id"], "Hello 😀 𝒳 ", last_event_id=seqs[-1])
    assert_contiguous(again)
    assert not durable(again), "nothing was committed since"

    begun = time.monotonic()
    assert (await b.http.post(f"/v1/sessions/{made['id']}/cancel", json={})).status_code == 202
    await a.wait_for(made["id"], shows("session.idle"))
    assert time.monotonic() - begun < CANCEL_S
    [part] = of_type(await b.until_idle(made["id"]), "text.completed")
    assert (part.data["text"], part.data["interrupted"]) == ("Hello 😀 𝒳 ", True)
    assert (await b.session(made["id"]))["outcome"] == "cancelled"
    await assert_sound(a, made["id"])


async def test_lists_of_sessions_are_kept_fresh_on_every_node(
    clients: tuple[Client, Client], provider: FakeProvider
) -> None:
    a, b = clients
    provider.script(Reply(Text("Hello.")))
    async with b.http.stream("GET", "/v1/events") as response:
        made = await a.create("begin")
        await a.until_idle(made["id"])
        assert (await a.http.delete(f"/v1/sessions/{made['id']}")).status_code == 204
        types = []
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                types.append(line.removeprefix("event: "))
            if types[-1:] == ["session.deleted"]:
                break
    assert types[0] == "session.created"
    assert {"session.running", "session.idle"} <= set(types)
