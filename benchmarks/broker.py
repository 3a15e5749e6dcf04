"""What live text costs between servers: latency and CPU time per token, compared with the bus of one process. The owner
of the sessions and their readers are two processes on one database and one broker."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import uvicorn

from app.cluster.broker import RedisBroker
from app.cluster.relay import BrokerRelay
from app.db.engine import Database, open_database
from app.db.migrate import upgrade
from app.eventlog.bus import Bus
from app.eventlog.log import EventLog
from app.eventlog.polling import LogPoll
from app.eventlog.reader import follow
from app.messages import Usage, new_id, now
from app.sessions import Status
from benchmarks.stats import percentile

STREAMS, RATE = 20, 50
"""Sessions, and tokens a second in each."""
SETTLE_S = 1.0


@dataclass
class Ages:
    """How old each token was when its reader got it, in milliseconds."""

    values: list[float] = field(default_factory=list)
    deltas: int = 0


def cpu_of(pid: int) -> float:
    """Seconds of CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def node(database: Database, url: str | None) -> AsyncIterator[Bus]:
    """A server's bus, connected with others if there is a broker."""
    bus = Bus()
    if url is None:
        yield bus
        return
    relay = BrokerRelay(bus, RedisBroker(url), LogPoll(bus, database), namespace="bench")
    async with relay.running():
        while not relay.is_connected:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
        yield bus


async def write(bus: Bus, session_id: str, seconds: float) -> None:
    """Writes tokens, each with the time in nanoseconds."""
    loop = asyncio.get_running_loop()
    channel = bus.channel(session_id)
    channel.running = True
    with bus.owning(session_id, 1):
        part = channel.open_part(f"part-{session_id}", "text.delta", {"message_id": "m", "part_id": "p", "index": 0})
        due, end = loop.time(), loop.time() + seconds
        while due < end:
            due += 1 / RATE
            await asyncio.sleep(due - loop.time())
            part.append(f"{time.time_ns()} ", "")
            channel.wake()


async def write_all(bus: Bus, ids: list[str], seconds: float) -> None:
    async with asyncio.TaskGroup() as group:
        for number, session_id in enumerate(ids):
            group.create_task(write(bus, session_id, seconds))
            # Independent streams are spread over the time between two tokens.
            await asyncio.sleep((number % 7 + 1) / 7 / RATE)


async def read(database: Database, bus: Bus, session_id: str, ages: Ages) -> None:
    async with follow(EventLog(database), bus, session_id, after=0, until_idle=False) as batches:
        assert batches is not None
        async for items in batches:
            at = time.time_ns()
            for item in items:
                if item.seq is None:
                    ages.deltas += 1
                    ages.values += [(at - int(token)) / 1e6 for token in orjson.loads(item.data)["text"].split()]


async def measure(
    database: Database, ids: list[str], url: str | None, seconds: float, path: str, redis_pid: int
) -> None:
    """One round, printed."""
    ages = Ages()
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(node(database, url))
        readers = [asyncio.create_task(read(database, bus, session_id, ages)) for session_id in ids]
        writer: asyncio.subprocess.Process | None = None
        if url is None:
            writing = asyncio.create_task(write_all(bus, ids, seconds + SETTLE_S))
        else:
            argv = [sys.executable, "-m", "benchmarks.broker", "--write", path, "--url", url, "--seconds", str(seconds)]
            writer = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
        while len(ages.values) < STREAMS:  # noqa: ASYNC110 - the writer is another process
            await asyncio.sleep(0.01)
        await asyncio.sleep(SETTLE_S)
        ages.values.clear()
        ages.deltas = 0
        pids = {"this": os.getpid()} | ({"owner": writer.pid, "redis": redis_pid} if writer else {})
        before = {name: cpu_of(pid) for name, pid in pids.items()}
        await asyncio.sleep(seconds - SETTLE_S)
        used = {name: (cpu_of(pid) - before[name]) / len(ages.values) * 1e6 for name, pid in pids.items()}
        figures = (len(ages.values), ages.deltas, percentile(ages.values, 0.5), percentile(ages.values, 0.99))
        if writer is None:
            await writing
        else:
            await writer.wait()
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
    tokens, deltas, p50, p99 = figures
    cpu = ", ".join(f"{name} {value:.0f} µs" for name, value in used.items())
    what = "one process" if url is None else "two nodes  "
    print(f"{what}  tokens {tokens}  deltas {deltas}  p50 {p50:.2f} ms  p99 {p99:.2f} ms  CPU per token: {cpu}")


def prepare(path: str) -> list[str]:
    """A new database with the sessions."""
    upgrade(f"sqlite:///{path}")
    return [new_id() for _ in range(STREAMS)]


async def add_sessions(database: Database, ids: list[str]) -> None:
    from app.db.repositories import sessions

    empty: dict[str, object] = {
        name: {} for name in ("sandbox", "compaction", "limits", "approval", "metadata", "context")
    }
    usage = Usage().model_dump()
    for session_id in ids:
        row = {**empty, "status": Status.IDLE, "model": "m", "plan": [], "usage": usage, "run_usage": usage}
        row |= {"fingerprint": "", "created_at": now(), "updated_at": now()}
        await database.writer.write(lambda c, id=session_id, row=row: sessions.add(c, id=id, **row))  # type: ignore[misc]


async def run_all(path: str, ids: list[str], seconds: float, rounds: int, port: int, redis_pid: int) -> None:
    database = open_database(f"sqlite:///{path}")
    await add_sessions(database, ids)
    for _ in range(rounds):
        await measure(database, ids, None, seconds, path, redis_pid)
        await measure(database, ids, f"redis://127.0.0.1:{port}", seconds, path, redis_pid)
    await database.aclose()


async def write_for(path: str, url: str, seconds: float) -> None:
    """The other process: owns all sessions."""
    from app.db.repositories import sessions

    database = open_database(f"sqlite:///{path}")
    ids = list(await database.read(sessions.ids))
    async with node(database, url) as bus:
        await write_all(bus, ids, seconds + 2 * SETTLE_S)
    await database.aclose()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    loop_factory = uvicorn.Config("", loop="auto").get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        if options.write:
            runner.run(write_for(options.write, options.url, options.seconds))
            return 0
        if shutil.which("redis-server") is None:
            print("There is no redis-server.", file=sys.stderr)
            return 1
        from scripts.servers.redis import RedisServer

        with TemporaryDirectory() as folder:
            redis = RedisServer(Path(folder))
            path = f"{folder}/bench.db"
            try:
                ids = prepare(path)
                runner.run(run_all(path, ids, options.seconds, options.rounds, redis.port, redis.pid))
            finally:
                redis.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
