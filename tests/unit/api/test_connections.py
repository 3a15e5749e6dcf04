"""How much of a response a connection holds for a stalled reader."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

from starlette.types import Receive, Scope, Send

from app.connection_limits import DIRECT_BODY, MAX_UNSENT_BYTES, ChunkedBody, bounded
from tests.unit.api.serving import serving

CHUNK = b"x" * 1_000


async def test_a_response_waits_until_the_kernel_accepts_more() -> None:
    """After the first chunk that the kernel refuses, the server holds no second one, so a stalled reader is noticed
    however little is left for it."""
    is_over = False

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000000000")]})
        while not is_over:
            await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
            await asyncio.sleep(0)

    async with serving(endless, http=bounded(10, stalled_s=0.2)) as server:  # type: ignore[arg-type]
        with socket.create_connection(("127.0.0.1", server.port)) as reader:
            reader.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            most = 0
            async with asyncio.timeout(60):
                while not server.server_state.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                (connection,) = server.server_state.connections
                while server.server_state.connections:
                    most = max(most, connection.transport.get_write_buffer_size())
                    await asyncio.sleep(0)
            is_over = True
            assert 0 < most <= 2 * len(CHUNK)


async def test_unread_responses_are_bounded_in_total() -> None:
    """Responses written at once wait in memory in full. Some of their connections are closed for others."""
    size, readers = 8 * 2**20, 32

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": b"x" * size})

    async with serving(large, http=bounded(100)) as server, AsyncExitStack() as stack:  # type: ignore[arg-type]
        most = 0
        for _ in range(readers):
            reader = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            reader.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            for _ in range(100):
                await asyncio.sleep(0)
            open_ones = [connection.transport for connection in server.server_state.connections]
            most = max(most, sum(transport.get_write_buffer_size() for transport in open_ones))
        assert MAX_UNSENT_BYTES / 2 < most <= MAX_UNSENT_BYTES + size


async def test_a_body_is_written_directly_while_its_response_is_open_and_its_reader_keeps_up() -> None:
    seen: list[bool] = []
    bodies: list[ChunkedBody] = []
    is_paused = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body: ChunkedBody = scope["extensions"][DIRECT_BODY]
        bodies.append(body)
        seen.append(body.is_ready)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        seen.append(body.is_ready)
        await send({"type": "http.response.body", "body": b"one ", "more_body": True})
        body.write(b"two ")
        if scope["path"] == "/stalled":
            while body.is_ready:
                body.write(CHUNK)
            is_paused.set()
            while (await receive())["type"] != "http.disconnect":
                pass
            seen.append(body.is_ready)
            return
        await send({"type": "http.response.body", "body": b"three"})
        seen.append(body.is_ready)

    async with serving(app, http=bounded(10)) as server:  # type: ignore[arg-type]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n" * 2)
        async with asyncio.timeout(60):
            for _ in range(2):
                await reader.readuntil(b"\r\n\r\n")
                assert await reader.readuntil(b"0\r\n\r\n") == b"4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n"
        assert seen == [False, True, False] * 2
        assert bodies[0] is not bodies[1], "a pipelined request does not get the body of another one"
        writer.write(b"GET /stalled HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            await is_paused.wait()
            writer.transport.abort()
            while len(seen) < 9:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert seen[6:] == [False, True, False]
