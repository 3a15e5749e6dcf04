"""The client against invalid responses, and without a server."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from app.cli.client import Client, ServerEvent, Target
from app.cli.following import show_all
from app.cli.screen import CliError, ConnectionLostError, NoServerError, ServerRefusedError, SessionDeletedError

PROBLEM = {"code": "forbidden", "detail": "Not so.", "status": 403}


def answer(status: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def as_json(value: Any, status: str = "200 OK") -> bytes:
    return answer(status, orjson.dumps(value))


def stream(*events: tuple[int, str, dict[str, Any]]) -> bytes:
    text = "".join(f"id: {seq}\nevent: {name}\ndata: {orjson.dumps(data).decode()}\n\n" for seq, name, data in events)
    return answer("200 OK", text.encode(), "text/event-stream")


@asynccontextmanager
async def client_of(*answers: bytes) -> AsyncIterator[tuple[Client, list[str], list[str]]]:
    """A client of a server that sends these responses in order, with the requests' heads and the client's notices."""
    waiting = list(answers)
    heads: list[str] = []
    notices: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(waiting.pop(0))
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        async with Client(Target(url, "the-key"), notices.append) as client:
            yield client, heads, notices


async def test_a_problem_keeps_its_code_and_sentence() -> None:
    async with client_of(as_json(PROBLEM, "403 Forbidden")) as (client, heads, _):
        with pytest.raises(ServerRefusedError, match=r"Not so\.") as caught:
            await client.session("x")
    assert caught.value.code == "forbidden"
    assert heads[0].startswith("GET /v1/sessions/x HTTP/1.1\r\n")
    assert "authorization: bearer the-key\r\n" in heads[0].lower()


async def test_a_key_may_have_any_characters() -> None:
    async with client_of(as_json({})) as (client, heads, _), Client(Target(client.url, "schlüssel")) as other:
        await other.session("x")
    assert "bearer schlüssel\r\n" in heads[0].lower()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
async def test_an_error_without_a_problem_document_names_its_status(body: bytes) -> None:
    async with client_of(answer("502 Bad Gateway", body, "text/html")) as (client, _, _):
        with pytest.raises(ServerRefusedError, match=r"The server responded with status 502\.") as caught:
            await client.session("x")
    assert caught.value.code == "http_502"


async def test_another_program_is_recognized() -> None:
    async with client_of(answer("200 OK", b"<html>hello", "text/html")) as (client, _, _):
        with pytest.raises(CliError) as caught:
            await client.session("x")
    assert caught.value.code == "not_palimpsest"


async def test_an_absent_server_is_reported_with_its_address() -> None:
    async with Client(Target("http://127.0.0.1:1")) as client:
        with pytest.raises(NoServerError, match=r"No server answers at http://127\.0\.0\.1:1 "):
            await client.session("x")
        with pytest.raises(NoServerError):
            await client.download("x", _Nowhere())  # type: ignore[arg-type]


class _Nowhere:
    def write(self, data: bytes) -> None:
        raise AssertionError("nothing was to be written")


async def test_a_lost_connection_is_not_reported_as_an_absent_server() -> None:
    cut_off = answer("200 OK", b"x" * 99, "application/x-tar").replace(b"Content-Length: 99", b"Content-Length: 100")
    async with client_of(cut_off, cut_off) as (client, _, _):
        with pytest.raises(ConnectionLostError, match=r"was lost before all files arrived: .*99 bytes") as caught:
            await client.download("x", io.BytesIO())
        assert caught.value.code == "connection_lost"
        with pytest.raises(ConnectionLostError, match="was lost before the response arrived: "):
            await client.session("x")


async def test_pages_are_read_until_there_are_enough() -> None:
    pages = [
        as_json({"items": [{"id": "a"}, {"id": "b"}], "next_cursor": "c1"}),
        as_json({"items": [{"id": "c"}], "next_cursor": "c2"}),
    ]
    async with client_of(*pages) as (client, heads, _):
        assert [item["id"] async for item in client.sessions(3, status=None, q="x y")] == ["a", "b", "c"]
    assert heads[0].startswith("GET /v1/sessions?q=x+y&limit=3 HTTP")
    assert heads[1].startswith("GET /v1/sessions?q=x+y&cursor=c1&limit=1 HTTP")


async def test_a_stream_that_ends_early_is_resumed_after_its_last_event() -> None:
    starting = {"code": "unavailable", "detail": "The server is starting or stopping."}
    async with client_of(
        stream((1, "a", {}), (2, "b", {})),
        as_json({"status": "running", "last_seq": 2}),
        as_json(starting, "503 Service Unavailable"),
        stream((3, "c", {})),
        as_json({"status": "idle", "last_seq": 3}),
    ) as (client, heads, notices):
        events = [event async for event in client.follow("x")]
    assert [event.id for event in events] == [1, 2, 3]
    assert "last-event-id: 2\r\n" in heads[3].lower()
    assert notices == [
        "connection lost, reconnecting (1 of 5): the server ended the stream",
        "connection lost, reconnecting (2 of 5): The server is starting or stopping.",
    ]


GONE = as_json({"code": "session_not_found", "detail": "There is no session with this id."}, "404 Not Found")


@pytest.mark.parametrize(
    ("answers", "events"),
    [
        ((stream((1, "a", {}), (2, "session.deleted", {})),), 2),
        ((stream((1, "a", {})), GONE), 1),
        ((stream((1, "a", {})), as_json({"status": "running", "last_seq": 1}), GONE), 1),
    ],
    ids=["it says so", "it is gone at the end", "it is gone after a reconnection"],
)
async def test_a_session_that_is_deleted_while_it_is_followed(answers: tuple[bytes, ...], events: int) -> None:
    shown: list[ServerEvent] = []
    async with client_of(*answers) as (client, heads, _):
        with pytest.raises(SessionDeletedError, match="Session x was deleted while it was followed"):
            await show_all(client.follow("x"), shown.append)
    assert (len(shown), len(heads)) == (events, len(answers))


async def test_an_unknown_session_is_not_retried() -> None:
    async with client_of(GONE) as (client, heads, notices):
        with pytest.raises(ServerRefusedError):
            _ = [event async for event in client.follow("x")]
    assert (len(heads), notices) == (1, [])
