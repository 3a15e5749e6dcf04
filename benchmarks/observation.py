"""Watches a service under load for a while: its memory, its event loop, its readers, and its response times."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.crowd import DeltaReader
from benchmarks.http import Connection
from benchmarks.processes import Server
from benchmarks.scrape import Histogram, at_most, between, histogram, total
from benchmarks.stats import median, percentile

MIB = 1024 * 1024
LAG = "palimpsest_event_loop_lag_seconds"
HEALTH_PERIOD_S = 0.1
LIST_PERIOD_S = 0.5
LOOK_PERIOD_S = 1.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the report. `name` is its key in JSON, `what` its label in the table."""

    name: str
    what: str
    value: float
    unit: str = ""

    @property
    def shown(self) -> str:
        number = (
            f"{self.value:,.0f}" if abs(self.value) >= 100 or self.value == int(self.value) else f"{self.value:.3g}"
        )
        return f"{number} {self.unit}".rstrip()


@dataclass(slots=True)
class Observation:
    """Measurements over `seconds`. Times are in milliseconds, sizes in bytes, processor times in seconds."""

    seconds: float = 0.0
    resident: list[int] = field(default_factory=list)
    open_files: int = 0
    events_behind: float = 0.0
    health_ms: list[float] = field(default_factory=list)
    list_ms: list[float] = field(default_factory=list)
    lag: Histogram = field(default_factory=dict)
    retries: float = 0.0
    still_running: float = 0.0
    sent: int = 0
    service_cpu_s: float = 0.0
    source_cpu_s: float = 0.0
    own_cpu_s: float = 0.0


async def observe(service: Server, source: Server, readers: Sequence[DeltaReader], seconds: float) -> Observation:
    """Measures for `seconds` seconds. Raises `RuntimeError` if a request is refused."""
    seen = Observation()
    async with Connection(service.port) as connection, Connection(source.port) as model:
        before, sent = await _scrape(connection), await model.ask("GET", "/sent")
        cpu = service.cpu_s(), source.cpu_s(), time.process_time()
        begun = time.monotonic()
        for reader in readers:
            reader.begin()

        def is_on() -> bool:
            return time.monotonic() < begun + seconds

        async with asyncio.TaskGroup() as group:
            group.create_task(ask_while(is_on, service, "/healthz", HEALTH_PERIOD_S, seen.health_ms))
            group.create_task(ask_while(is_on, service, "/v1/sessions", LIST_PERIOD_S, seen.list_ms))
            group.create_task(_look(is_on, service, connection, seen))
        seen.seconds = time.monotonic() - begun
        seen.sent = await model.ask("GET", "/sent") - sent
        now = service.cpu_s(), source.cpu_s(), time.process_time()
        seen.service_cpu_s, seen.source_cpu_s, seen.own_cpu_s = (b - a for a, b in zip(cpu, now, strict=True))
        after = await _scrape(connection)
    seen.lag = between(histogram(before, LAG), histogram(after, LAG))
    seen.retries = total(after, "palimpsest_step_retries_total") - total(before, "palimpsest_step_retries_total")
    seen.still_running = total(after, "palimpsest_running_sessions")
    return seen


async def _scrape(connection: Connection) -> str:
    status, body = await connection.request("GET", "/metrics")
    if status != 200:
        raise RuntimeError(f"GET /metrics: {status} {body.decode()}")
    return body.decode()


async def _every(period_s: float, is_on: Callable[[], bool], act: Callable[[], Any]) -> None:
    """Calls `act` on a fixed schedule: a slow call does not delay later ones."""
    due = time.monotonic()
    while is_on():
        await act()
        due = max(due + period_s, time.monotonic())
        await asyncio.sleep(max(due - time.monotonic(), 0))


async def ask_while(
    is_on: Callable[[], bool], server: Server, path: str, period_s: float, times_ms: list[float]
) -> None:
    """Measures response times over a persistent connection."""
    async with Connection(server.port) as connection:

        async def ask() -> None:
            await connection.ask("GET", path)
            times_ms.append((time.monotonic() - connection.sent_at) * 1000)

        await _every(period_s, is_on, ask)


async def _look(is_on: Callable[[], bool], service: Server, connection: Connection, seen: Observation) -> None:
    async def look() -> None:
        seen.resident.append(service.resident_bytes())
        seen.open_files = max(seen.open_files, service.open_files())
        text = await _scrape(connection)
        seen.events_behind = max(seen.events_behind, total(text, "palimpsest_stream_reader_lag_events"))

    await _every(LOOK_PERIOD_S, is_on, look)


def figures(seen: Observation, readers: Sequence[DeltaReader], readers_per_token: float) -> list[Figure]:
    """The figures of an observation, without memory; each token is due to `readers_per_token` readers."""
    ages = [age for reader in readers for age in reader.ages_ms]
    deltas = sum(reader.deltas for reader in readers)
    slowest = max(percentile(reader.ages_ms, 0.99) for reader in readers if reader.ages_ms)
    due = seen.sent * readers_per_token
    return [
        *_lag(seen.lag),
        *_times("delta", "Delta, from the model's write to the reader", ages),
        Figure("delta_slowest_reader_p99_ms", "— p99 of the slowest reader", slowest, "ms"),
        Figure("tokens_per_s", "Tokens that models sent", seen.sent / seen.seconds, "/s"),
        Figure("deliveries_per_s", "Tokens that readers got", len(ages) / seen.seconds, "/s"),
        Figure("delivered_percent", "— of those that were due", 100 * len(ages) / due if due else 0, "%"),
        Figure("coalesced_percent", "— that came in a delta with others", 100 * (1 - deltas / len(ages)), "%"),
        Figure("largest_delta_tokens", "— most in one delta", max(reader.largest for reader in readers), "tokens"),
        Figure("events_behind", "Durable events that a reader was behind, at most", seen.events_behind),
        Figure("readers_lost", "Readers whose stream ended", sum(reader.closed for reader in readers)),
        Figure("retries", "Model calls retried", seen.retries),
        Figure("still_running", "Sessions that run at the end", seen.still_running),
        *_times("healthz", "`GET /healthz`", seen.health_ms),
        *_times("sessions", "`GET /v1/sessions`", seen.list_ms),
        Figure("service_cpu_percent", "Processor, service", 100 * seen.service_cpu_s / seen.seconds, "% of a core"),
        Figure("source_cpu_percent", "— model", 100 * seen.source_cpu_s / seen.seconds, "% of a core"),
        Figure("own_cpu_percent", "— readers", 100 * seen.own_cpu_s / seen.seconds, "% of a core"),
        Figure("open_files", "Open files of the service", seen.open_files),
    ]


def memory_figures(seen: Observation) -> list[Figure]:
    """Memory under load. Growth is also given for the second half, since warm-up shows only in the first."""
    half = seen.resident[len(seen.resident) // 2 :]
    return [
        Figure("rss_load_begin_mib", "Resident memory under load, at first", seen.resident[0] / MIB, "MiB"),
        Figure("rss_load_end_mib", "— at the end", seen.resident[-1] / MIB, "MiB"),
        Figure("rss_growth_mib", "— growth", (seen.resident[-1] - seen.resident[0]) / MIB, "MiB"),
        Figure("rss_growth_second_half_mib", "— of it in the second half", (half[-1] - half[0]) / MIB, "MiB"),
    ]


def _lag(lag: Histogram) -> list[Figure]:
    """The histogram has only bucket edges, so these are upper bounds."""
    return [
        Figure(f"lag_{name}_ms", f"Event-loop lag, {name}, at most", at_most(lag, share) * 1000, "ms")
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    ] + [Figure("lag_samples", "— samples", lag[math.inf])]


def _times(name: str, what: str, times_ms: Sequence[float]) -> list[Figure]:
    return [
        Figure(f"{name}_p50_ms", f"{what}, p50", median(times_ms), "ms"),
        Figure(f"{name}_p99_ms", "— p99", percentile(times_ms, 0.99), "ms"),
        Figure(f"{name}_max_ms", "— max", max(times_ms), "ms"),
    ]
