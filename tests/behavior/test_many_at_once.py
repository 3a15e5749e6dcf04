"""250 readers, 900 idle connections and 25 running commands at the same time: more open files than many systems allow.
With PALIMPSEST_TEST_LONG=1, up to four times as many."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.behavior.harness import Client, command
from tests.behavior.process import ServerProcess
from tests.load import LONG
from tests.provider import FakeProvider, Reply, Text
from tests.requirements import need

SESSIONS, READERS, IDLE = (100, 1_000, 2_000) if LONG else (25, 250, 900)
SOFT = 1_024
"""The default limit of open files on many systems; the server raises it to the hard limit."""

WAIT = "echo begun; until [ -e go ]; do sleep 1; done; echo went on"


@pytest.fixture
def room_for_connections() -> Iterator[None]:
    """This process holds the other ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SOFT + READERS + IDLE + 10 * SESSIONS
    if hard < wanted:
        pytest.skip(f"needs {wanted} open files, the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def crowded(tmp_path: Path, provider: FakeProvider, room_for_connections: None) -> Iterator[ServerProcess]:
    need("bubblewrap")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = (SOFT, hard)
    more = {"PALIMPSEST_MAX_READERS": str(READERS), "PALIMPSEST_SANDBOX_MEMORY_MB": "64"}
    with ServerProcess(tmp_path / "data", provider, "bubblewrap", "", more, files=files) as server:
        yield server


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host = urlsplit(url)
    reader, writer = await asyncio.open_connection(host.hostname, host.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def hold_idle(url: str, held: asyncio.Semaphore) -> None:
    """Holds an idle connection, and opens another one whenever the server closes it."""
    while True:
        async with connected(url) as (reader, _):
            held.release()
            await reader.read()


async def read_to_the_end(url: str, session_id: str, begun: asyncio.Semaphore) -> bytes:
    """All events of a session until it is idle; `begun` is released when its command runs."""
    async with connected(url) as (reader, writer):
        path = f"/v1/sessions/{session_id}/events?until=idle"
        writer.write(f"GET {path} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\nconnection: close\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
        first = await reader.readuntil(b"event: tool.output")
        begun.release()
        return first + await reader.read()


async def all_of(semaphore: asyncio.Semaphore, count: int) -> None:
    for _ in range(count):
        await semaphore.acquire()


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(300)
@pytest.mark.bubblewrap
async def test_nothing_fails_when_all_limits_are_reached_at_once(
    crowded: ServerProcess, provider: FakeProvider
) -> None:
    provider.script(Reply(command(WAIT)), Reply(Text("done")), per_conversation=True)
    held, begun = asyncio.Semaphore(0), asyncio.Semaphore(0)
    url = crowded.url
    async with Client(url) as client, asyncio.TaskGroup() as group:
        idle = [group.create_task(hold_idle(url, held)) for _ in range(IDLE)]
        await all_of(held, IDLE)
        made = [(await client.create(f"task {number}"))["id"] for number in range(SESSIONS)]
        readers = [group.create_task(read_to_the_end(url, id, begun)) for id in made * (READERS // SESSIONS)]
        await all_of(begun, READERS)
        async with asyncio.timeout(60):
            # The server closes idle connections, which are opened again one after the other.
            while len(os.listdir(f"/proc/{crowded.pid}/fd")) <= SOFT:
                await held.acquire()
        assert (await client.http.get("/readyz")).status_code == 200
        for session_id in made:
            (await client.http.put(f"/v1/sessions/{session_id}/files/go", content=b"")).raise_for_status()
        seen = await asyncio.gather(*readers)
        ended = [await client.session(session_id) for session_id in made]
        for task in idle:
            task.cancel()
    assert {session["outcome"] for session in ended} == {"completed"}
    assert all(b"went on" in stream and b"event: session.idle" in stream for stream in seen)
