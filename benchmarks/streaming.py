"""What a streamed token costs: CPU time compared with the floor, and latency."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.http import Connection, StreamReader
from benchmarks.processes import PROVIDER, Bench, Server
from benchmarks.report import Result
from benchmarks.stats import median, percentile, spread

SETTLE_TOKENS = 25
"""Tokens of each stream before the measurement starts, to open connections and warm caches."""


@dataclass(frozen=True, slots=True)
class Load:
    """Parallel streams, tokens a second in each, seconds per round, and rounds."""

    streams: int
    rate: int
    seconds: float
    rounds: int

    @property
    def tokens(self) -> int:
        """Tokens of one stream; it outlasts the measurement by two seconds."""
        return SETTLE_TOKENS + round(self.rate * (self.seconds + 2))

    @property
    def model(self) -> str:
        return f"stream-{self.rate}-{self.tokens}"


Opener = Callable[[Load], Awaitable[list[StreamReader]]]


async def _open_floor(bench: Bench, load: Load) -> list[StreamReader]:
    readers = []
    for number in range(load.streams):
        readers.append(await StreamReader.open(bench.floor.port, f"/{load.model}", load.tokens))
        await _stagger(load, number)
    return readers


async def _open_service(bench: Bench, load: Load) -> list[StreamReader]:
    """A session for each stream, followed by one reader from before its run begins."""
    readers = []
    port = (bench.reading or bench.service).port
    async with Connection(bench.service.port) as connection:
        for number in range(load.streams):
            session = await connection.ask("POST", "/v1/sessions", {"model": f"{PROVIDER}/{load.model}"})
            path = f"/v1/sessions/{session['id']}"
            readers.append(await StreamReader.open(port, f"{path}/events", load.tokens))
            await connection.ask("POST", f"{path}/queue", {"content": "go"})
            await _stagger(load, number)
    return readers


async def _stagger(load: Load, number: int) -> None:
    """Spreads the streams over the time between two tokens, like independent streams."""
    await asyncio.sleep((number % 7 + 1) / 7 / load.rate)


async def measure_cpu(bench: Bench, load: Load) -> list[Result]:
    """CPU time per token, alternating rounds of floor and service."""
    floor, service = [], []
    for _ in range(load.rounds):
        floor.append(await _cpu_per_token_us(bench.floor, lambda load: _open_floor(bench, load), load))
        service.append(await _cpu_per_token_us(bench.service, lambda load: _open_service(bench, load), load))
    ratios = [ours / bare for ours, bare in zip(service, floor, strict=True)]
    return [
        Result(
            "CPU per streamed token",
            median(service),
            "µs",
            1.0,
            against=median(floor),
            against_what="floor",
            goal_is_ratio=True,
            paired_ratio=median(ratios),
            spread=spread(ratios),
            note=f"{load.streams} streams × {load.rate} tokens/s, {load.rounds} rounds of {load.seconds:g} s.",
        )
    ]


async def _cpu_per_token_us(server: Server, open_readers: Opener, load: Load) -> float:
    idle = await _idle_cpu_share(server)
    readers = await open_readers(load)
    for reader in readers:
        await reader.until(lambda reader=reader: len(reader.ages_ms) >= SETTLE_TOKENS)  # type: ignore[misc]
    cpu, seen = server.cpu_s(), _seen(readers)
    await asyncio.sleep(load.seconds)
    cpu, seen = server.cpu_s() - cpu, _seen(readers) - seen
    await _finish(readers)
    share = seen / (load.streams * load.rate * load.seconds)
    if share < 0.95:
        print(f"{share:.0%} of the tokens arrived in time: this machine is busy, or too slow", file=sys.stderr)
    return (cpu - idle * load.seconds) / seen * 1e6


async def _idle_cpu_share(server: Server, seconds: float = 0.5) -> float:
    before = server.cpu_s()
    await asyncio.sleep(seconds)
    return (server.cpu_s() - before) / seconds


def _seen(readers: list[StreamReader]) -> int:
    return sum(len(reader.ages_ms) for reader in readers)


async def _finish(readers: list[StreamReader]) -> None:
    """Waits for each reader's last token, so that rounds do not overlap."""
    for reader in readers:
        await reader.until(lambda reader=reader: len(reader.ages_ms) >= reader.limit)  # type: ignore[misc]
        reader.close()


async def measure_latency(bench: Bench, load: Load) -> list[Result]:
    """Time from the source's write to the reader, alternating rounds of floor and service."""
    floor: list[list[float]] = []
    service: list[list[float]] = []
    for _ in range(load.rounds):
        floor.append(await _ages(await _open_floor(bench, load)))
        service.append(await ages_of_tokens(bench, load))
    return [
        _latency_result(name, share, goal, floor, service) for name, share, goal in (("p50", 0.5, 2), ("p99", 0.99, 10))
    ]


async def ages_of_tokens(bench: Bench, load: Load) -> list[float]:
    """How old each token was when a reader of the service got it, in milliseconds."""
    return await _ages(await _open_service(bench, load))


async def _ages(readers: list[StreamReader]) -> list[float]:
    await _finish(readers)
    return [age for reader in readers for age in reader.ages_ms[SETTLE_TOKENS:]]


def _latency_result(
    name: str, share: float, goal: float, floor: list[list[float]], service: list[list[float]]
) -> Result:
    ours = [percentile(ages, share) for ages in service]
    return Result(
        f"Latency per streamed token, {name}",
        median(ours),
        "ms",
        goal,
        against=median([percentile(ages, share) for ages in floor]),
        against_what="floor",
        spread=spread(ours),
        note="From the source's write to the reader's read, nothing subtracted." if name == "p50" else "",
    )
