"""Event streams: readers that reconnect, join late, or read in parallel end with the same state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, durable, of_type, read_events
from tests.behavior.replica import Replica
from tests.behavior.stories import Story, turns
from tests.databases import in_cluster
from tests.provider import FakeProvider, Gate, Interleaved, Reasoning, Reply, Reset, StreamError, Text, ToolCall

pytestmark = pytest.mark.shared_server

SHARED_SERVER = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
"""Examples share the server; each has its own sessions."""

RICH = (
    Reply(Reasoning("erst denken 😀", chunks=6), Text("Ich beginne 𝒳 ", chunks=4), StreamError()),
    Reply(
        Reasoning("nochmal denken", chunks=7),
        Text("Ich beginne 𝒳 jetzt wirklich 😀😀", chunks=9),
        Interleaved(
            ToolCall("list_directory", {"path": "."}, chunks=4),
            ToolCall("read_file", {"path": "nichts"}, chunks=3),
            ToolCall("no_such_tool", {"a": "😀" * 5}, chunks=5),
        ),
        pace=300,
    ),
    Reply(
        Text("abgebrochen", chunks=3),
        ToolCall("write_file", {"path": "a", "content": "never"}, chunks=3),
        Reset(),
    ),
    Reply(
        ToolCall("execute_command", {"command": "for i in 1 2 3 4 5; do echo zeile $i; sleep 0.02; done"}, chunks=2),
        ToolCall("update_plan", {"items": [{"text": "fertig 😀"}]}, chunks=4),
    ),
    Reply(Reasoning("zum Schluss"), Text("Fertig. " * 20, chunks=60), pace=300),
)
"""Two retried attempts, reasoning, interleaved and plain calls, live output, a plan, characters beyond 16 bits."""


async def read(
    client: Client,
    session_id: str,
    replica: Replica,
    count: int | None = None,
    begun: asyncio.Event | None = None,
    **params: Any,
) -> bool:
    """Feeds a replica from one connection, for `count` events or to the end of the stream; returns whether the stream
    ended. `begun` is set with the first event."""
    replica.connect()
    async with aclosing(client.events(session_id, **params)) as events:  # type: ignore[type-var]
        async for event in events:
            replica.apply(event)
            if begun is not None:
                begun.set()
            count = None if count is None else count - 1
            if count == 0:
                return False
    return True


async def keep_leaving(client: Client, session_id: str, counts: list[int]) -> Replica:
    """A reader that disconnects after `counts` events each time, durable or live, and resumes with `Last-Event-ID`."""
    replica = Replica()
    place = 0
    while not await read(
        client, session_id, replica, counts[place % len(counts)], last_event_id=replica.last_seq, until_idle=True
    ):
        place += 1
    return replica


async def stored(client: Client, session_id: str) -> dict[str, Any]:
    """The API's state of an idle session, in the form of a replica."""
    replica = Replica()
    session = await client.session(session_id)
    queue = await client.get(f"/v1/sessions/{session_id}/queue")
    replica.load(session, await client.messages(session_id), queue, session["last_seq"])
    return replica.view


def texts(replica: Replica) -> list[tuple[str, str]]:
    return [(e.data["part_id"], e.data["text"]) for e in of_type(replica.log, "text.completed", "reasoning.completed")]


@asynccontextmanager
async def opened(client: Client, path: str, **params: Any) -> AsyncIterator[httpx.Response]:
    """A stream whose subscription is active: its first line has arrived."""
    async with client.http.stream("GET", path, params=params) as response:
        assert response.status_code == 200
        yield response


# disconnecting and reconnecting


@first_of(model=[OPENAI, ANTHROPIC])
async def test_readers_that_reconnect_anywhere_end_with_the_state_of_a_steady_one(
    client: Client, provider: FakeProvider, model: str
) -> None:
    provider.script(Reply(Text("x"), Gate("start")), *RICH)
    session_id = (await client.create("go", model=model))["id"]
    await provider.reached("start")
    steady = Replica()

    async with asyncio.TaskGroup() as readers:
        steady_reader = readers.create_task(read(client, session_id, steady, until_idle=True))
        restless = [
            readers.create_task(keep_leaving(client, session_id, counts)) for counts in ([1], [2], [3, 1], [7], [1, 20])
        ]
        await client.post(session_id, "weiter")
        provider.open("start")

    assert steady_reader.result()
    assert len(of_type(steady.log, "step.retrying")) == 2
    for reader in restless:
        assert reader.result().view == steady.view
        assert texts(reader.result()) == texts(steady)
        assert [(e.id, e.type, e.data) for e in reader.result().log] == [(e.id, e.type, e.data) for e in steady.log]
    assert await stored(client, session_id) == steady.view
    assert provider.broken == []


@pytest.mark.extended
@pytest.mark.slow
@settings(SHARED_SERVER, max_examples=6)
@given(data=st.data())
async def test_any_story_is_the_same_for_steady_and_reconnecting_readers(
    client: Client, provider: FakeProvider, data: st.DataObject
) -> None:
    scripts = data.draw(st.lists(st.lists(turns(), min_size=1, max_size=4), min_size=2, max_size=4))
    counts = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    stories = [
        Story(f"story-{len(provider.requests)}-{number}.", tuple(script), (OPENAI, ANTHROPIC)[number % 2])
        for number, script in enumerate(scripts)
    ]

    async def tell(story: Story) -> None:
        provider.script_for(story.name, *story.answers)
        session_id = (await client.create(f"{story.name} go", model=story.model))["id"]
        steady = Replica()
        _, restless = await asyncio.gather(
            read(client, session_id, steady, until_idle=True), keep_leaving(client, session_id, counts)
        )
        assert restless.view == steady.view
        assert [event.data for event in restless.log] == [event.data for event in steady.log]
        assert await stored(client, session_id) == steady.view

    async with asyncio.TaskGroup() as sessions:
        for story in stories:
            sessions.create_task(tell(story))
    assert provider.broken == []


async def test_the_log_replays_the_same_from_every_seq(client: Client, provider: FakeProvider) -> None:
    provider.script(*RICH)
    session, events = await client.run("go")
    whole = durable(events)
    assert [event.id for event in whole] == list(range(1, session["last_seq"] + 1))

    for cut in range(session["last_seq"] + 1):
        rest = await client.until_idle(session["id"], after=cut)
        assert rest == whole[cut:]


async def test_live_text_is_the_closing_text_and_ends_with_it(client: Client, provider: FakeProvider) -> None:
    """Read by a single connection, whose replica checks each offset."""
    text = "😀a𝒳é" * 200
    provider.script(Reply(Text(text, chunks=100), Gate("hold"), Text("!")))
    session_id = (await client.create("go"))["id"]
    replica = Replica()
    replica.connect()
    async with aclosing(client.events(session_id, until_idle=True)) as events:  # type: ignore[type-var]
        async for event in events:
            replica.apply(event)
            if list(replica.live.values()) == [text]:
                provider.open("hold")

    [closing] = of_type(replica.log, "text.completed")
    assert closing.data["text"] == text + "!"


async def test_a_reader_in_the_middle_of_a_part_gets_it_from_its_beginning(
    client: Client, provider: FakeProvider
) -> None:
    provider.script(
        Reply(
            Reasoning("denke 😀", chunks=3),
            Text("Hälfte 𝒳 ", chunks=3),
            Gate("half"),
            Text("ganz"),
            ToolCall("list_directory", {"path": "."}, pause=Gate("arguments"), chunks=3),
        )
    )
    session_id = (await client.create("go"))["id"]
    await provider.reached("half")

    late = await client.wait_for(session_id, lambda e: e.type == "text.delta" and len(e.data["text"]) == 9)
    assert (late.data["offset"], late.data["text"]) == (0, "Hälfte 𝒳 ")
    again = await client.wait_for(session_id, lambda e: e.id is None, after=late.data["offset"] + 3)
    assert again.data["offset"] == 0
    provider.open("half")
    await provider.reached("arguments")
    call = await client.wait_for(session_id, lambda e: e.type == "tool.arguments")
    assert (call.data["offset"], call.data["name"]) == (0, "list_directory")
    provider.open("arguments")
    done = of_type(await client.until_idle(session_id), "text.completed")
    assert done[0].data["text"] == "Hälfte 𝒳 ganz"


async def test_live_output_of_a_tool_is_a_preview_that_its_result_replaces(
    client: Client, provider: FakeProvider
) -> None:
    command = "head -c 200000 /dev/zero | tr '\\0' x; echo ende >&2; while [ ! -e weiter ]; do sleep 0.02; done"
    provider.script(Reply(ToolCall("execute_command", {"command": command, "timeout_s": 60})))
    session_id = (await client.create("go"))["id"]

    def ended(event: Event) -> bool:
        return event.type == "tool.output" and event.data["text"].endswith("ende\n")

    early = await client.wait_for(session_id, ended)
    assert early.data["stream"] == "stderr"
    late: list[Event] = []
    async with aclosing(client.events(session_id)) as events:  # type: ignore[type-var]
        async for event in events:
            late += [event] if event.type == "tool.output" else []
            if ended(event):
                break
    shown = sum(len(event.data["text"]) for event in late)
    assert 64 * 1024 <= shown < 200_005, "the last 64 KiB at least, and not all of it"
    assert late[0].data["offset"] + shown == 200_005
    assert len(early.data) == len(late[0].data)

    response = await client.http.put(f"/v1/sessions/{session_id}/files/weiter", content=b"")
    assert response.is_success
    replica = Replica()
    await read(client, session_id, replica, until_idle=True)
    assert replica.previews == {}
    [result] = of_type(replica.log, "tool.result")
    assert (result.data["status"], result.data["bytes"], result.data["truncated"]) == ("completed", 200_005, True)


# how a stream starts and ends


async def test_it_starts_with_the_reconnection_delay(client: Client, provider: FakeProvider) -> None:
    session, _ = await client.run("go")
    async with opened(client, f"/v1/sessions/{session['id']}/events", until="idle") as response:
        body = (await response.aread()).decode()
        assert response.headers["content-type"].startswith("text/event-stream")
    start = "retry: 1000\nid: 1\nevent: session.created\ndata: "
    assert body.startswith(start + '{"type":"session.created","seq":1,')
    assert body.count("retry:") == 1


@pytest.mark.parametrize(
    ("query", "header", "status", "code"),
    [
        ("", "x", 400, "malformed_event_id"),
        ("", "-1", 400, "malformed_event_id"),
        ("", "", 400, "malformed_event_id"),
        ("?after=1.5", None, 400, "malformed_event_id"),
        ("?after=99999999999999999999", None, 400, "malformed_event_id"),
        ("?after=5000", None, 409, "ahead_of_log"),
        ("?after=0", "5000", 409, "ahead_of_log"),
        ("?after=5000", "1", 200, None),
        ("?after=x", "1", 200, None),
    ],
)
async def test_where_to_start_is_checked_and_the_header_wins(
    client: Client, provider: FakeProvider, query: str, header: str | None, status: int, code: str | None
) -> None:
    session, events = await client.run("go")
    headers = {"Last-Event-ID": header} if header is not None else {}
    path = f"/v1/sessions/{session['id']}/events{query}{'&' if query else '?'}until=idle"

    response = await client.http.get(path, headers=headers)

    assert response.status_code == status
    if status == 200:
        assert response.text.split("\n")[1] == "id: 2"
        assert response.text.count("\nid: ") == len(durable(events)) - 1
    else:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["code"] == code


async def test_the_stream_of_an_unknown_session_is_a_problem(client: Client) -> None:
    response = await client.http.get("/v1/sessions/0197a8a0-0000-7000-8000-000000000000/events")
    assert (response.status_code, response.json()["code"]) == (404, "session_not_found")


async def test_until_idle_ends_at_once_where_nothing_runs(client: Client) -> None:
    session_id = (await client.create())["id"]
    async with asyncio.timeout(60):
        events = await client.until_idle(session_id)
        assert [event.type for event in events] == ["session.created"]
        response = await client.http.get(f"/v1/sessions/{session_id}/events", params={"until": "idle", "after": 1})
        assert (response.status_code, response.content) == (204, b""), "so that EventSource stops"


async def test_until_idle_continues_into_the_following_run(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("one"), Gate("one")), Reply(Text("two")), Reply(Text("three")))
    session_id = (await client.create("go"))["id"]
    await provider.reached("one")
    for text in ("second", "third"):
        await client.post(session_id, text, "follow_up")
    reader = asyncio.create_task(client.until_idle(session_id))
    provider.open("one")

    events = await reader
    assert [e.data["text"] for e in of_type(events, "text.completed")] == ["one", "two", "three"]
    assert len(of_type(events, "session.idle")) == len(of_type(events, "session.running")) == 3
    assert events[-1].type == "session.idle"


async def held_session(client: Client, provider: FakeProvider) -> tuple[str, str]:
    """A cancelled session with one message held."""
    provider.script(Reply(Text("x"), Gate("never")))
    session_id = (await client.create("go"))["id"]
    await provider.reached("never")
    message_id = (await client.post(session_id, "later", "follow_up"))["id"]
    await client.http.post(f"/v1/sessions/{session_id}/cancel")
    async with asyncio.timeout(60):
        events = await client.until_idle(session_id)
    assert of_type(events, "session.idle")[0].data["outcome"] == "cancelled"
    return session_id, message_id


@pytest.mark.parametrize("change", ["nothing", "edit", "withdraw", "patch"])
async def test_until_idle_does_not_wait_for_messages_that_are_held(
    client: Client, provider: FakeProvider, change: str
) -> None:
    session_id, message_id = await held_session(client, provider)
    path = f"/v1/sessions/{session_id}"
    if change == "edit":
        await client.http.patch(f"{path}/queue/{message_id}", json={"content": "other"})
    elif change == "withdraw":
        await client.http.delete(f"{path}/queue/{message_id}")
    elif change == "patch":
        await client.http.patch(path, json={"title": "new"})

    async with asyncio.timeout(60):
        events = await client.until_idle(session_id)
        assert await client.until_idle(session_id, after=events[-1].id) == []
    queue = await client.get(f"{path}/queue")
    assert len(queue["items"]) == (0 if change == "withdraw" else 1)


async def test_until_idle_ends_if_the_waiting_message_is_withdrawn(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("x"), Gate("hold")))
    session_id = (await client.create("go"))["id"]
    await provider.reached("hold")
    message_id = (await client.post(session_id, "later", "follow_up"))["id"]
    reader = asyncio.create_task(client.until_idle(session_id))
    assert (await client.http.delete(f"/v1/sessions/{session_id}/queue/{message_id}")).status_code == 204
    provider.open("hold")

    async with asyncio.timeout(60):
        events = await reader
    assert [e.data["outcome"] for e in of_type(events, "session.idle")] == ["completed"]


async def test_a_session_can_be_made_and_followed_in_one_request(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("hello 😀", chunks=3)))
    headers = {"Accept": "text/event-stream"}
    async with client.http.stream("POST", "/v1/sessions", json={"task": "go"}, headers=headers) as response:
        assert response.status_code == 200
        session_id = response.headers["Session-Id"]
        replica = Replica()
        async for event in read_events(response):
            replica.apply(event)

    assert [event.type for event in replica.log][:3] == ["session.created", "message.queued", "session.running"]
    assert replica.view == await stored(client, session_id)
    no_task = await client.http.post("/v1/sessions", json={}, headers=headers)
    assert (no_task.status_code, no_task.json()["code"]) == (422, "task_required")


async def test_a_reader_that_leaves_does_not_stop_the_run(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), Gate("hold"), Text(" whole")))
    headers = {"Accept": "text/event-stream"}
    async with client.http.stream("POST", "/v1/sessions", json={"task": "go"}, headers=headers) as response:
        session_id = response.headers["Session-Id"]
        await provider.reached("hold")
    provider.open("hold")

    events = await client.until_idle(session_id)
    assert [e.data["text"] for e in of_type(events, "text.completed")] == ["half whole"]
    assert provider.client_left == 0


@pytest.mark.parametrize("running", [False, True])
async def test_a_deleted_session_ends_its_streams_with_an_event(
    client: Client, provider: FakeProvider, running: bool
) -> None:
    provider.script(Reply(Text("x"), Gate("never")) if running else Reply(Text("x")))
    session_id = (await client.create("go"))["id"]
    if running:
        await provider.reached("never")
    else:
        await client.until_idle(session_id)
    replicas = [(Replica(), asyncio.Event()) for _ in range(3)]
    readers = [asyncio.create_task(read(client, session_id, r, begun=begun)) for r, begun in replicas]
    for _, begun in replicas:
        await begun.wait()

    assert (await client.http.delete(f"/v1/sessions/{session_id}")).status_code == 204

    async with asyncio.timeout(60):
        assert await asyncio.gather(*readers) == [True] * 3
    assert all(replica.deleted and replica.log[-1].type == "session.deleted" for replica, _ in replicas)
    assert (await client.http.get(f"/v1/sessions/{session_id}/events")).status_code == 404


async def test_a_server_that_stops_ends_its_streams_properly(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script(Reply(Text("x"), Gate("never")))
    server = start_server()
    async with Client(server.url) as client:
        session_id = (await client.create("go"))["id"]
        await provider.reached("never")
        begun = asyncio.Event()
        one = asyncio.create_task(read(client, session_id, Replica(), begun=begun))
        async with opened(client, "/v1/events") as everything:
            await begun.wait()
            await asyncio.to_thread(server.stop)
            # A connection that was cut would raise here.
            assert await one
            assert [event async for event in read_events(everything)] == []


# all sessions


async def test_a_list_of_sessions_stays_current(client: Client, provider: FakeProvider) -> None:
    await client.run("before")
    async with opened(client, "/v1/events") as response:
        first = await client.create(title="first")
        second = await client.create("second")
        await client.until_idle(second["id"])
        await client.change(first["id"], title="renamed")
        await client.http.delete(f"/v1/sessions/{second['id']}")
        seen: list[Event] = []
        async for event in read_events(response):
            seen.append(event)
            if {"session.updated", "session.deleted"} <= {each.type for each in seen}:
                break

    assert {event.id for event in seen} == {None}
    document = await client.get("/openapi.json")
    for event in seen:
        schema = {"$ref": f"#/components/schemas/{event.type}", "components": document["components"]}
        jsonschema.validate(event.data, schema)
    # On their way between nodes, events of different sessions may change places.
    if not in_cluster():
        order = [(each.data["session_id"], each.type) for each in seen]
        assert order[3:] == [
            (second["id"], "session.idle"),
            (first["id"], "session.updated"),
            (second["id"], "session.deleted"),
        ]
    of_each = {id: [e.type for e in seen if e.data["session_id"] == id] for id in (first["id"], second["id"])}
    assert of_each == {
        first["id"]: ["session.created", "session.updated"],
        second["id"]: ["session.created", "session.running", "session.idle", "session.deleted"],
    }
    assert len(seen) == 6
    [updated] = of_type(seen, "session.updated")
    assert updated.data["session"]["title"] == "renamed"

    renamed = await client.change(first["id"], title="renamed while nobody listens")
    third = await client.create(title="third")
    await client.http.delete(f"/v1/sessions/{third['id']}")
    async with opened(client, "/v1/events", after=updated.data["cursor"]) as response:
        missed: dict[tuple[str, str], Event] = {}
        async for event in read_events(response):
            missed[event.data["session_id"], event.type] = event
            if event.data["session_id"] == third["id"]:
                break
    assert missed[first["id"], "session.updated"].data["session"]["title"] == renamed["title"]
    assert missed[first["id"], "session.updated"].data["seq"] == renamed["last_seq"]
    assert {(second["id"], "session.deleted"), (third["id"], "session.deleted")} <= set(missed)


async def test_a_cursor_of_all_sessions_is_checked(client: Client) -> None:
    for cursor, status, code in (("nonsense", 400, "malformed_cursor"), ("19a", 410, "cursor_expired")):
        refused = await client.http.get("/v1/events", params={"after": cursor})
        assert (refused.status_code, refused.json()["code"]) == (status, code)
