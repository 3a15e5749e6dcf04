"""What this server has done and holds now, for Prometheus; values that others keep are read at each scrape."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import get_args

import orjson
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.agent.compaction.rounds import BackgroundSlots
from app.context.validator import Repair
from app.db.engine import Database
from app.db.repositories import mcp, queue, sessions, webhooks
from app.db.writer import Commit
from app.errors import PalimpsestError, StorageBusyError, StorageError, StorageFullError
from app.eventlog.bus import Bus
from app.eventlog.log import StreamItem
from app.logs import lost_lines
from app.runtime.background import in_background
from app.runtime.commands import BackgroundCommands
from app.runtime.dispatch import Dispatch
from app.runtime.kept import KeptConversations
from app.runtime.mcp.catalog import PREFIX
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.setup import OwnerCounts
from app.runtime.telemetry.health import free_bytes
from app.runtime.telemetry.tracing import news
from app.runtime.webhooks.endpoint import Counts
from app.runtime.workspaces.keeper import Workspaces
from app.sessions import CompactionReason, Outcome, Rung

LAG_PERIOD_S = 0.1
"""How often the event loop's lag is measured, in seconds: longer blocking is always seen, and a minute gives enough
samples for a percentile."""
COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 5.0)
"""Seconds; another process may block the writer for up to five."""
BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200)
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
TOOL_BUCKETS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
"""Seconds; a command may run for an hour."""
WAIT_BUCKETS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
"""Seconds; a run waits as long as no slot is free."""
OTHER = "other"
"""Label for tool names that models invent."""
MCP, CLIENT = "mcp", "client"
"""Labels for the tools of MCP servers, and for those that clients carry out: users choose their names."""
MOST_WAITING = 10_000
"""Calls that wait for a client, the newest, whose results get their label; those of deleted sessions get none."""
TOKEN_KINDS = ("input", "cache_read", "cache_write", "output", "reasoning")
Source = Callable[[], float]


class Metrics:
    """The metrics of one server. `tools` are the names that get their own label."""

    def __init__(self, tools: Collection[str] = ()) -> None:
        self._tools = frozenset(tools)
        self._client_calls: OrderedDict[str, None] = OrderedDict()
        self._registry = registry = CollectorRegistry()
        self._sources = _Sources()
        registry.register(self._sources)
        ProcessCollector(registry=registry)
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        self._events = counter("palimpsest_events", "Durable events.", ("type",))
        self._queued = counter("palimpsest_messages_queued", "Messages accepted.", ("mode",))
        self._runs = counter("palimpsest_runs", "Runs that ended.", ("outcome",))
        self._steps = counter("palimpsest_steps", "Steps that ended.", ("finish_reason",))
        self._retries = counter("palimpsest_step_retries", "Retried model calls.", ("code",))
        self._tokens = counter("palimpsest_tokens", "Tokens; reasoning is part of output.", ("kind",))
        self._repairs = counter(
            "palimpsest_context_repairs", "Repairs of requests before they were sent, each counted once.", ("kind",)
        )
        self._cost = counter("palimpsest_cost_usd", "Cost of steps with a known price.")
        self._unpriced = counter("palimpsest_unpriced_steps", "Steps without a known price.")
        self._calls = counter("palimpsest_tool_calls", "Tool calls.", ("tool", "status"))
        self._call_seconds = histogram(
            "palimpsest_tool_call_seconds", "Duration of tool calls.", ("tool",), buckets=TOOL_BUCKETS
        )
        self._compactions = counter("palimpsest_compactions", "Rounds that made a context smaller.", ("rung", "reason"))
        self._rungs_failed = counter(
            "palimpsest_compaction_failures", "Compaction rungs that failed.", ("rung", "code")
        )
        self._compaction_tokens = counter("palimpsest_compaction_tokens", "Tokens of summary calls.", ("kind",))
        self._compaction_cost = counter("palimpsest_compaction_cost_usd", "Cost of summary calls with a known price.")
        self._pruned = counter("palimpsest_outputs_pruned", "Tool outputs cleared from contexts.")
        self._commit_seconds = histogram(
            "palimpsest_database_commit_seconds", "Duration of commits.", buckets=COMMIT_BUCKETS
        )
        self._batch = histogram(
            "palimpsest_database_batch_writes", "Writes that share a commit.", buckets=BATCH_BUCKETS
        )
        self._refused = counter("palimpsest_database_refusals", "Commits that the database refused.", ("code",))
        self.run_wait = histogram(
            "palimpsest_run_wait_seconds", "Time from the start of a run to its owner's claim.", buckets=WAIT_BUCKETS
        )
        self._client_wait = histogram(
            "palimpsest_client_wait_seconds",
            "Time that calls waited for their result from a client.",
            ("ended_by",),
            buckets=TOOL_BUCKETS,
        )
        self._lag = histogram(
            "palimpsest_event_loop_lag_seconds", "How late the event loop wakes a sleeping task.", buckets=LAG_BUCKETS
        )
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Initializes counters used by alerts: otherwise their first count would not be an increase."""
        for outcome in Outcome:
            self._runs.labels(outcome)
        for reason in get_args(CompactionReason):
            for rung in get_args(Rung):
                self._compactions.labels(rung, reason)
        for refusal in (StorageError, StorageBusyError, StorageFullError):
            self._refused.labels(refusal.code)

    def gauge(self, name: str, documentation: str, read: Source) -> None:
        """Adds a gauge whose value is read when the metrics are rendered, in a thread."""
        self._sources.gauges.append((name, documentation, read))

    def counter(self, name: str, documentation: str, read: Source) -> None:
        """Like `gauge`, for a number that only grows; `_total` is appended to the name."""
        self._sources.counters.append((name, documentation, read))

    def observe(self, items: Sequence[StreamItem]) -> None:
        """Counts committed events."""
        for item in items:
            self._events.labels(item.type).inc()
        for item in news(items):
            match item.type:
                case "message.queued":
                    self._queued.labels(orjson.loads(item.data)["mode"]).inc()
                case "session.idle":
                    self._runs.labels(orjson.loads(item.data)["outcome"]).inc()
                case "step.finished":
                    self._step(orjson.loads(item.data))
                case "step.retrying":
                    self._retries.labels(orjson.loads(item.data)["code"]).inc()
                case "tool.call":
                    self._called(orjson.loads(item.data))
                case "tool.result":
                    self._call(orjson.loads(item.data))
                case "compaction.completed":
                    data = orjson.loads(item.data)
                    self._compactions.labels(data["rung"], data["reason"]).inc()
                    self._summary(data["usage"])
                case "compaction.failed":
                    data = orjson.loads(item.data)
                    self._rungs_failed.labels(data["rung"], data["code"]).inc()
                    self._summary(data["usage"])
                case "compaction.cancelled" | "compaction.discarded":
                    self._summary(orjson.loads(item.data)["usage"])
                case "prune.completed":
                    self._pruned.inc(orjson.loads(item.data)["outputs_pruned"])

    def committed(self, commit: Commit) -> None:
        """Counts a commit of the database, or its refusal."""
        if commit.refusal is not None:
            code = commit.refusal.code if isinstance(commit.refusal, PalimpsestError) else "internal_error"
            self._refused.labels(code).inc()
            return
        self._commit_seconds.observe(commit.seconds)
        self._batch.observe(commit.writes)

    def client_waited(self, ended_by: str, seconds: float) -> None:
        """Counts a call that waited for a client."""
        self._client_wait.labels(ended_by).observe(seconds)

    def repaired(self, repairs: Iterable[Repair]) -> None:
        """Counts stored repairs, which have no event."""
        for repair in repairs:
            self._repairs.labels(repair.kind).inc()

    def _summary(self, usage: dict[str, float | None] | None) -> None:
        if usage is None:
            return
        for kind in TOKEN_KINDS:
            self._compaction_tokens.labels(kind).inc(usage[f"{kind}_tokens"] or 0)
        self._compaction_cost.inc(usage["cost_usd"] or 0)

    def _step(self, data: dict[str, object]) -> None:
        usage = data["usage"]
        assert isinstance(usage, dict)
        self._steps.labels(data["finish_reason"]).inc()
        for kind in TOKEN_KINDS:
            self._tokens.labels(kind).inc(usage[f"{kind}_tokens"])
        if usage["cost_usd"] is None:
            self._unpriced.inc()
        else:
            self._cost.inc(usage["cost_usd"])

    def _called(self, data: dict[str, object]) -> None:
        if data.get("waits_for_client"):
            self._client_calls[str(data["call_id"])] = None
            if len(self._client_calls) > MOST_WAITING:
                self._client_calls.popitem(last=False)

    def _tool(self, name: str, call_id: str) -> str:
        """The label of the tool that was called."""
        if call_id in self._client_calls:
            del self._client_calls[call_id]
            return CLIENT
        if name in self._tools:
            return name
        return MCP if name.startswith(PREFIX) else OTHER

    def _call(self, data: dict[str, object]) -> None:
        tool = self._tool(str(data["name"]), str(data["call_id"]))
        self._calls.labels(tool, data["status"]).inc()
        duration_ms = data["duration_ms"]
        assert isinstance(duration_ms, int)
        self._call_seconds.labels(tool).observe(duration_ms / 1000)

    def render(self) -> bytes:
        """All metrics in Prometheus' text format. Reads system files, so it should run in a thread."""
        return generate_latest(self._registry)

    @asynccontextmanager
    async def measuring_lag(self) -> AsyncIterator[None]:
        """Measures the lag of the running event loop while the context lasts."""
        async with in_background(self._measure_lag(), "event-loop-lag"):
            yield

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_PERIOD_S
            await asyncio.sleep(LAG_PERIOD_S)
            self._lag.observe(max(0.0, loop.time() - due))


class _Sources(Collector):
    """Metrics whose values are kept elsewhere."""

    def __init__(self) -> None:
        self.gauges: list[tuple[str, str, Source]] = []
        self.counters: list[tuple[str, str, Source]] = []

    def collect(self) -> Iterable[Metric]:
        return self._families()

    def _families(self) -> Iterator[Metric]:
        for name, documentation, read in self.gauges:
            yield GaugeMetricFamily(name, documentation, value=_value(read))
        for name, documentation, read in self.counters:
            yield CounterMetricFamily(name, documentation, value=_value(read))


def _value(read: Source) -> float:
    """A value, NaN if it cannot be read, so that all other metrics are still reported."""
    try:
        return read()
    except (PalimpsestError, OSError):
        return math.nan


def add_sources(
    metrics: Metrics,
    *,
    registry: Dispatch,
    counts: OwnerCounts,
    bus: Bus,
    database: Database,
    sandboxes: Sandboxes,
    background_slots: BackgroundSlots,
    directories: Sequence[Path],
) -> None:
    """Must be called on the server's event loop. `directories` contain the server's data."""
    _add_runs(metrics, registry, database)
    counts.waited = metrics.run_wait.observe
    counts.client_waited = metrics.client_waited
    metrics.counter(
        "palimpsest_stale_owners",
        "Owners whose write was refused because another one had taken over.",
        lambda: counts.refused,
    )
    _add_readers(metrics, bus)
    _add_sandboxes(metrics, sandboxes)
    _add_database(metrics, database, directories)
    metrics.counter("palimpsest_log_lines_lost", "Log lines that could not be written.", lost_lines)
    loop = asyncio.get_running_loop()
    metrics.gauge("palimpsest_tasks", "Tasks of the event loop.", lambda: len(asyncio.all_tasks(loop)))
    metrics.gauge(
        "palimpsest_background_summaries", "Summaries being prepared in the background.", lambda: background_slots.taken
    )
    metrics.counter(
        "palimpsest_background_summaries_refused",
        "Background summaries not started because all slots were taken.",
        lambda: background_slots.refused,
    )


def _add_runs(metrics: Metrics, registry: Dispatch, database: Database) -> None:
    metrics.gauge("palimpsest_running_sessions", "Sessions with an owner in this process.", lambda: len(registry))
    metrics.gauge("palimpsest_waiting_runs", "Sessions that wait for their turn to run.", lambda: registry.waiting)
    metrics.counter(
        "palimpsest_runs_refused",
        "Requests refused because too many runs were waiting, or the key had too many.",
        lambda: registry.refused,
    )
    metrics.gauge(
        "palimpsest_pending_messages",
        "Pending messages in the queues of all sessions.",
        lambda: database.read_here(queue.count_all),
    )


def add_elsewhere(metrics: Metrics, commands: BackgroundCommands, kept: KeptConversations, database: Database) -> None:
    """Adds the metrics of work outside steps, and of idle sessions."""
    metrics.gauge(
        "palimpsest_kept_conversations_bytes", "Memory of idle sessions' conversations, estimated.", lambda: kept.bytes
    )
    metrics.gauge("palimpsest_background_commands", "Commands that run in the background.", lambda: len(commands))
    metrics.gauge(
        "palimpsest_mcp_servers",
        "Ready MCP servers of running sessions, on all nodes.",
        lambda: database.read_here(mcp.count_ready),
    )
    metrics.gauge(
        "palimpsest_running_subagents",
        "Running sub-agents, on all nodes.",
        lambda: database.read_here(sessions.count_subagents),
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
        lambda: sandboxes.kinds.refused_connections,
    )
    metrics.counter("palimpsest_sandboxes_refused", "Waits for a sandbox that timed out.", lambda: slots.refused)


def add_webhooks(metrics: Metrics, counts: Counts, database: Database) -> None:
    """Adds the metrics of webhooks."""
    metrics.counter("palimpsest_webhook_deliveries", "Events that receivers accepted.", lambda: counts.delivered)
    metrics.counter("palimpsest_webhook_failures", "Attempts that failed.", lambda: counts.failed)
    metrics.gauge(
        "palimpsest_webhooks_failing",
        "Webhooks with a failed delivery that will be retried.",
        lambda: database.read_here(webhooks.count_failing),
    )
    metrics.gauge(
        "palimpsest_webhooks_disabled",
        "Webhooks that are disabled.",
        lambda: database.read_here(lambda c: webhooks.count(c, webhooks.DISABLED)),
    )


def add_workspaces(metrics: Metrics, workspaces: Workspaces) -> None:
    """Adds the metrics of a store of workspaces."""
    storing = workspaces.storing
    metrics.counter("palimpsest_workspace_snapshots", "Snapshots of workspaces taken.", lambda: storing.taken)
    metrics.counter(
        "palimpsest_workspace_reading_seconds",
        "Time that snapshots read workspaces; a command would wait meanwhile.",
        lambda: storing.reading_s,
    )
    metrics.gauge("palimpsest_workspaces_unstored", "Workspaces whose last snapshot failed.", lambda: storing.failing)


def _add_database(metrics: Metrics, database: Database, directories: Sequence[Path]) -> None:
    writer = database.writer
    writer.observe = metrics.committed
    metrics.counter("palimpsest_database_commits", "Commits of the writer.", lambda: writer.commits)
    metrics.counter("palimpsest_database_writes", "Writes; many share a commit.", lambda: writer.writes)
    metrics.gauge("palimpsest_database_waiting_writes", "Writes that are not committed yet.", lambda: writer.waiting)
    metrics.gauge("palimpsest_disk_free_bytes", "Free disk space for data.", lambda: free_bytes(directories))
