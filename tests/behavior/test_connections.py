"""Unauthenticated clients: whatever they send costs bounded memory and does not block others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from app.api.guard import LOGIN_BYTES
from app.api.request_bodies import MAX_HELD_BYTES
from app.connection_limits import HEAD_S, MAX_PIPELINED, connections_for
from tests.behavior.attack import memory_mb, watched
from tests.behavior.combinations import first_of
from tests.behavior.process import ServerProcess
from tests.provider import FakeProvider

KEY = "a-key-of-some-length"
MOST_MORE_MB = 50
"""Maximum growth of the server's memory, whatever is sent without a key."""


@pytest.fixture
def guarded(tmp_path: Path, provider: FakeProvider) -> Iterator[ServerProcess]:
    """A server that requires a key."""
    more = {"PALIMPSEST_API_KEYS": KEY}
    with ServerProcess(tmp_path / "data", provider, "local-unsafe", "", more) as server:
        yield server


@asynccontextmanager
async def connected(server: ServerProcess) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(server.url).port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def flood(server: ServerProcess, piece: bytes, total: int) -> bytes:
    """Sends pieces until `total` bytes are sent or the server has closed; returns the start of its response."""
    async with connected(server) as (reader, writer):
        with suppress(OSError):
            for _ in range(total // len(piece)):
                writer.write(piece)
                await asyncio.wait_for(writer.drain(), HEAD_S + 20)
        with suppress(OSError, TimeoutError):
            return await asyncio.wait_for(reader.read(200), HEAD_S + 20)
        return b""


async def answers(server: ServerProcess) -> bool:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        return (await client.get("/healthz")).is_success


FLOODS = {
    "a header without end": (b"GET / HTTP/1.1\r\nhost: x\r\na: ", b"x" * 65_536),
    "headers without end": (b"GET / HTTP/1.1\r\nhost: x\r\n", b"a: b\r\n" * 10_000),
    "a target without end": (b"GET /", b"x" * 65_536),
    "line ends alone": (b"", b"\r\n" * 30_000),
    "pipelined requests": (b"", b"GET /v1/sessions HTTP/1.1\r\nhost: x\r\n\r\n" * 1_500),
    "bodies nobody asked for": (
        b"POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n",
        b"[" * 65_536,
    ),
}


@pytest.mark.extended
@first_of(2, kind=FLOODS)
async def test_a_flood_costs_bounded_memory(guarded: ServerProcess, kind: str) -> None:
    head, piece = FLOODS[kind]
    assert await answers(guarded)
    before = memory_mb(guarded)

    async def attack() -> None:
        async with connected(guarded) as (_, writer):
            with suppress(OSError, TimeoutError):
                writer.write(head)
                for _ in range(128):
                    writer.write(piece)
                    await asyncio.wait_for(writer.drain(), 1)

    with watched(guarded, kind):
        await asyncio.gather(*[attack() for _ in range(8)])
    assert memory_mb(guarded) - before < MOST_MORE_MB
    assert await answers(guarded)


TINY_HEADERS = b"x:\r\n" * 15_000
HELD_HEADS = {
    "heads of tiny headers": (250, b"GET / HTTP/1.1\r\nhost: x\r\n" + TINY_HEADERS),
    "a queue of heads": (40, (b"GET / HTTP/1.1\r\nhost: x\r\n" + TINY_HEADERS + b"\r\n") * 30),
    "large heads without end": (1_000, b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 60_000),
}


@first_of(kind=HELD_HEADS)
async def test_heads_that_are_held_cost_bounded_memory(guarded: ServerProcess, kind: str) -> None:
    connections, data = HELD_HEADS[kind]
    assert await answers(guarded)
    before = memory_mb(guarded)
    async with AsyncExitStack() as stack:
        with watched(guarded, kind):
            for _ in range(connections):
                _, writer = await stack.enter_async_context(connected(guarded))
                with suppress(OSError, TimeoutError):
                    writer.write(data)
                    await asyncio.wait_for(writer.drain(), 1)
            assert await answers(guarded)
        print(f"{kind}: {memory_mb(guarded) - before:.0f} MiB more")
        assert memory_mb(guarded) - before < MOST_MORE_MB


async def refused(reader: asyncio.StreamReader, status: bytes, code: str) -> None:
    """Checks that all that comes is a problem with this status and code."""
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %b\r\ncontent-type: application/problem+json\r\n" % status)
    assert (json.loads(body)["status"], json.loads(body)["code"]) == (int(status[:3]), code)


async def test_what_is_no_request_gets_a_status(guarded: ServerProcess) -> None:
    async with connected(guarded) as (reader, writer):
        writer.write(b"HELLO\r\n\r\n")
        await refused(reader, b"400 Bad Request", "malformed_request")


async def test_a_head_that_is_too_large_gets_a_status(guarded: ServerProcess) -> None:
    head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\na: "
    for end in (b"", b"\r\n\r\n"):
        async with connected(guarded) as (reader, writer):
            writer.write(head + b"x" * 65_536 + end)
            await refused(reader, b"431 Request Header Fields Too Large", "head_too_large")
    async with connected(guarded) as (reader, writer):
        writer.write(head + b"x" * 65_000 + b"\r\n\r\n")
        assert (await reader.read(100)).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.slow
async def test_a_head_that_does_not_end_times_out(guarded: ServerProcess) -> None:
    async with connected(guarded) as (reader, writer), connected(guarded) as (silent, _):
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n")
        async with asyncio.timeout(HEAD_S + 20):
            await refused(reader, b"408 Request Timeout", "head_timeout")
            assert await silent.read() == b""


async def test_some_requests_may_be_pipelined(guarded: ServerProcess) -> None:
    request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with connected(guarded) as (reader, writer):
        writer.write(request * MAX_PIPELINED)
        for _ in range(MAX_PIPELINED):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)


async def start_body(server: ServerProcess, stack: AsyncExitStack, path: str, size: int) -> asyncio.StreamReader:
    """Sends most of a body, and never the rest."""
    reader, writer = await stack.enter_async_context(connected(server))
    length = f"content-length: {size + 1}" if size > LOGIN_BYTES else "transfer-encoding: chunked"
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n{length}\r\n"
    chunk = b"" if size > LOGIN_BYTES else f"{size:x}\r\n".encode()
    writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + chunk + b'"' + b"a" * (size - 1))
    with suppress(OSError):
        await asyncio.wait_for(writer.drain(), 5)
    return reader


async def test_bodies_of_unauthenticated_clients_are_limited(guarded: ServerProcess) -> None:
    """A login is the only request with a body before authentication."""
    async with AsyncExitStack() as stack:
        before = memory_mb(guarded)
        for _ in range(200):
            await start_body(guarded, stack, "/v1/login", LOGIN_BYTES - 100)
        large = [await start_body(guarded, stack, "/v1/login", 2**20) for _ in range(200)]
        assert memory_mb(guarded) - before < MOST_MORE_MB
        assert {await reader.read(12) for reader in large} == {b"HTTP/1.1 413"}
        assert await answers(guarded)


@pytest.mark.slow
async def test_all_bodies_together_are_bounded(guarded: ServerProcess) -> None:
    size, number = 1_000_000, 200
    async with AsyncExitStack() as stack:
        before = memory_mb(guarded)
        readers = [await start_body(guarded, stack, "/v1/sessions", size) for _ in range(number)]
        waiting = {asyncio.create_task(reader.read(12)) for reader in readers}
        refused: set[bytes] = set()
        async with asyncio.timeout(60):
            while len(waiting) > MAX_HELD_BYTES // size + 2:
                answered, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                refused |= {task.result() for task in answered}
        assert refused == {b"HTTP/1.1 503"}
        for task in waiting:
            task.cancel()
        # Joining the pieces of a body doubles their memory.
        assert memory_mb(guarded) - before < 2 * MAX_HELD_BYTES / 2**20
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=guarded.url, trust_env=False, headers=headers) as client:
        # They are held until the server notices that their connections are gone, which may take a moment.
        async with asyncio.timeout(60):
            while (await client.post("/v1/sessions", json={"title": "later"})).status_code == 503:
                pass


async def test_idle_connections_keep_no_heads(guarded: ServerProcess) -> None:
    request = b"GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\na: " + b"x" * 60_000 + b"\r\n\r\n"
    async with AsyncExitStack() as stack:
        assert await answers(guarded)
        before = memory_mb(guarded)
        for _ in range(400):
            reader, writer = await stack.enter_async_context(connected(guarded))
            writer.write(request)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401 ")
        print(f"{memory_mb(guarded) - before:.0f} MiB more")
        assert memory_mb(guarded) - before < 10


async def test_idle_connections_make_room(tmp_path: Path, provider: FakeProvider) -> None:
    """At most three hundred descriptors: the oldest idle connections are closed, requests are answered."""
    with ServerProcess(tmp_path / "data", provider, "local-unsafe", "", files=(300, 300)) as server:
        async with AsyncExitStack() as stack:
            most = connections_for(300, 1_000, 100)
            held = [await stack.enter_async_context(connected(server)) for _ in range(most + 20)]
            async with asyncio.timeout(60):
                with suppress(ConnectionResetError):
                    assert await held[0][0].read() == b""
            assert await answers(server)
