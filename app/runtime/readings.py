"""Metrics whose values are kept elsewhere, each read on request."""

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
    """Must be called on the server's event loop. `directories` contain the server's data."""
    _add_runs(metrics, registry, database)
    _add_readers(metrics, bus)
    _add_sandboxes(metrics, sandboxes)
    _add_database(metrics, database, directories)
    metrics.counter("palimpsest_log_lines_lost", "Log lines that could not be written.", lost_lines)
    loop = asyncio.get_running_loop()
    metrics.gauge("palimpsest_tasks", "Tasks of the event loop.", lambda: len(asyncio.all_tasks(loop)))
    metrics.gauge(
        "palimpsest_background_summaries", "Summaries being prepared in the background.", lambda: places.taken
    )
    metrics.counter(
        "palimpsest_background_summaries_refused",
        "Background summaries not started because all slots were taken.",
        lambda: places.refused,
    )


def _add_runs(metrics: Metrics, registry: Registry, database: Database) -> None:
    metrics.gauge("palimpsest_running_sessions", "Sessions with an owner in this process.", lambda: len(registry))
    metrics.gauge("palimpsest_waiting_runs", "Sessions that wait for their turn to run.", lambda: registry.waiting)
    metrics.counter(
        "palimpsest_runs_refused", "Requests refused because too many runs were waiting.", lambda: registry.refused
    )
    metrics.gauge(
        "palimpsest_pending_messages",
        "Pending messages in the queues of all sessions.",
        lambda: database.read_here(queue.count_all),
    )


def _add_readers(metrics: Metrics, bus: Bus) -> None:
    metrics.gauge("palimpsest_stream_readers", "Open event streams.", lambda: bus.readers)
    metrics.gauge("palimpsest_stream_reader_lag_events", "Events that the slowest reader is behind.", lambda: bus.lag)
    metrics.counter(
        "palimpsest_readers_refused", "Requests refused because too many streams were open.", lambda: bus.refused
    )
    metrics.gauge("palimpsest_channels", "Sessions that are running or followed.", lambda: len(bus))


def _add_sandboxes(metrics: Metrics, sandboxes: Sandboxes) -> None:
    slots = sandboxes.slots
    metrics.gauge("palimpsest_sandboxes", "Sandboxes that may run, including idle ones.", lambda: slots.taken)
    metrics.gauge("palimpsest_sandbox_waiters", "Calls that wait for a free sandbox.", lambda: slots.waiting)
    metrics.counter(
        "palimpsest_sandbox_connections_refused",
        "Connections refused because the session may not reach the host.",
        lambda: sandboxes.refused_connections,
    )
    metrics.counter("palimpsest_sandboxes_refused", "Calls that timed out waiting.", lambda: slots.refused)


def _add_database(metrics: Metrics, database: Database, directories: Sequence[Path]) -> None:
    writer = database.writer
    writer.observe = metrics.committed
    metrics.counter("palimpsest_database_commits", "Commits of the writer.", lambda: writer.commits)
    metrics.counter("palimpsest_database_writes", "Writes; many share a commit.", lambda: writer.writes)
    metrics.gauge("palimpsest_database_waiting_writes", "Writes that are in no commit yet.", lambda: writer.waiting)
    metrics.gauge("palimpsest_disk_free_bytes", "Free disk space for data.", lambda: free_bytes(directories))
