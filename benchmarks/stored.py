"""A server with much stored: how soon it is ready, and how fast it lists sessions and files."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from benchmarks.http import Connection
from benchmarks.memory import run_to_idle, start_streams
from benchmarks.processes import PROVIDER, Bench, start_service
from benchmarks.report import Result
from benchmarks.stats import median, percentile

STARTS = 5
LISTINGS = 30


async def measure_start(bench: Bench, *, sessions: int, events: int) -> list[Result]:
    """The time from the start of the program until `/readyz` answers, with that many sessions and events. The server
    before was killed, as in a crash."""
    times = []
    with TemporaryDirectory(prefix="palimpsest-bench-") as folder:
        settings = {"PALIMPSEST_DATA_DIR": folder}
        async with start_service(bench.source, settings=settings) as server:
            await run_to_idle(server, 1)
        await asyncio.to_thread(multiply, Path(folder), sessions, events)
        for _ in range(STARTS):
            began = time.monotonic()
            async with start_service(bench.source, settings=settings) as server:
                times.append((time.monotonic() - began, server.cpu_s()))
    took = [wall for wall, _ in times]
    return [
        Result(
            f"Start with {sessions:,} sessions, {events:,} events",
            min(took),
            "s",
            2,
            note=f"Fastest of {STARTS}, median {median(took):.1f} s; CPU time {min(cpu for _, cpu in times):.1f} s",
        )
    ]


async def measure_listings(bench: Bench, *, idle: int, running: int, pages: int, files: int) -> list[Result]:
    """The time of `GET /v1/sessions` while sessions stream, and of a folder's listing."""
    with TemporaryDirectory(prefix="palimpsest-bench-") as folder:
        settings = {"PALIMPSEST_DATA_DIR": folder}
        async with start_service(bench.source, settings=settings) as server:
            await run_to_idle(server, 1)
        await asyncio.to_thread(multiply, Path(folder), idle, 10 * idle)
        async with start_service(bench.source, settings=settings) as server, Connection(server.port) as connection:
            listings = await _times(connection, await _with_files(connection, Path(folder), files), LISTINGS)
            readers = await start_streams(server, running)
            pages_ms = await _times(connection, "/v1/sessions", pages)
            for reader in readers:
                reader.close()
    return [
        Result(
            f"`GET /v1/sessions`, {running} running, {idle:,} idle, p99",
            percentile(pages_ms, 0.99),
            "ms",
            40,
            note=f"{pages} times, a page of 50; median {median(pages_ms):.1f} ms. Each running session streams one"
            " token a second to one reader.",
        ),
        Result(
            f"Listing a folder of {files:,} files",
            median(listings),
            "ms",
            100,
            note=f"{LISTINGS} times; p90 {percentile(listings, 0.9):.1f} ms.",
        ),
    ]


async def _with_files(connection: Connection, data_dir: Path, count: int) -> str:
    """The path of the listing of a new session's workspace with that many files."""
    session = await connection.ask("POST", "/v1/sessions", {"model": f"{PROVIDER}/reply"})
    workspace = data_dir / "workspaces" / session["id"]
    workspace.mkdir(parents=True)
    for number in range(count):
        (workspace / f"file-{number}.txt").touch()
    return f"/v1/sessions/{session['id']}/files"


async def _times(connection: Connection, path: str, count: int) -> list[float]:
    """How long each of `count` requests takes, in ms, after a first one."""
    times = []
    for _ in range(count + 1):
        began = time.monotonic()
        await connection.ask("GET", path)
        times.append((time.monotonic() - began) * 1000)
    return times[1:]


def multiply(data_dir: Path, sessions: int, events: int) -> None:
    """Copies the only session of a database until it has that many, each with its share of the events."""
    with sqlite3.connect(data_dir / "palimpsest.db") as database:
        (first,) = database.execute("SELECT id FROM sessions").fetchone()
        columns = [name for _, name, *_ in database.execute("PRAGMA table_info(sessions)") if name != "id"]
        ids = [(str(UUID(int=UUID(first).int + number)),) for number in range(1, sessions)]
        names = ", ".join(f'"{name}"' for name in columns)
        database.executemany(f"INSERT INTO sessions (id, {names}) SELECT ?, {names} FROM sessions LIMIT 1", ids)
        database.execute(
            "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)"
            " INSERT INTO events (session_id, seq, type, data)"
            " SELECT sessions.id, last_seq + n, 'text.completed', '{\"text\": \"' || hex(randomblob(50)) || '\"}'"
            " FROM sessions JOIN numbers",
            (events // sessions,),
        )
        database.execute("UPDATE sessions SET last_seq = last_seq + ?", (events // sessions,))
    database.close()
