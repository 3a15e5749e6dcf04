"""Downloads, archives and listings in great number: together they cost bounded memory, and one session's do not delay
another's.

With PALIMPSEST_TEST_LONG=1, runs with far more readers and names.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from app.connection_limits import STALLED_S
from tests.behavior.attack import memory_mb, watched
from tests.behavior.combinations import first_of
from tests.behavior.harness import Client, command, of_type
from tests.behavior.process import ServerProcess
from tests.load import LONG
from tests.provider import FakeProvider, Reply, Text

Prepare = Callable[[ServerProcess, Client, FakeProvider], Awaitable[str]]

OK, BUSY = b"HTTP/1.1 200 OK", b"HTTP/1.1 503 Service Unavailable"
READERS = 1_800 if LONG else 400
ARCHIVES = 40
LISTINGS = 40
ARCHIVED_NAMES = 60_000 if LONG else 20_000
LISTED_NAMES = 500_000 if LONG else 60_000
MORE_MB = 120
"""Maximum growth of the server's memory. The budget of `app/api/download_budget.py` is half of it; the rest is for
connections, threads and allocator overhead."""

PAUSE_S = 0.05
"""Between the downloads of another session, which would otherwise take most of the server's CPU time."""

OTHERS_MS = 100 if LONG else 1_000
"""Limit for the median time of another session's download; the maximum may be three times as long. A shared machine
delays everyone, hence the wide limit by default."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 if LONG else 120), pytest.mark.extended]


@pytest.fixture
def server(tmp_path: Path, provider: FakeProvider) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", provider, "local-unsafe", "") as server:
        yield server


async def session_with_a_file(client: Client) -> str:
    base = f"/v1/sessions/{(await client.create())['id']}"
    assert (await client.http.put(f"{base}/files/small", content=b"small")).status_code == 201
    return base


def workspace(server: ServerProcess, base: str) -> Path:
    return server.data_dir / "workspaces" / base.rpartition("/")[2]


def make_names(directory: Path, number: int, name: str = "") -> None:
    for count in range(number):
        os.close(os.open(directory / f"{count:06}{name}", os.O_CREAT | os.O_WRONLY))


def silent_readers(server: ServerProcess, path: str, number: int, stack: ExitStack) -> list[socket.socket]:
    """Connections that request `path` and read nothing of the response."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4 * READERS + 1_024), most))
    readers = []
    for _ in range(number):
        reader = stack.enter_context(socket.socket())
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", httpx.URL(server.url).port))
        reader.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        readers.append(reader)
    return readers


def heads(readers: Sequence[socket.socket]) -> Counter[bytes]:
    """The number of each response status. Served readers get a head at once, refused ones within some seconds."""
    found: Counter[bytes] = Counter()
    for reader in readers:
        reader.settimeout(30)
        answer = reader.recv(512)
        found[answer.partition(b"\r\n")[0]] += 1
        if answer.startswith(b"HTTP/1.1 503 "):
            while not answer.endswith(b"}"):
                answer += reader.recv(512)
            assert b"\r\nretry-after: 5\r\n" in answer
            assert b'"code":"too_many_downloads"' in answer
    return found


@asynccontextmanager
async def others_served(client: Client) -> AsyncIterator[list[float]]:
    """Repeatedly downloads a small file of another session; yields the response times in milliseconds."""
    address = f"{await session_with_a_file(client)}/files/small"
    took: list[float] = []
    end = asyncio.Event()

    async def download() -> None:
        while not end.is_set() or not took:
            began = time.perf_counter()
            answer = await client.http.get(address)
            took.append((time.perf_counter() - began) * 1000)
            assert answer.content == b"small", answer.text
            with suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), PAUSE_S)

    task = asyncio.create_task(download())
    try:
        yield took
    finally:
        end.set()
        await task
    took.sort()
    print(f"others: {len(took)} answers, median {took[len(took) // 2]:.0f} ms, worst {took[-1]:.0f} ms")


async def large_file(server: ServerProcess, client: Client, provider: FakeProvider) -> str:
    base = await session_with_a_file(client)
    with (workspace(server, base) / "large").open("wb") as file:
        file.write(bytes(50_000_000))
    return f"{base}/files/large"


async def large_output(server: ServerProcess, client: Client, provider: FakeProvider) -> str:
    provider.script(Reply(command("yes output | head -c 10000000")), Reply(Text("done")))
    session, events = await client.run("print much")
    (result,) = of_type(events, "tool.result")
    return f"/v1/sessions/{session['id']}/tool-calls/{result.data['call_id']}/output"


@first_of(prepare=[large_file, large_output])
async def test_unread_downloads_cost_bounded_memory(
    server: ServerProcess, client: Client, provider: FakeProvider, prepare: Prepare
) -> None:
    path = await prepare(server, client, provider)
    before = memory_mb(server)
    with ExitStack() as stack:
        with watched(server, f"{READERS:,} unread downloads"):
            async with others_served(client) as took:
                readers = await asyncio.to_thread(silent_readers, server, path, READERS, stack)
                answers = await asyncio.to_thread(heads, readers)
            held = memory_mb(server)
        print(f"{dict(answers)}, {before:.0f} MB before, {held:.0f} MB with them")
        assert answers[OK] + answers[BUSY] == READERS
        assert 40 <= answers[OK] <= 64
        assert held - before < MORE_MB
        assert took[len(took) // 2] < OTHERS_MS
        if LONG:
            # They hold their session's whole share until they are dropped.
            async with asyncio.timeout(STALLED_S + 20):
                while (await client.http.head(path)).status_code == 503:
                    pass


@pytest.mark.extended
async def test_unread_archives_cost_bounded_memory(server: ServerProcess, client: Client) -> None:
    base = await session_with_a_file(client)
    await asyncio.to_thread(make_names, workspace(server, base), ARCHIVED_NAMES, "n" * 200)
    before = memory_mb(server)
    with ExitStack() as stack:
        with watched(server, f"{ARCHIVES} unread archives"):
            async with others_served(client) as took:
                readers = await asyncio.to_thread(silent_readers, server, f"{base}/archive", ARCHIVES, stack)
                answers = await asyncio.to_thread(heads, readers)
            held = memory_mb(server)
        print(f"{dict(answers)}, {before:.0f} MB before, {held:.0f} MB with them")
        assert answers[OK] + answers[BUSY] == ARCHIVES
        assert 4 <= answers[OK] <= 8
        assert held - before < MORE_MB
        assert took[len(took) // 2] < OTHERS_MS
    assert (await client.http.get(f"{base}/files/small")).content == b"small"


@pytest.mark.extended
async def test_listings_of_long_paths_cost_bounded_memory(server: ServerProcess, client: Client) -> None:
    """Each of 12,000 entries repeats a path of nearly 4,000 bytes."""
    base = await session_with_a_file(client)
    names = ["d" * 250] * 15
    await asyncio.to_thread(_make_deep, workspace(server, base), names)
    address, query = f"{base}/files", {"path": "/".join(names)}
    with watched(server, "listings of long paths"):
        answers = await asyncio.gather(*[client.http.get(address, params=query) for _ in range(8)])
    for answer in answers:
        assert answer.status_code == 200, answer.text
        listing = answer.json()
        assert listing["truncated"]
        paths = [item["path"] for item in listing["items"]]
        assert paths == [f"{query['path']}/{count:06}" for count in range(len(paths))]
        assert 300 < len(paths) < 12_000
        assert len(answer.content) < 2.1 * 2**20


def _make_deep(top: Path, names: Sequence[str]) -> None:
    """Creates a directory whose path is longer than the kernel accepts in one call."""
    directory = os.open(top, os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=directory)
        below = os.open(name, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    for count in range(12_000):
        os.close(os.open(f"{count:06}", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
    os.close(directory)


async def test_listings_of_one_session_do_not_delay_others(server: ServerProcess, client: Client) -> None:
    base = await session_with_a_file(client)
    await asyncio.to_thread(make_names, workspace(server, base), LISTED_NAMES)

    async def listed() -> int:
        answer = await client.http.get(f"{base}/files")
        assert answer.status_code in (200, 503), answer.text
        assert answer.status_code == 503 or (len(answer.json()["items"]), answer.json()["truncated"]) == (10_000, True)
        return answer.status_code

    with watched(server, f"{LISTINGS} listings of {LISTED_NAMES:,} names"):
        async with others_served(client) as took:
            answers = Counter(await asyncio.gather(*[listed() for _ in range(LISTINGS)]))
    print(dict(answers))
    assert answers[200] >= 4
    assert took[-1] < 3 * OTHERS_MS
    assert took[len(took) // 2] < OTHERS_MS
