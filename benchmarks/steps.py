"""What the service itself adds to a step, and to the way from a message to the model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from benchmarks.http import Connection, StreamReader
from benchmarks.processes import PROVIDER, Bench
from benchmarks.report import Result
from benchmarks.stats import gaps, median, percentile, spread

MESSAGES_PER_STEP = 2
"""A step with a call leaves the model's message and the tool's."""

SHORT_MESSAGES = 50
WARM_STEPS = 5
"""Steps at the start of a run that are left out: the run reads its history, and a sandbox starts."""

THINKING_MS = 20
"""How long the model takes to answer while steps are measured: far less than a real one, yet long enough that what
the service does meanwhile is no overhead, as it is none in life."""


@dataclass
class Worker:
    """A session that makes steps, with the connections to its service and its source."""

    service: Connection
    source: Connection
    reader: StreamReader
    path: str
    model: str

    @classmethod
    @asynccontextmanager
    async def open(cls, bench: Bench, model: str) -> AsyncIterator[Self]:
        async with Connection(bench.service.port) as service, Connection(bench.source.port) as source:
            body = {"model": f"{PROVIDER}/{model}", "limits": {"max_steps": 1_000_000}}
            session = await service.ask("POST", "/v1/sessions", body)
            path = f"/v1/sessions/{session['id']}"
            reader = await StreamReader.open(bench.service.port, f"{path}/events")
            yield cls(service, source, reader, path, model)
            reader.close()

    async def run(self, steps: int, thinking_ms: int = 0) -> list[tuple[float, float, float]]:
        """One run of so many steps with a call each: begin, end and complete arrival of each model call, in seconds."""
        await self.source.ask("PUT", f"/plan/{self.model}/{steps}/{thinking_ms}")
        await self.service.ask("POST", f"{self.path}/queue", {"content": "go on"})
        await self.reader.until_idle()
        calls = await self.source.ask("GET", f"/calls/{self.model}")
        return [(begin, end, received) for begin, end, received in calls]


async def measure_steps(bench: Bench, *, long_messages: int, rounds: int) -> list[Result]:
    """The time between the end of one model call and the begin of the next, with a short and with a long history."""
    short: list[float] = []
    long: list[float] = []
    uploads: list[float] = []
    async with Worker.open(bench, "steps-long") as worker:
        await worker.run(long_messages // MESSAGES_PER_STEP)
        for _ in range(rounds):
            short.append(await _short_overhead_ms(bench))
            calls = await worker.run(WARM_STEPS + 20, THINKING_MS)
            long.append(_overhead_ms(calls[WARM_STEPS:]))
            uploads.append(median([(received - begin) * 1000 for begin, _, received in calls]))
    ratios = [much / little for much, little in zip(long, short, strict=True)]
    return [
        Result(
            f"Step with one tool call, {SHORT_MESSAGES} messages",
            median(short),
            "ms",
            10,
            spread=spread(short),
            note="From the last byte of one model answer to the first byte of the next request; the tool is"
            " `update_plan`, which runs no command.",
        ),
        Result(
            f"Step with one tool call, {long_messages:,} messages",
            median(long),
            "ms",
            1.05,
            against=median(short),
            against_what=f"{SHORT_MESSAGES} messages",
            goal_is_ratio=True,
            paired_ratio=median(ratios),
            spread=spread(ratios),
            note=f"Sending the long request's body takes another {median(uploads):.1f} ms, which is not counted.",
        ),
    ]


async def _short_overhead_ms(bench: Bench) -> float:
    """The overhead around 50 messages, in a new session: from ten steps before to ten steps after."""
    middle = SHORT_MESSAGES // MESSAGES_PER_STEP
    async with Worker.open(bench, "steps-short") as worker:
        calls = await worker.run(middle + 12, THINKING_MS)
    return _overhead_ms(calls[middle - 10 : middle + 10])


def _overhead_ms(calls: list[tuple[float, float, float]]) -> float:
    return median(gaps([(begin, end) for begin, end, _ in calls])) * 1000


async def measure_first_byte(bench: Bench, *, posts: int) -> list[Result]:
    """The time from the post of a message to an idle session until its model request begins."""
    times: list[float] = []
    async with Worker.open(bench, "reply") as worker:
        for _ in range(posts):
            calls = await worker.run(0)
            times.append((calls[0][0] - worker.service.sent_at) * 1000)
    warm = times[WARM_STEPS:]
    return [
        Result(
            "Message posted → model request",
            median(warm),
            "ms",
            10,
            note=f"To an idle session, {len(warm)} times; p90 {percentile(warm, 0.9):.1f} ms.",
        )
    ]
