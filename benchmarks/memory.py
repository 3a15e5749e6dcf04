"""Resident memory: of the idle server, and per additional session."""

from __future__ import annotations

import asyncio

from benchmarks.http import Connection, StreamReader
from benchmarks.processes import PROVIDER, Bench, Server, start_service
from benchmarks.report import Result

KIB, MIB = 1024, 1024 * 1024
SETTLED_IDLE, SETTLED_RUNNING = 500, 150
"""Sessions before the first reading: until then SQLite's page caches fill, and running sessions take memory that was
freed at the start."""


async def measure_memory(bench: Bench, *, running: int, idle: int) -> list[Result]:
    """Measures separate servers, since used memory is rarely returned to the system."""
    async with start_service(bench.source) as server:
        await asyncio.sleep(1)
        rest = server.resident_bytes()
        await run_to_idle(server, SETTLED_IDLE)
        before = server.resident_bytes()
        await run_to_idle(server, idle)
        per_idle = (server.resident_bytes() - before) / idle
    # All run at the same time: one that waited for a slot would start only when another has ended.
    slots = {"PALIMPSEST_MAX_RUNS": str(SETTLED_RUNNING + running)}
    async with start_service(bench.source, settings=slots) as server:
        per_running = await _per_running(server, running)
    return [
        Result("Memory when idle", rest / MIB, "MiB", 120),
        Result(
            "Memory per running session",
            max(per_running, 0) / KIB,
            "KiB",
            200,
            note=f"{running} sessions, after the first {SETTLED_RUNNING}.",
        ),
        Result(
            "Memory per idle session",
            max(per_idle, 0) / KIB,
            "KiB",
            2,
            note=f"{idle} sessions that have each made one run, after the first {SETTLED_IDLE}.",
        ),
    ]


async def run_to_idle(server: Server, count: int) -> None:
    """Creates sessions one after the other that each answer once."""
    async with Connection(server.port) as connection:
        for _ in range(count):
            session = await connection.ask("POST", "/v1/sessions", {"model": f"{PROVIDER}/reply", "task": "go"})
            reader = await StreamReader.open(server.port, f"/v1/sessions/{session['id']}/events?until=idle")
            await reader.until_idle()
            reader.close()


async def _per_running(server: Server, count: int) -> float:
    """Bytes that each of `count` sessions adds while its model streams to one reader."""
    warm = await start_streams(server, SETTLED_RUNNING)
    before = server.resident_bytes()
    readers = await start_streams(server, count)
    used = server.resident_bytes() - before
    for reader in [*warm, *readers]:
        reader.close()
    return used / count


async def start_streams(server: Server, count: int) -> list[StreamReader]:
    """Sessions that stream slowly for two minutes, each with a reader that has seen the first token."""
    readers = []
    async with Connection(server.port) as connection:
        for _ in range(count):
            body = {"model": f"{PROVIDER}/stream-1-120", "task": "go"}
            session = await connection.ask("POST", "/v1/sessions", body)
            readers.append(await StreamReader.open(server.port, f"/v1/sessions/{session['id']}/events", 120))
    for reader in readers:
        await reader.until(lambda reader=reader: len(reader.ages_ms) > 0)  # type: ignore[misc]
    return readers
