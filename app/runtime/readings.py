"""The numbers that others keep and the metrics show, each read when it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from app.agent.places import Places
from app.db.engine import Database
from app.db.repositories import queue
from app.eventlog.bus import Bus
from app.logs import lost_lines
from app.runtime.health import free_bytes
from app.runtime.metrics import Metrics
from app.runtime.registry import Registry
from app.runtime.sandboxes import Sandboxes


def add_readings(
    metrics: Metrics,
    *,
    registry: Registry,
    bus: Bus,
    database: Database,
    sandboxes: Sandboxes,
    places: Places,
    directories: Sequence[Path],
) -> None:
    """Called on the server's event loop. `directories` are where its data lie."""
    _add_runs(metrics, registry, database)
    _add_readers(metrics, bus)
    _add_sandboxes(metrics, sandboxes)
    _add_database(metrics, database, directories)
    metrics.counter("palimpsest_log_lines_lost", "Log lines that could not be written.", lost_lines)
    loop = asyncio.get_running_loop()
    metrics.gauge("palimpsest_tasks", "Tasks of the event loop.", lambda: len(asyncio.all_tasks(loop)))
    metrics.gauge(
        "palimpsest_background_summaries", "Summaries that are being prepared meanwhile.", lambda: places.taken
    )
    metrics.counter(
        "palimpsest_background_summaries_refused",
        "Steps at which a summary would have been prepared, had there been a place.",
        lambda: places.refused,
    )


def _add_runs(metrics: Metrics, registry: Registry, database: Database) -> None:
    metrics.gauge("palimpsest_running_sessions", "Sessions with an owner in this process.", lambda: len(registry))
    metrics.gauge("palimpsest_waiting_runs", "Sessions that wait for their turn to run.", lambda: registry.waiting)
    metrics.counter(
        "palimpsest_runs_refused", "Requests refused since too many runs were waiting.", lambda: registry.refused
    )
    metrics.gauge(
        "palimpsest_pending_messages",
        "Messages in the queues of all sessions that are not delivered yet.",
        lambda: database.read_here(queue.count_all),
    )


def _add_readers(metrics: Metrics, bus: Bus) -> None:
    metrics.gauge("palimpsest_stream_readers", "Open event streams.", lambda: bus.readers)
    metrics.gauge("palimpsest_stream_reader_lag_events", "Events that the slowest reader is behind.", lambda: bus.lag)
    metrics.counter(
        "palimpsest_readers_refused", "Requests refused since too many streams were open.", lambda: bus.refused
    )
    metrics.gauge("palimpsest_channels", "Sessions that run or are followed.", lambda: len(bus))


def _add_sandboxes(metrics: Metrics, sandboxes: Sandboxes) -> None:
    slots = sandboxes.slots
    metrics.gauge("palimpsest_sandboxes", "Sandboxes that may run, idle ones too.", lambda: slots.taken)
    metrics.gauge("palimpsest_sandbox_waiters", "Calls that wait for a sandbox to get free.", lambda: slots.waiting)
    metrics.counter(
        "palimpsest_sandbox_connections_refused",
        "Connections to hosts that the session may not reach.",
        lambda: sandboxes.refused_connections,
    )
    metrics.counter("palimpsest_sandboxes_refused", "Calls that waited for a sandbox in vain.", lambda: slots.refused)


def _add_database(metrics: Metrics, database: Database, directories: Sequence[Path]) -> None:
    writer = database.writer
    writer.observe = metrics.committed
    metrics.counter("palimpsest_database_commits", "Commits of the writer.", lambda: writer.commits)
    metrics.counter("palimpsest_database_writes", "Writes; many share a commit.", lambda: writer.writes)
    metrics.gauge("palimpsest_database_waiting_writes", "Writes that no commit has begun with.", lambda: writer.waiting)
    metrics.gauge("palimpsest_disk_free_bytes", "Free space where the data lie.", lambda: free_bytes(directories))
