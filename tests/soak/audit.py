"""Checks the invariants against the database and leftovers on the machine."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.db.lanes import LANE_PER_SESSION
from app.sandbox.host.threads import BULK, MAX_BULK
from app.sandbox.host.watch import MAX_WATCHERS, WATCHERS
from tests.databases import on_postgres
from tests.provider import FakeProvider
from tests.soak.checks import check_deleted, check_killed, check_seen, check_session
from tests.soak.containers import Containers
from tests.soak.database import integrity, load, reading, rows_left, running_ids, seen_of, session_ids
from tests.soak.doing import doings_of
from tests.soak.host import Host
from tests.soak.ledger import Book
from tests.soak.proc import Cost, children_of, connections_of, marked
from tests.soak.scrape import Gauges, scrape

REST_S = 130.0
"""How long a server may take until it holds no more than at its start: connections to the provider are kept for 60 s
and looked for every 60 s, those of callers for 75 s, sandboxes for `host.SANDBOX_IDLE_S`."""
POLL_S = 0.5
RSS_MB = 45.0
"""Memory that a server may hold after its work above what it held at its start, in MB, when garbage is gone and what is
free is given back. SQLite's page caches fill up to 18 (`app.db.sqlite`), the feed of all sessions to 4; the rest is
pages that the allocators cannot give back, as something in them lives, and goes with the most that was at work at once.
It does not go with time: in one life of 215 sessions, from 188 MB at first, 213 after two minutes, 225 after four, at
work, and 227 at rest, with 23 MB more in Python's arenas, of which objects took 3, and 16 in the C library's. What a
session leaves behind shows in `BLOCKS`."""
BLOCKS = 20_000
"""Python's small blocks of memory above those of the start, of 820,000, and of those of kept conversations; what is
left of each session, step or reader shows here. Measured with 71 sessions: 20,900 more, of which kept conversations had
9,200, statements that SQLAlchemy had compiled at their first use 5,200, at about 160 each, and the feed of all sessions
and the looks at quiet workspaces 1,000, which are bounded; the rest comes once, too: with 215 sessions it was 20,300.
An owner that each session leaves behind would add 220 for each."""
FILES = 2
"""Open files except sockets, above those at the start: a SQLite connection has two."""
LANES = LANE_PER_SESSION.connections if on_postgres() else 0
"""Writing threads, each with a connection, of which few are started before many sessions work."""
SOCKETS = 2 + LANES
"""Sockets above those at the start: the one for reading metrics, and one just being closed."""
THREADS = 2 + LANES
"""Threads above those at the start, when each pool but those of `GROWING` has reached its maximum number of users."""
GROWING = {WATCHERS: MAX_WATCHERS, BULK: MAX_BULK}
"""Pools with many threads that are rarely all needed at one instant, with the maximum number of each. Their threads are
counted separately: as many last as were ever needed at once."""
ZERO = ("palimpsest_running_sessions", "palimpsest_stream_readers", "palimpsest_channels")
"""Gauges that are zero on an idle server."""
KEPT = "palimpsest_kept_conversations_bytes"
"""The gauge of the memory that idle sessions keep for their next message, which is bounded."""
KEPT_BLOCK_BYTES = 200
"""Bytes of it for each small block: a message of 4,000 estimated bytes has 18 to 20 blocks."""
TASKS = "palimpsest_tasks"
"""The gauge of asyncio tasks."""


def audit_seen(path: Path | str, book: Book) -> None:
    """Checks against a database what readers have seen of it, and checks running sessions for what holds at any
    instant; used while the server is down. Records what its end interrupted."""
    met: Counter[str] = Counter()
    with reading(path) as connection:
        for ledger in book.living():
            book.take(check_seen(seen_of(connection, ledger.id), ledger))
            if not ledger.settled and (stored := load(connection, ledger.id)) is not None:
                book.counts["looks at sessions under way"] += 1
                book.take(check_killed(stored, ledger))
                met.update(doings_of(stored))
    book.met(met)


def is_at_work(path: Path | str, book: Book) -> bool:
    """Whether a session runs that its user will not delete; used while the server is stopped."""
    ids = {ledger.id for ledger in book.living() if not (ledger.settled or ledger.plan.is_deleted)}
    with reading(path) as connection:
        return not ids.isdisjoint(running_ids(connection))


def audit(path: Path | str, book: Book) -> None:
    """Checks every session of an idle database."""
    if (found := integrity(path)) != "ok":
        book.violated("the database is whole", found[:500])
    with reading(path) as connection:
        known = set(book.sessions)
        for ledger in book.sessions.values():
            if ledger.deleted == "accepted":
                book.take(check_deleted(rows_left(connection, ledger.id), ledger))
            elif (stored := load(connection, ledger.id)) is not None:
                book.counts["sessions checked"] += 1
                book.counts["events checked"] += len(stored.events)
                book.counts["steps"] += stored.row["steps"]
                book.counts["tool calls"] += sum(event.type == "tool.result" for event in stored.events)
                book.counts["background commands"] += sum(event.type == "command.started" for event in stored.events)
                book.counts["sub-agents"] += len(stored.children)
                known.update(child.row["id"] for child in stored.children)
                book.counts["compactions"] += stored.row["compaction_count"]
                book.counts["recoveries"] += sum(event.type == "session.recovered" for event in stored.events)
                book.take(check_session(stored, ledger))
            elif ledger.deleted is None:
                book.violated("an accepted session is there", "it has no row", ledger.id)
        unknown = set(session_ids(connection)) - known
    if unknown:
        book.violated("sessions are those that were made", f"{sorted(unknown)} were made by nobody")


def audit_provider(provider: FakeProvider, book: Book) -> None:
    """The strict provider has refused no history as malformed."""
    for refusal in provider.broken:
        book.violated("no malformed request", f"{refusal.rule}: {refusal.message[:300]}")
    for error in provider.script_errors:
        book.violated("the rig's model works", repr(error))


def audit_remote(calls: Sequence[tuple[int, int]], book: Book) -> None:
    """No call of the MCP server came twice; those of the warm-up have the number -1."""
    numbers = Counter(number for number, _ in calls if number >= 0)
    book.counts["MCP calls"] += numbers.total()
    for number, times in numbers.items():
        if times > 1:
            book.violated("no MCP call runs twice", f"call {number} came {times} times")


async def audit_deleted(data_dir: Path, containers: Containers, book: Book) -> None:
    """A deleted session has no files on the disk and no container."""
    in_containers = await containers.sessions()
    for ledger in book.sessions.values():
        if ledger.deleted == "accepted":
            left = [name for name in ("workspaces", "outputs", "scratch") if (data_dir / name / ledger.id).exists()]
            left += ["a container"] * in_containers.count(ledger.id)
            if left:
                book.violated("a deleted session is gone", f"left of it: {left}", ledger.id)


@dataclass(frozen=True, slots=True)
class Rest:
    """A server's resources, as reported by the kernel and by its metrics."""

    cost: Cost
    gauges: Gauges

    @property
    def tasks(self) -> float:
        """Tasks of asyncio."""
        return self.gauges[TASKS]

    @property
    def kept_bytes(self) -> float:
        """Memory that idle sessions keep."""
        return self.gauges.get(KEPT, 0)

    @property
    def at_work(self) -> list[str]:
        """Gauges above zero that are zero on an idle server."""
        return [f"{name} is {self.gauges[name]:g}" for name in ZERO if self.gauges.get(name)]


async def rest_of(host: Host) -> Rest:
    """The server's current resources."""
    gauges = await scrape(host.url)
    return Rest(await host.held(), gauges)


async def settled(host: Host) -> Rest:
    """The server's resources once it is idle without sandboxes, or after a timeout."""
    deadline = time.monotonic() + REST_S
    while True:
        rest = await rest_of(host)
        children = await asyncio.to_thread(children_of, host.pid)
        if not (rest.at_work or children) or time.monotonic() > deadline:
            return rest
        await asyncio.sleep(POLL_S)


async def audit_rest(host: Host, containers: Containers, digits: str, start: Rest, book: Book) -> Rest:
    """Waits until the server holds no more than at its start, and records the excess if it never does."""
    deadline = time.monotonic() + REST_S
    while True:
        rest = await rest_of(host)
        wrong = [*rest.at_work, *_excess(start, rest)]
        if any("sockets" in line for line in wrong):
            wrong.append(f"connections: {await asyncio.to_thread(connections_of, host.pid)}")
        if left := await asyncio.to_thread(children_of, host.pid):
            wrong.append(f"{len(left)} child processes")
        if left := list(await asyncio.to_thread(marked, digits)):
            wrong.append(f"{len(left)} commands of the sessions")
        if running := await containers.running():
            wrong.append(f"{len(running)} containers run")
        if not wrong or time.monotonic() > deadline:
            for detail in wrong:
                book.violated("a server at rest holds what it held at its start", detail)
            return rest
        await asyncio.sleep(POLL_S)


def _excess(start: Rest, now: Rest) -> list[str]:
    was, is_, kept = start.cost, now.cost, now.kept_bytes - start.kept_bytes
    counted = (
        ("MB of resident memory", was.rss_mb, is_.rss_mb, RSS_MB + kept / 1e6),
        ("small blocks of memory", was.blocks or 0, is_.blocks or 0, BLOCKS + kept / KEPT_BLOCK_BYTES),
        ("open files", was.files, is_.files, FILES),
        ("sockets", was.sockets, is_.sockets, SOCKETS),
        ("threads", _other_threads(was), _other_threads(is_), THREADS),
        *((f"threads of {pool}", 0, is_.pools.get(pool, 0), most) for pool, most in GROWING.items()),
        ("tasks", start.tasks, now.tasks, 0),
    )
    excess = [
        f"{before:.0f} {what} at the start, {after:.0f} now"
        for what, before, after, more in counted
        if after > before + more
    ]
    if any("threads" in line for line in excess):
        excess.append(f"threads by pool: {dict(was.pools)} at the start, {dict(is_.pools)} now")
    return excess


def _other_threads(cost: Cost) -> int:
    return cost.threads - sum(cost.pools.get(pool, 0) for pool in GROWING)
