"""Event streams: their encoding, and their behavior on a real server and a real socket."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import orjson
import pytest
import structlog
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from app.api.errors import MalformedEventIdError
from app.api.guard import ApiConfig
from app.api.main import create_app
from app.api.responses import MAX_SEQ, chunks, encode, start_after
from app.connection_limits import bounded
from app.errors import StorageError
from app.messages import new_id
from app.runtime.values.history import StreamItem
from app.sessions import Session, Status
from tests.unit.api.double import InMemoryService
from tests.unit.api.serving import Server, serving

Event = tuple[str | None, str, bytes]


def parse(stream: bytes) -> list[Event]:
    """A simple reader of the format: `(id, event, data)` of each block, without comments and `retry`. Each event's data
    must begin with its type and its seq."""
    events = []
    for block in stream.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields:
            data = orjson.loads(fields["data"])
            assert data.pop("type") == fields["event"]
            assert ("id" in fields) == ("seq" in data)
            assert str(data.pop("seq", None)) == fields.get("id", "None")
            events.append((fields.get("id"), fields["event"], orjson.dumps(data)))
    return events


items = st.lists(
    st.builds(
        StreamItem,
        type=st.sampled_from(["text.delta", "tool.call", "session.idle"]),
        seq=st.none() | st.integers(1, MAX_SEQ),
        data=st.dictionaries(st.text(max_size=3), st.text(max_size=20), min_size=1)
        .filter(lambda data: "seq" not in data)
        .map(orjson.dumps),
    )
)


@given(items)
def test_a_reader_gets_back_what_was_encoded(batch: list[StreamItem]) -> None:
    expected = [(None if item.seq is None else str(item.seq), item.type, item.data) for item in batch]
    assert parse(encode(batch)) == expected


LINE_ENDS = "a\u2028\u2029b\x85\x0b\x0c\x1cé€"


def test_what_other_clients_take_for_a_line_end_is_escaped() -> None:
    sent = encode([StreamItem("text.delta", None, orjson.dumps({"text": LINE_ENDS}))])
    assert sent.decode().splitlines() == sent.decode().split("\n")[:-1]
    assert parse(sent) == [(None, "text.delta", orjson.dumps({"text": LINE_ENDS}))]


@pytest.mark.parametrize("size", range(1, 12))
async def test_line_ends_are_escaped_wherever_a_large_event_is_cut(size: int) -> None:
    data = orjson.dumps({"text": LINE_ENDS})
    cuts = range(0, len(data), size)

    async def batches() -> AsyncIterator[list[StreamItem]]:
        for at in cuts:
            ends = at == cuts[-1]
            yield [StreamItem("text.completed", 1, data[at : at + size], begins=at == 0, ends=ends)]

    sent = b"".join([piece async for piece in chunks(batches(), 1000)])
    assert sent.decode().splitlines() == sent.decode().split("\n")[:-1]
    assert orjson.loads(sent.partition(b"data: ")[2])["text"] == LINE_ENDS


@pytest.mark.parametrize(
    ("after", "last_event_id", "start"),
    [
        (None, None, 0),
        ("0", None, 0),
        ("7", None, 7),
        (None, "9", 9),
        ("7", "9", 9),
        ("9", "7", 7),
        ("nonsense", "7", 7),
        ("007", None, 7),
        (str(MAX_SEQ), None, MAX_SEQ),
    ],
)
def test_start_of_a_stream(after: str | None, last_event_id: str | None, start: int) -> None:
    assert start_after(after, last_event_id) == start


@pytest.mark.parametrize(
    "given_id", ["", " ", "-1", "+1", "1.0", "1e3", "0x1", "1_000", "٣", "abc", "1 ", str(MAX_SEQ + 1), "9" * 40]
)
def test_invalid_event_ids(given_id: str) -> None:
    with pytest.raises(MalformedEventIdError):
        start_after(given_id, None)
    with pytest.raises(MalformedEventIdError):
        start_after("1", given_id)


async def test_errors_come_before_the_stream(client: httpx.AsyncClient, session: Session) -> None:
    path = f"/v1/sessions/{session.id}/events"
    cases = [
        (await client.get(f"{path}?after=-1"), 400, "malformed_event_id"),
        (await client.get(path, headers={"Last-Event-ID": "x"}), 400, "malformed_event_id"),
        (await client.get(f"{path}?after=2"), 409, "ahead_of_log"),
        (await client.get(f"{path}?after=0", headers={"Last-Event-ID": "2"}), 409, "ahead_of_log"),
        (await client.get(f"{path}?until=later"), 422, "validation_error"),
        (await client.get(f"/v1/sessions/{new_id()}/events"), 404, "session_not_found"),
        (await client.get("/v1/sessions/x/events"), 404, "session_not_found"),
    ]
    for answer, status, code in cases:
        assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_until_idle_ends_at_once_if_no_run_is_active(
    client: httpx.AsyncClient, session: Session, service: InMemoryService
) -> None:
    await service.finish(session.id)
    answer = await client.get(f"/v1/sessions/{session.id}/events?until=idle")
    data = b'{"type":"session.created","seq":1,"n":1}'
    assert answer.content == b"retry: 1000\nid: 1\nevent: session.created\ndata: %b\n\n" % data
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-accel-buffering"] == "no"
    assert service.readers == 0


async def test_a_stream_without_events_is_no_content(
    client: httpx.AsyncClient, session: Session, service: InMemoryService
) -> None:
    await service.finish(session.id)
    answer = await client.get(f"/v1/sessions/{session.id}/events?until=idle&after=1")
    assert (answer.status_code, answer.content) == (204, b"")
    assert service.readers == 0


async def test_last_event_id_wins_over_after(
    client: httpx.AsyncClient, session: Session, service: InMemoryService
) -> None:
    more = StreamItem("plan.updated", 2, b'{"n":2}'), StreamItem("session.idle", 3, b'{"n":3}')
    await service.append(session.id, *more)
    await service.finish(session.id)
    path = f"/v1/sessions/{session.id}/events?until=idle&after=0"
    answer = await client.get(path, headers={"Last-Event-ID": "2"})
    assert parse(answer.content) == [("3", "session.idle", b'{"n":3}')]


async def test_streaming_a_new_session_requires_a_task(client: httpx.AsyncClient, service: InMemoryService) -> None:
    answer = await client.post("/v1/sessions", json={}, headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.json()["code"]) == (422, "task_required")
    assert service.sessions == {}


async def test_a_new_session_is_followed_until_idle(server: Server, service: InMemoryService) -> None:
    async with (
        httpx.AsyncClient(base_url=server.url) as client,
        client.stream(
            "POST", "/v1/sessions", json={"task": "Say hello."}, headers={"Accept": "text/event-stream"}
        ) as answer,
    ):
        session_id = answer.headers["session-id"]
        assert (answer.status_code, answer.headers["location"]) == (200, f"/v1/sessions/{session_id}")
        await service.append(session_id, StreamItem("text.delta", None, b'{"n":2}'))
        await service.finish(session_id)
        received = parse(await answer.aread())
    assert received == [("1", "session.created", b'{"n":1}'), (None, "text.delta", b'{"n":2}')]


async def test_a_reader_that_leaves_ends_its_subscription_but_not_the_run(
    server: Server, service: InMemoryService
) -> None:
    async with (
        httpx.AsyncClient(base_url=server.url) as client,
        client.stream(
            "POST", "/v1/sessions", json={"task": "Say hello."}, headers={"Accept": "text/event-stream"}
        ) as answer,
    ):
        session_id = answer.headers["session-id"]
        await service.wait_for_readers(1)
    async with asyncio.timeout(60):
        await service.wait_for_readers(0)
    assert service.sessions[session_id].status is Status.RUNNING


async def test_events_of_all_sessions_come_without_ids(server: Server, service: InMemoryService) -> None:
    async with (
        httpx.AsyncClient(base_url=server.url) as client,
        client.stream("GET", "/v1/events") as answer,
    ):
        assert service.readers == 1
        await service.append("all", StreamItem("session.updated", None, b'{"n":1}'))
        received = b""
        async for chunk in answer.aiter_bytes():
            received += chunk
            if b"session.updated" in received:
                break
    assert received == b'retry: 1000\nevent: session.updated\ndata: {"type":"session.updated","n":1}\n\n'


async def test_a_quiet_stream_gets_a_comment_every_five_seconds(service: InMemoryService) -> None:
    waited: list[float] = []
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) > 2:
            await over.wait()

    async with (
        serving(create_app(ApiConfig(sleep=sleep), services=service.services)) as server,
        httpx.AsyncClient(base_url=server.url) as client,
        client.stream("GET", "/v1/events") as answer,
    ):
        received = b""
        async for chunk in answer.aiter_bytes():
            received += chunk
            if received.count(b": ping\n\n") == 2:
                break
    assert received == b": ping\n\n: ping\n\n"
    assert waited == [5, 5, 5]


@pytest.mark.parametrize("next_send", ["event", "comment"])
async def test_a_stalled_reader_is_disconnected(
    next_send: str, service: InMemoryService, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(ApiConfig(ping_s=0.3 if next_send == "comment" else 15), services=service.services)
    large = StreamItem("tool.result", 2, b'"' + b"x" * 32 * 1024 * 1024 + b'"')
    async with serving(app, http=bounded(100, stalled_s=0.2)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as reader:
            reader.sendall(f"GET /v1/sessions/{session.id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await service.wait_for_readers(1)
            await service.append(session.id, large)
            async with asyncio.timeout(60):
                await service.wait_for_sent(session.id)
                if next_send == "event":
                    await service.append(session.id, StreamItem("session.idle", 3, b"{}"))
                await service.wait_for_readers(0)
                await asyncio.gather(*server.server_state.tasks)
            assert server.server_state.connections == set()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_server_that_stops_ends_its_streams_properly(
    app: FastAPI, service: InMemoryService, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(app) as server,
        httpx.AsyncClient(base_url=server.url) as client,
        client.stream("GET", f"/v1/sessions/{session.id}/events") as answer,
    ):
        await service.wait_for_readers(1)
        server.should_exit = True
        async with asyncio.timeout(60):
            received = await answer.aread()
            await service.wait_for_readers(0)
    assert parse(received) == [("1", "session.created", b'{"n":1}')]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("life", [1, 2])
async def test_streams_work_on_one_server_after_another(service: InMemoryService, session: Session, life: int) -> None:
    await service.finish(session.id)
    for _ in range(2):
        async with (
            serving(create_app(ApiConfig(), services=service.services)) as server,
            httpx.AsyncClient(base_url=server.url) as client,
        ):
            answer = await client.get(f"/v1/sessions/{session.id}/events?until=idle")
            assert len(parse(answer.content)) == 1


async def test_a_stream_that_fails_is_cut_off_and_logged(
    server: Server, service: InMemoryService, session: Session
) -> None:
    async with httpx.AsyncClient(base_url=server.url) as client:
        async with client.stream("GET", f"/v1/sessions/{session.id}/events?until=idle") as answer:
            await service.wait_for_readers(1)
            with structlog.testing.capture_logs() as logs:
                del service.sessions[session.id]
                await service.append(session.id)
                with pytest.raises(httpx.RemoteProtocolError):
                    await answer.aread()
        await service.wait_for_readers(0)
        assert [entry["event"] for entry in logs] == ["request_failed", "request"]
        assert (await client.get("/healthz")).status_code == 200


async def test_streams_that_lose_the_database_are_cut_off_in_one_line(
    server: Server, service: InMemoryService, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    async with httpx.AsyncClient(base_url=server.url) as client, AsyncExitStack() as streams:
        url = f"/v1/sessions/{session.id}/events"
        answers = [await streams.enter_async_context(client.stream("GET", url)) for _ in range(3)]
        await service.wait_for_readers(3)
        with structlog.testing.capture_logs() as logs:
            service.fault = StorageError("The database cannot be read.")
            async with service.changed:
                service.changed.notify_all()
            for answer in answers:
                with pytest.raises(httpx.RemoteProtocolError):
                    await answer.aread()
            await service.wait_for_readers(0)
    (told,) = [entry for entry in logs if entry["event"] != "request"]
    assert (told["event"], told["code"], told.get("exc_info")) == ("answer_cut_off", "storage_unavailable", None)
    assert caplog.records == []


async def test_a_disconnect_during_the_request_is_not_an_error(
    server: Server, service: InMemoryService, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with structlog.testing.capture_logs() as logs:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = f"PUT /v1/sessions/{session.id}/files/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf"
        writer.write(head.encode())
        async with httpx.AsyncClient(base_url=server.url) as client:
            await client.get("/healthz")
        (upload,) = server.server_state.tasks
        writer.close()
        await upload
    assert [entry["event"] for entry in logs if entry["path"] != "/healthz"] == ["client_disconnected", "request"]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
