"""Readers that are slow, or never read at all, in a separate server process whose memory can be measured."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.behavior.harness import OPENAI, Client, Event, of_type, read_events
from tests.behavior.process import ServerProcess
from tests.behavior.replica import Replica
from tests.provider import FakeProvider, Gate, Reply, Text
from tests.requirements import need

DELTAS = 100_000
DELTA_CHARS = 30
TEXT = "".join(f"{number:09} " * 3 for number in range(DELTAS))
"""Numbered, since repetitive text would be cut off."""
MIB = 1024 * 1024
GROWTH = 24 * MIB
"""Maximum cost of a late reader and of one that never reads: a batch waiting to be sent for each, and the noise of a
run's memory. The unsent events alone would take more than that."""


@pytest.fixture
def process(provider: FakeProvider, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A server in a separate process: its URL and process id."""
    need("bubblewrap")
    models = {"PALIMPSEST_MODELS": json.dumps({OPENAI: {"context_window": 10_000_000}})}
    with ServerProcess(tmp_path / "data", provider, "bubblewrap", "", models) as server:
        yield server.url, server.pid


ESTABLISHED = "01"


def resident(pid: int) -> int:
    """Resident memory of a process in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) * 1024


def dead_reader(url: str, session_id: str) -> socket.socket:
    """A connection that requests the events and reads none of them."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    host = urlsplit(url)
    connection.connect((host.hostname, host.port))
    request = f"GET /v1/sessions/{session_id}/events HTTP/1.1\r\nHost: {host.netloc}\r\n\r\n"
    connection.sendall(request.encode())
    return connection


@asynccontextmanager
async def waiting_session(client: Client, provider: FakeProvider, gate: str) -> AsyncIterator[str]:
    """A session whose answer of many deltas waits at a gate, which opens at the end of the block."""
    provider.script(Reply(Text(">"), Gate(gate), Text(TEXT, chunks=DELTAS)))
    session_id = (await client.create("go", model=OPENAI))["id"]
    await provider.reached(gate)
    yield session_id
    provider.open(gate)


async def finished(client: Client, session_id: str) -> None:
    """Waits for the end by polling the session, so that nobody reads the stream."""
    async with asyncio.timeout(100), client.http.stream("GET", "/v1/events") as response:
        if (await client.session(session_id))["status"] == "idle":
            return
        async for event in read_events(response):
            if event.type == "session.idle" and event.data["session_id"] == session_id:
                return


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(300)
@pytest.mark.bubblewrap
async def test_readers_that_do_not_keep_up_cost_next_to_nothing_and_miss_nothing(
    provider: FakeProvider, process: tuple[str, int]
) -> None:
    """One never reads, the other one late."""
    url, pid = process
    async with Client(url) as client:
        grown: list[int] = []
        for readers in (0, 0, 2):
            async with waiting_session(client, provider, f"go{len(grown)}") as session_id:
                connections = [dead_reader(url, session_id) for _ in range(readers)]
                before = await asyncio.to_thread(resident, pid)
            await finished(client, session_id)
            grown.append(await asyncio.to_thread(resident, pid) - before)
        with closing(connections[0]) as dead, closing(connections[1]) as slow:
            shown = await client.messages(session_id)
            assert shown[1]["parts"][0]["text"] == ">" + TEXT
            # The first run also warms the server up; the second shows the cost of a run.
            assert grown[2] < max(grown[1], 0) + GROWTH, f"grown by {grown}"
            body = await asyncio.to_thread(_read_to_idle, slow)
            assert await asyncio.to_thread(_dropped, dead), "the server never let go of it"
        fast = [event async for event in client.events(session_id, until_idle=True)]
    _assert_fewer_and_larger_deltas_and_no_gap(body, fast)


def _assert_fewer_and_larger_deltas_and_no_gap(body: bytes, fast: list[Event]) -> None:
    replica = Replica()
    events = _parse(body)
    for event in events:
        replica.apply(event)
    deltas = of_type(events, "text.delta")
    assert 0 < len(deltas) < DELTAS / 10
    assert max(len(event.data["text"]) for event in deltas) > DELTA_CHARS
    assert [e.data for e in replica.log] == [e.data for e in fast]


def _dropped(connection: socket.socket) -> bool:
    """Waits until the server has closed a connection. Its end does not arrive here, behind unread data, so the kernel's
    table is polled; nothing else can be waited for."""
    client, server = connection.getsockname()[1], connection.getpeername()[1]
    for _ in range(600):
        table = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        states = [row[3] for row in table if row[1].endswith(f":{server:04X}") and row[2].endswith(f":{client:04X}")]
        if ESTABLISHED not in states:
            return True
        time.sleep(0.1)
    return False


def _read_to_idle(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    body, last, has_ended = bytearray(), b"event: session.idle", False
    while not (has_ended and body.endswith(b"\n\n\r\n")):
        piece = connection.recv(65536)
        assert piece, "the stream ended"
        searched = max(0, len(body) - len(last))
        body += piece
        has_ended = has_ended or body.find(last, searched) >= 0
    return bytes(body)


def _parse(body: bytes) -> list[Event]:
    """The events of a chunked response."""
    chunks, at = [], body.index(b"\r\n\r\n") + 4
    while at < len(body):
        begin = body.index(b"\r\n", at) + 2
        end = begin + int(body[at:begin], 16)
        chunks.append(body[begin:end])
        at = end + 2
    events = []
    for block in b"".join(chunks).decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            seq = int(fields["id"]) if "id" in fields else None
            events.append(Event(fields["event"], json.loads(fields["data"]), seq))
    return events
