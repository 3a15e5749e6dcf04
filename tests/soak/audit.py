"""Holds the invariants against the database and against what is left on the machine."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

from tests.provider import FakeProvider
from tests.soak.checks import check_deleted, check_killed, check_seen, check_session
from tests.soak.containers import Containers
from tests.soak.database import integrity, load, reading, rows_left, seen_of, session_ids
from tests.soak.doing import doings_of
from tests.soak.host import Host
from tests.soak.ledger import Book
from tests.soak.proc import Cost, children_of, marked
from tests.soak.scrape import Gauges, scrape

REST_S = 60.0
"""How long a server may take until it holds no more than at its start: connections to the provider are kept for some
seconds, sandboxes for `host.SANDBOX_IDLE_S`."""
POLL_S = 0.5
RSS_MB = 60.0
"""Memory that a server may hold after its work above what it held at its start, in MB. CPython's arenas and the caches
that fill up with use take 30 to 40."""
FILES = 12
"""Open files above those of the start: readers of the database that were not needed before, and kept connections."""
THREADS = 12
"""Threads above those of the start: pools grow to their size as they are needed."""
ZERO = ("palimpsest_running_sessions", "palimpsest_stream_readers", "palimpsest_channels")
"""What a server at rest has none of."""
TASKS = "palimpsest_tasks"
"""The gauge of asyncio tasks, where the server has one."""


def audit_seen(path: Path, book: Book) -> None:
    """Looks up in a database what readers have seen of it, and holds the sessions at work to what is true at any
    instant; for the moments when the server is down. Notes what its end has met."""
    met: Counter[str] = Counter()
    with reading(path) as connection:
        for ledger in book.living():
            book.take(check_seen(seen_of(connection, ledger.id), ledger))
            if not ledger.settled and (stored := load(connection, ledger.id)) is not None:
                book.counts["looks at sessions under way"] += 1
                book.take(check_killed(stored, ledger))
                met.update(doings_of(stored))
    book.met(met)


def audit(path: Path, book: Book) -> None:
    """Checks every session of a database that is at rest."""
    if (found := integrity(path)) != "ok":
        book.violated("the database is whole", found[:500])
    with reading(path) as connection:
        for ledger in book.sessions.values():
            if ledger.deleted == "accepted":
                book.take(check_deleted(rows_left(connection, ledger.id), ledger))
            elif (stored := load(connection, ledger.id)) is not None:
                book.counts["sessions checked"] += 1
                book.counts["events checked"] += len(stored.events)
                book.counts["steps"] += stored.row["steps"]
                book.counts["tool calls"] += sum(event.type == "tool.result" for event in stored.events)
                book.counts["compactions"] += stored.row["compaction_count"]
                book.counts["recoveries"] += sum(event.type == "session.recovered" for event in stored.events)
                book.take(check_session(stored, ledger))
            elif ledger.deleted is None:
                book.violated("an accepted session is there", "it has no row", ledger.id)
        unknown = set(session_ids(connection)) - set(book.sessions)
    if unknown:
        book.violated("sessions are those that were made", f"{sorted(unknown)} were made by nobody")


def audit_provider(provider: FakeProvider, book: Book) -> None:
    """The strict provider has refused no history as malformed."""
    for refusal in provider.broken:
        book.violated("no malformed request", f"{refusal.rule}: {refusal.message[:300]}")
    for error in provider.script_errors:
        book.violated("the rig's model works", repr(error))


async def audit_deleted(data_dir: Path, containers: Containers, book: Book) -> None:
    """Nothing of a session that was deleted lies on the disk, and it has no container."""
    in_containers = await containers.sessions()
    for ledger in book.sessions.values():
        if ledger.deleted == "accepted":
            left = [name for name in ("workspaces", "outputs", "scratch") if (data_dir / name / ledger.id).exists()]
            left += ["a container"] * in_containers.count(ledger.id)
            if left:
                book.violated("a deleted session is gone", f"left of it: {left}", ledger.id)


async def rest_of(host: Host) -> tuple[Cost, Gauges]:
    """What the server holds now."""
    return await asyncio.to_thread(host.cost), await scrape(host.url)


async def audit_rest(host: Host, containers: Containers, digits: str, before: Cost, book: Book) -> tuple[Cost, Gauges]:
    """Waits for the server to hold no more than at its start, and says what it does hold where it never does."""
    deadline = time.monotonic() + REST_S
    while True:
        cost, gauges = await rest_of(host)
        wrong = _excess(before, cost, gauges)
        if left := await asyncio.to_thread(children_of, host.pid):
            wrong.append(f"{len(left)} child processes")
        if left := list(await asyncio.to_thread(marked, digits)):
            wrong.append(f"{len(left)} commands of the sessions")
        if running := await containers.running():
            wrong.append(f"{len(running)} containers run")
        if not wrong or time.monotonic() > deadline:
            for detail in wrong:
                book.violated("a server at rest holds what it held at its start", detail)
            return cost, gauges
        await asyncio.sleep(POLL_S)


def _excess(before: Cost, now: Cost, gauges: Gauges) -> list[str]:
    wrong = [f"{name} is {gauges[name]:g}" for name in ZERO if gauges.get(name)]
    if now.rss_mb > before.rss_mb + RSS_MB:
        wrong.append(f"resident memory: {before.rss_mb:.0f} MB at the start, {now.rss_mb:.0f} MB now")
    if now.files > before.files + FILES:
        wrong.append(f"open files: {before.files} at the start, {now.files} now")
    if now.threads > before.threads + THREADS:
        wrong.append(f"threads: {before.threads} at the start, {now.threads} now")
    return wrong
