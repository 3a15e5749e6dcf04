"""Limits of request bodies: size, minimum speed, and a total for all."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from app.api.archive_bodies import parts, spooled
from app.api.request_bodies import PACE, Bodies, Body
from app.errors import MalformedRequestError, ServerBusyError, TooLargeError


def sends(*pieces: bytes, ends: bool = True) -> Receive:
    """A client that sends these chunks; without an end it is silent afterwards."""
    left: Iterable[Any] = iter(enumerate(pieces, 1))

    async def receive() -> Message:
        for number, piece in left:
            return {"type": "http.request", "body": piece, "more_body": not ends or number < len(pieces)}
        return await asyncio.Future()

    return receive


async def read(body: Body) -> int:
    size = 0
    while True:
        message = await body.receive()
        size += len(message["body"])
        if not message["more_body"]:
            return size


async def test_memory_is_released_after_the_request() -> None:
    bodies = Bodies()
    body = Body(bodies, sends(b"12", b"345"), 5)
    assert await read(body) == 5
    assert bodies.held == 5
    body.release()
    body.release()
    assert bodies.held == 0


async def test_a_body_that_is_too_large_is_refused() -> None:
    body = Body(Bodies(), sends(b"12", b"345"), 4)
    with pytest.raises(TooLargeError):
        await read(body)


@pytest.mark.parametrize("is_kept", [True, False], ids=["in memory", "on the disk"])
async def test_a_body_that_does_not_fit_next_to_the_others_is_refused(is_kept: bool) -> None:
    bodies = Bodies(most=10 if is_kept else 0, most_on_disk=0 if is_kept else 10)
    await read(Body(bodies, sends(b"x" * 8), 100, is_kept=is_kept))
    second = Body(bodies, sends(b"xx", b"x"), 100, is_kept=is_kept)
    with pytest.raises(ServerBusyError) as refused:
        await read(second)
    assert refused.value.code == "too_many_bodies"
    second.release()
    assert (bodies.held, bodies.on_disk) == ((8, 0) if is_kept else (0, 8))


async def test_a_body_that_does_not_arrive_is_refused() -> None:
    body = Body(Bodies(grace_s=0.01), sends(b"x", ends=False), 100)
    with pytest.raises(MalformedRequestError, match="did not arrive in time"):
        await read(body)


async def test_received_bytes_extend_the_deadline() -> None:
    """A pause that would be too long by itself is fine after bytes that take a minute at the minimum speed."""
    ready, sent = asyncio.Event(), sends(b"x" * 60 * PACE, ends=False)

    async def receive() -> Message:
        if not ready.is_set():
            ready.set()
            return await sent()
        return {"type": "http.request", "body": b"", "more_body": False}

    body = Body(Bodies(grace_s=0.0001), receive, 2**30)
    with pytest.raises(MalformedRequestError):
        await read(Body(Bodies(grace_s=-1), sends(b"x", ends=False), 100))
    assert (await body.receive())["more_body"]
    assert await read(body) == 0


async def test_after_the_body_it_waits_for_the_end_of_the_connection() -> None:
    ended: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        for message in messages:
            return message
        return await ended

    body = Body(Bodies(grace_s=0.001), receive, 100)
    await read(body)
    waiting = asyncio.create_task(body.receive())
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    ended.set_result({"type": "http.disconnect"})
    assert (await waiting)["type"] == "http.disconnect"


async def test_a_large_body_is_parsed_off_the_event_loop(client: httpx.AsyncClient) -> None:
    """CPU time, which no load changes: the event loop's thread takes less of it than the one that parses."""
    body = b'{"tools": [' + b'{"a":{"b":{"c":1}}},' * 50_000 + b"1]}"
    of_loop, of_all = time.thread_time(), time.process_time()
    answer = await client.post("/v1/sessions", content=body, headers={"Content-Type": "application/json"})
    of_loop, of_all = time.thread_time() - of_loop, time.process_time() - of_all
    print(f"{of_loop * 1000:.0f} of {of_all * 1000:.0f} ms on the event loop")
    assert answer.json()["code"] == "invalid_json"
    assert of_loop < of_all / 2


def unnamed_files() -> list[str]:
    """The open temporary files of this process."""
    links = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            links.append(os.readlink(path))
    return [link for link in links if link.endswith("(deleted)")]


@pytest.mark.parametrize("end", [ClientDisconnect(), TooLargeError("too large")])
async def test_an_archive_that_does_not_arrive_leaves_no_file(end: Exception) -> None:
    before = unnamed_files()
    head = b'--b\r\nContent-Disposition: form-data; name="archive"; filename="a"\r\n\r\n'
    content_type = (b"content-type", b"multipart/form-data; boundary=b")
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [content_type], "query_string": b""}
    for reading in (lambda request: parts(request, 10, 10, AsyncExitStack()), spooled):
        pieces = iter([head + bytes(3_000_000)])

        async def receive(pieces: Iterator[bytes] = pieces) -> Message:
            for piece in pieces:
                return {"type": "http.request", "body": piece, "more_body": True}
            assert unnamed_files() != before
            raise end

        with pytest.raises(type(end)) as kept:  # and with it the frames that hold the file
            async with reading(Request(scope, receive)):
                pass
        assert unnamed_files() == before, kept
