"""Readers that request much and read nothing: each costs the server little, whatever it requests, and is dropped."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from app.connection_limits import STALLED_S
from tests.behavior.attack import memory_mb, watched
from tests.behavior.combinations import first_of
from tests.behavior.harness import Client
from tests.behavior.process import ServerProcess
from tests.behavior.test_slow_reader import ESTABLISHED
from tests.load import LONG
from tests.provider import FakeProvider, Reply, Text

FIRST, READERS = 5, 40 if LONG else 20
"""The first ones warm up the server's threads and caches, which costs about 30 MB regardless of later ones."""

ARCHIVES = 3, 5
"""Fewer if only eight at once are allowed per session: see `app/api/download_budget.py`."""

AROUND = 40 if LONG else 20
"""Messages of half a megabyte before the large one and after it: more than the kernel takes for a reader."""

MOST_MB = 1
"""Maximum cost of each of the others, with all of the server's work for it."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.extended]


@asynccontextmanager
async def stalled(server: ServerProcess, path: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that requests `path` and reads only the head of the response. Its kernel takes little more, so that
    the server need not produce megabytes for each."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", httpx.URL(server.url).port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=4096)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket
        yield reader, writer
    finally:
        writer.transport.abort()


def all_dropped(server: ServerProcess) -> bool:
    """Waits until the server has no connection. Their ends do not arrive behind unread data, so the kernel's table is
    polled; nothing else can be waited for."""
    port = f":{httpx.URL(server.url).port:04X}"
    deadline = time.monotonic() + STALLED_S + 60
    while time.monotonic() < deadline:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        if sum(row[1].endswith(port) and row[3] == ESTABLISHED for row in rows) == 0:
            return True
        time.sleep(0.5)
    return False


async def sessions_log(client: Client) -> str:
    """A session whose log has messages of half a megabyte, and one of 8 MB, which no reader may hold in memory."""
    texts = ["x" * 500_000] * AROUND + ["ä" * 4_000_000] + ["x" * 500_000] * AROUND
    messages = [{"role": "user", "content": "Go on."}, *({"role": "assistant", "content": text} for text in texts)]
    session = await client.create(history={"format": "openai", "messages": messages})
    return f"/v1/sessions/{session['id']}"


async def workspace(client: Client) -> str:
    """A session with a file of 50 MB."""
    base = f"/v1/sessions/{(await client.create())['id']}"
    assert (await client.http.put(f"{base}/files/large", content=b"x" * 50_000_000)).is_success
    return base


READ = {
    "log": (sessions_log, "/log?limit=500"),
    "file": (workspace, "/files/large"),
    "events": (sessions_log, "/events"),
    "messages": (sessions_log, "/messages?limit=500"),
    "export": (sessions_log, "/messages?limit=500&format=openai"),
    "archive": (workspace, "/archive"),
}


ENDLESS = ("events", "file", "archive")
"""Responses that exceed the kernel's buffers. The server holds nothing of the others, and they are idle."""


@first_of(2, kind=READ if LONG else ["log", *ENDLESS[:2]])
async def test_readers_that_take_nothing_cost_little_and_are_dropped(
    provider: FakeProvider, tmp_path: Path, kind: str
) -> None:
    prepare, path = READ[kind]
    start = partial(ServerProcess, tmp_path / "data", provider, "local-unsafe", "")
    with start() as server:
        async with Client(server.url) as client:
            base = await prepare(client)
    # A new server, without memory freed by the preparation.
    with start() as server:
        await attack(server, base + path, kind)


async def attack(server: ServerProcess, target: str, kind: str) -> None:
    first, readers = ARCHIVES if kind == "archive" else (FIRST, READERS)
    async with AsyncExitStack() as stack:
        for _ in range(first):
            await stack.enter_async_context(stalled(server, target))
        before = memory_mb(server)
        with watched(server, kind):
            for _ in range(readers):
                await stack.enter_async_context(stalled(server, target))
            held = memory_mb(server)
        print(f"{kind}: {before:.0f} MB before, {held:.0f} MB with {readers} readers")
        assert held - before < readers * MOST_MB
        if kind in ENDLESS:
            assert await asyncio.to_thread(all_dropped, server), "the server never let go of some"


LARGE = "\x01" * 160_000
"""A task of nearly the maximum body size: each character takes six bytes of JSON."""


@pytest.fixture
async def serving(provider: FakeProvider, tmp_path: Path) -> AsyncIterator[tuple[ServerProcess, Client]]:
    with ServerProcess(tmp_path / "data", provider, "local-unsafe", "") as server:
        async with Client(server.url) as client:
            yield server, client


async def test_readers_of_all_sessions_share_what_they_read(
    serving: tuple[ServerProcess, Client], provider: FakeProvider
) -> None:
    """Each holds only the pieces of a large event that the kernel did not take."""
    server, client = serving
    provider.script_for(LARGE, Reply(Text("done")))
    session, _ = await client.run(LARGE)
    path = f"/v1/sessions/{session['id']}"
    async with AsyncExitStack() as stack:
        for _ in range(READERS * 2):
            await stack.enter_async_context(stalled(server, "/v1/events"))
        before = memory_mb(server)
        with watched(server, "events of all sessions"):
            for number in range(3):
                assert (await client.http.patch(path, json={"title": f"{number}"})).is_success
            assert (await client.http.delete(path)).is_success
            held = memory_mb(server)
        print(f"{before:.0f} MB before, {held:.0f} MB with {READERS * 2} readers")
        assert held - before < READERS * MOST_MB
