"""Compares a commit whose statements each switch to the driver's thread with one that switches once.

Run with `python -m benchmarks.commits`; it prints wall and CPU time of a transaction of five statements, through
aiosqlite and in a single thread call. See `docs/decisions/0011-one-hop-per-transaction.md`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    update,
)
from sqlalchemy.ext.asyncio import create_async_engine

ROUNDS = 300

metadata = MetaData()
rows = Table("rows", metadata, Column("id", Integer, primary_key=True), Column("text", String))
counters = Table("counters", metadata, Column("id", Integer, primary_key=True), Column("value", Integer))


def configure(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def transaction(connection: Connection, round_number: int) -> None:
    """Writes about as much as one tool result does: a counter and four rows."""
    bump = update(counters).where(counters.c.id == 1).values(value=counters.c.value + 1).returning(counters.c.value)
    connection.execute(bump).scalar_one()
    for place in range(4):
        connection.execute(insert(rows).values(id=round_number * 10 + place, text="x" * 200))


def prepare(connection: Connection) -> None:
    metadata.create_all(connection)
    connection.execute(insert(counters).values(id=1, value=0))


async def measure(name: str, one: Callable[[int], Awaitable[None]]) -> None:
    wall, processor = time.perf_counter(), time.process_time()
    for number in range(1, ROUNDS + 1):
        await one(number)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"{name:12} {wall / ROUNDS * 1000:6.2f} ms wall, {processor / ROUNDS * 1000:6.2f} ms processor")


async def main() -> None:
    with TemporaryDirectory() as folder:
        hops = create_async_engine(f"sqlite+aiosqlite:///{Path(folder) / 'hops.db'}", pool_size=1)
        configure(hops.sync_engine)
        async with hops.begin() as connection:
            await connection.run_sync(prepare)

        async def through_aiosqlite(number: int) -> None:
            async with hops.begin() as connection:
                await connection.run_sync(transaction, number)

        once = create_engine(f"sqlite:///{Path(folder) / 'once.db'}", connect_args={"check_same_thread": False})
        configure(once)
        with once.begin() as connection_once:
            prepare(connection_once)

        def in_thread(number: int) -> None:
            with once.begin() as connection:
                transaction(connection, number)

        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as thread:

            async def through_thread(number: int) -> None:
                await loop.run_in_executor(thread, in_thread, number)

            await measure("aiosqlite", through_aiosqlite)
            await measure("one hop", through_thread)
        await hops.dispose()
        once.dispose()


if __name__ == "__main__":
    asyncio.run(main())
