"""`python -m benchmarks.cluster`: what a cluster costs, and how it grows with its workers.

Starts Postgres, Temporal, Redis, nodes and a model as processes on this machine, next to one server on its own:

- `scale`: steps per second of 1, 2 and 4 workers whose model answers at once, and the CPU time per step of each part.
  The cores of this machine are the limit, so what counts is that a step's CPU time does not grow with the workers.
- `simulated`: the same up to 8 workers whose runs mostly wait for their model, as real ones do, so that one machine has
  enough cores for all of them.
- `steps`: the overhead of a step, compared with one machine.
- `latency`: the age of a token when it reaches a reader, who is connected to another node than the one that accepted
  the message and the one that runs the session.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from benchmarks.http import Connection
from benchmarks.processes import PROVIDER, TICKS_PER_S, Bench, Server, start_service, start_source
from benchmarks.report import Result, machine, notes, table
from benchmarks.stats import median, percentile, spread
from benchmarks.steps import short_overhead_ms
from benchmarks.streaming import Load, ages_of_tokens
from scripts.servers import postgres
from scripts.servers.redis import RedisServer
from scripts.servers.temporal import stored_temporal

MOST_RUNS = 4
"""Runs at the same time per worker, where workers are compared."""

MOST_WORKERS = 8
ENDLESS = ("steps-short", *(f"steps-{number}" for number in range(MOST_RUNS * MOST_WORKERS)))
"""Models whose window never fills, one for each session."""

THINKING_MS = 1000
"""Response time of the model where workers wait for it: less than that of most real ones."""

MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    seconds: float
    rounds: int
    tokens_s: float


FULL, QUICK = Sizes(seconds=10, rounds=5, tokens_s=6), Sizes(seconds=4, rounds=2, tokens_s=2)


@dataclass
class Cluster:
    """A cluster's processes, on one database and one data directory. `parts` are its other servers: name → process."""

    source: Server
    settings: Mapping[str, str]
    parts: Mapping[str, int]
    stack: AsyncExitStack
    api: list[Server] = field(default_factory=list)
    workers: list[Server] = field(default_factory=list)

    async def add(self, role: str, count: int = 1, **settings: str) -> None:
        """Starts nodes, one after the other, as the first one migrates the database."""
        for _ in range(count):
            more = {**self.settings, "PALIMPSEST_ROLE": role, **settings}
            node = await self.stack.enter_async_context(start_service(self.source, endless=ENDLESS, settings=more))
            (self.api if role == "api" else self.workers).append(node)

    def cpu_s(self) -> dict[str, float]:
        """CPU time of each part so far, in seconds."""
        return {
            "workers": sum(node.cpu_s() for node in self.workers),
            "API nodes": sum(node.cpu_s() for node in self.api),
            "Temporal": tree_cpu_s(self.parts["Temporal"]),
            "Postgres": tree_cpu_s(self.parts["Postgres"]),
            "Redis": tree_cpu_s(self.parts["Redis"]),
        }

    def bench(self) -> Bench:
        """For measurements of one server: requests go to the first node, readers to the last one."""
        return Bench(self.source, self.source, self.api[0], self.api[-1])


def tree_cpu_s(pid: int) -> float:
    """CPU time of a process and of all its children, those that have ended too, in seconds."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        fields = rest.split()
        own = name.startswith(f"{pid} ")
        if own or int(fields[1]) == pid:
            total += sum(map(int, fields[11:15] if own else fields[11:13]))
    return total / TICKS_PER_S


@contextmanager
def servers() -> Iterator[tuple[dict[str, str], dict[str, int]]]:
    """Postgres, Temporal and Redis: the settings of nodes, and the processes by name."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palimpsest-bench-")))
        url = stack.enter_context(postgres.temporary_database())
        redis = RedisServer(folder)
        stack.callback(redis.kill)
        settings = {
            "PALIMPSEST_DATA_DIR": str(folder / "data"),
            "PALIMPSEST_DATABASE_URL": url,
            "PALIMPSEST_TEMPORAL": stored_temporal().address,
            "PALIMPSEST_BROKER": redis.url,
        }
        yield settings, {"Temporal": stored_temporal().pid, "Postgres": postgres.cluster().pid, "Redis": redis.pid}


@asynccontextmanager
async def start_cluster(source: Server, *, api: int, workers: int, **settings: str) -> AsyncIterator[Cluster]:
    """A cluster with so many nodes, whose workers have these settings."""
    with servers() as (common, parts):
        async with AsyncExitStack() as stack:
            cluster = Cluster(source, common, parts, stack)
            await cluster.add("api", api)
            await cluster.add("worker", workers, **settings)
            yield cluster


@dataclass(frozen=True, slots=True)
class Throughput:
    """Steps per second of running sessions, and the CPU time of each part per step, in milliseconds, without what it
    uses while no session runs."""

    steps_s: float
    cpu_ms: Mapping[str, float]

    @property
    def all_ms(self) -> float:
        return sum(self.cpu_ms.values())

    def told(self) -> str:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in self.cpu_ms.items() if value >= 0.005)
        return f"{self.steps_s:.1f} steps/s, CPU per step {self.all_ms:.1f} ms ({parts})"


async def throughput(
    source: Server, service: Server, runs: int, thinking_ms: int, seconds: float, cpu: Callable[[], Mapping[str, float]]
) -> Throughput:
    """Runs sessions that make steps without end, and measures them for some seconds while all of them run."""
    models = ENDLESS[1 : runs + 1]
    idle = await idle_shares(cpu)
    async with Connection(source.port) as model, Connection(service.port) as client:
        ids = []
        for name in models:
            await model.ask("PUT", f"/plan/{name}/{MANY}/{thinking_ms}")
            body = {"model": f"{PROVIDER}/{name}", "task": "begin", "limits": {"max_steps": MANY}}
            ids.append((await client.ask("POST", "/v1/sessions", body))["id"])
        for name in models:
            while len(await model.ask("GET", f"/calls/{name}")) < 5:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.05)
        before, begun = cpu(), time.monotonic()
        await asyncio.sleep(seconds)
        after, elapsed = cpu(), time.monotonic() - begun
        steps_s = sum([await rate(model, name, begun) for name in models])
        for name in models:
            await model.ask("PUT", f"/plan/{name}/0/0")
        for session_id in ids:
            while (await client.ask("GET", f"/v1/sessions/{session_id}"))["status"] != "idle":  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
            await client.ask("DELETE", f"/v1/sessions/{session_id}")
    used = {name: ((after[name] - before[name]) / elapsed - idle[name]) / steps_s * 1000 for name in after}
    return Throughput(steps_s, used)


async def idle_shares(cpu: Callable[[], Mapping[str, float]], seconds: float = 2) -> dict[str, float]:
    """The part of a core that each part of the service uses while no session runs."""
    before = cpu()
    await asyncio.sleep(seconds)
    return {name: (value - before[name]) / seconds for name, value in cpu().items()}


async def rate(model: Connection, name: str, since: float) -> float:
    """Steps per second of one session since a time: between the starts of its calls."""
    begun: list[float] = []
    while len(begun) < 3:
        begun = [begin for begin, _, _ in await model.ask("GET", f"/calls/{name}") if begin >= since]
        await asyncio.sleep(0.05)
    return (len(begun) - 1) / (begun[-1] - begun[0])


async def of_workers(cluster: Cluster, counts: tuple[int, ...], thinking_ms: int, seconds: float) -> list[Throughput]:
    """The throughput with growing numbers of workers, whose slots are all in use."""
    found = []
    for count in counts:
        await cluster.add("worker", count - len(cluster.workers), PALIMPSEST_MAX_RUNS=str(MOST_RUNS))
        runs = count * MOST_RUNS
        found.append(await throughput(cluster.source, cluster.api[0], runs, thinking_ms, seconds, cluster.cpu_s))
        say(f"{count} workers, {runs} sessions: {found[-1].told()}")
    return found


async def alone(source: Server, settings: Mapping[str, str], seconds: float) -> Throughput:
    """One machine, for comparison."""
    async with start_service(source, endless=ENDLESS, settings=settings) as service:
        return await throughput(source, service, MOST_RUNS, 0, seconds, lambda: {"server": service.cpu_s()})


async def measure_scale(source: Server, sizes: Sizes) -> list[Result]:
    """Without waits: the CPU time per step as workers are added, and compared with one machine."""
    counts = (1, 2, 4)
    on_sqlite = await alone(source, {}, sizes.seconds)
    say(f"one machine, {MOST_RUNS} sessions: {on_sqlite.told()}")
    with postgres.temporary_database() as url:
        on_postgres = await alone(source, {"PALIMPSEST_DATABASE_URL": url}, sizes.seconds)
    say(f"one machine with Postgres, {MOST_RUNS} sessions: {on_postgres.told()}")
    async with start_cluster(source, api=1, workers=0) as cluster:
        found = await of_workers(cluster, counts, 0, sizes.seconds)
    rates = ", ".join(f"{count}: {each.steps_s:.0f}" for count, each in zip(counts, found, strict=True))
    return [
        Result(
            "CPU per step, 4 workers",
            found[-1].all_ms,
            "ms",
            1.25,
            against=found[0].all_ms,
            against_what="1 worker",
            goal_is_ratio=True,
            note=f"All parts but the model. Steps/s by number of workers: {rates}; on one machine"
            f" {on_sqlite.steps_s:.0f} with SQLite and {on_postgres.steps_s:.0f} with Postgres.",
        ),
        Result(
            "CPU of the worker per step",
            found[0].cpu_ms["workers"],
            "ms",
            1.5,
            against=on_postgres.all_ms,
            against_what="one machine with Postgres",
            goal_is_ratio=True,
            note=f"One machine with SQLite: {on_sqlite.all_ms:.1f} ms.",
        ),
    ]


async def measure_simulated(source: Server, sizes: Sizes) -> list[Result]:
    """With waits: whether the throughput is proportional to the number of workers, and what the engine costs."""
    async with start_cluster(source, api=1, workers=0) as cluster:
        found = await of_workers(cluster, (1, 2, 4, 8), THINKING_MS, sizes.seconds)
    first, last = found[0], found[-1]
    engine_ms = last.cpu_ms["Temporal"]
    each_s = engine_ms * last.steps_s / MOST_WORKERS / MOST_RUNS
    return [
        Result(
            f"Time per step and worker, {MOST_WORKERS} workers",
            MOST_WORKERS / last.steps_s * 1000,
            "ms",
            1.1,
            against=1 / first.steps_s * 1000,
            against_what="1 worker",
            goal_is_ratio=True,
            note=f"{MOST_RUNS} runs per worker, whose model takes {THINKING_MS:,} ms: {first.steps_s:.2f} steps/s with"
            f" 1 worker, {last.steps_s:.2f} with {MOST_WORKERS}. Temporal used {engine_ms:.1f} ms of CPU per step:"
            f" {each_s:.1f} ms per second and session for heartbeats, whatever the number of steps.",
        )
    ]


async def measure_steps(source: Server, sizes: Sizes) -> list[Result]:
    """The overhead of a step on one machine, on one machine with Postgres, and in a cluster, in turn."""
    times: dict[str, list[float]] = {"alone": [], "postgres": [], "cluster": []}
    async with AsyncExitStack() as stack:
        alone = await stack.enter_async_context(start_service(source, endless=ENDLESS))
        with postgres.temporary_database() as url:
            own = {"PALIMPSEST_DATABASE_URL": url}
            on_postgres = await stack.enter_async_context(start_service(source, endless=ENDLESS, settings=own))
            cluster = await stack.enter_async_context(start_cluster(source, api=1, workers=1))
            for _ in range(sizes.rounds):
                times["alone"].append(await short_overhead_ms(Bench(source, source, alone)))
                times["postgres"].append(await short_overhead_ms(Bench(source, source, on_postgres)))
                times["cluster"].append(await short_overhead_ms(cluster.bench()))
            await stack.aclose()
    ratios = [much / little for much, little in zip(times["cluster"], times["alone"], strict=True)]
    return [
        Result(
            "Step with one tool call, cluster",
            median(times["cluster"]),
            "ms",
            15,
            against=median(times["alone"]),
            against_what="one machine",
            paired_ratio=median(ratios),
            spread=spread(times["cluster"]),
            note="From the last byte of one model answer to the first byte of the next request, without a command. One"
            f" machine with Postgres: {median(times['postgres']):.1f} ms.",
        )
    ]


async def measure_latency(source: Server, sizes: Sizes) -> list[Result]:
    """The age of tokens at readers of another node, of the accepting node, and on one machine, in turn."""
    load = Load(streams=20, rate=50, seconds=sizes.tokens_s, rounds=sizes.rounds)
    ages: dict[str, list[list[float]]] = {"other": [], "accepting": [], "alone": []}
    async with (
        start_service(source, endless=ENDLESS) as alone,
        start_cluster(source, api=2, workers=1) as cluster,
    ):
        here = Bench(source, source, cluster.api[0])
        for _ in range(sizes.rounds):
            ages["alone"].append(await ages_of_tokens(Bench(source, source, alone), load))
            ages["other"].append(await ages_of_tokens(cluster.bench(), load))
            ages["accepting"].append(await ages_of_tokens(here, load))
    return [_latency(name, share, goal, ages) for name, share, goal in (("p50", 0.5, 5), ("p99", 0.99, 20))]


def _latency(name: str, share: float, goal: float, ages: Mapping[str, list[list[float]]]) -> Result:
    by_place = {place: [percentile(each, share) for each in found] for place, found in ages.items()}
    return Result(
        f"Latency per streamed token, cluster, {name}",
        median(by_place["other"]),
        "ms",
        goal,
        against=median(by_place["alone"]),
        against_what="one machine",
        paired_ratio=median([much / little for much, little in zip(by_place["other"], by_place["alone"], strict=True)]),
        spread=spread(by_place["other"]),
        note="20 streams × 50 tokens/s, from the model's write to the read of a client that is connected to another"
        " node than the one that accepted the message and the one that runs the session. Connected to the accepting"
        f" node: {median(by_place['accepting']):.2f} ms.",
    )


ROWS: dict[str, Callable[[Server, Sizes], Awaitable[list[Result]]]] = {
    "scale": measure_scale,
    "simulated": measure_simulated,
    "steps": measure_steps,
    "latency": measure_latency,
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def measure(rows: list[str], sizes: Sizes) -> list[Result]:
    """The results of the rows, in the table's order."""
    results: list[Result] = []
    async with start_source() as source:
        for name, measurement in ROWS.items():
            if name in rows:
                say(f"measuring {name} …")
                results += await measurement(source, sizes)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description="Measures a cluster against its goals: throughput by number of workers, the overhead of a step, and"
        " the latency of streamed tokens. Needs Linux, Postgres, Redis and Temporal's development server.",
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"what to measure: {', '.join(ROWS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="short rounds; numbers are rough")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    options = parser.parse_args()
    if unknown := [row for row in options.rows if row not in ROWS]:
        parser.error(f"unknown row {', '.join(unknown)}; choose from {', '.join(ROWS)}")
    size = machine()
    loop_factory = uvicorn.Config("", loop="auto").get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        results = runner.run(measure(options.rows or [*ROWS], QUICK if options.quick else FULL))
    print(", ".join(f"{name} {value}" for name, value in size.items()))
    print(f"\n{table(results)}\n\n{notes(results)}")
    return 1 if options.strict and not all(result.met for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
