"""Many sessions at once: idle ones, ones that stream and occasionally call a tool, and their readers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.http import Connection, StreamReader
from benchmarks.memory import run_to_idle
from benchmarks.processes import PROVIDER, Server
from benchmarks.source import STAMP, age_ms

SIDE_BY_SIDE = 4
"""Idle sessions created at the same time."""
MAX_STEPS = 1_000_000

_DELTA = re.compile(rb"event: text\.delta\ndata: ([^\n]*)\n")


@dataclass(frozen=True, slots=True)
class Crowd:
    """Numbers of sessions and readers, and the load: `rate` tokens a second in steps of `step_tokens`, each of which
    ends with a tool call."""

    idle: int
    running: int
    readers: int
    rate: float
    step_tokens: int

    @property
    def model(self) -> str:
        return f"work-{self.rate:g}-{self.step_tokens}"

    @property
    def step_s(self) -> float:
        """Seconds that a step streams."""
        return self.step_tokens / self.rate


class DeltaReader(StreamReader):
    """Records the age of each token that arrives in a delta; events that repeat a text do not count. `deltas` counts
    the deltas, `largest` is the maximum of tokens in one delta."""

    def __init__(self, request: bytes, limit: int) -> None:
        super().__init__(request, limit)
        self.deltas = 0
        self.largest = 0

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        whole, end, self._rest = (self._rest + data).rpartition(b"\n\n")
        for text in _DELTA.findall(whole + end):
            stamps = STAMP.findall(text)
            self.ages_ms += [age_ms(digits, now) for digits in stamps]
            self.deltas += 1
            self.largest = max(self.largest, len(stamps))
        if self._waiting:
            self._tell()

    def begin(self) -> None:
        """Discards everything recorded so far."""
        self.ages_ms = []
        self.deltas = self.largest = 0


async def settle_idle(server: Server, count: int) -> None:
    """Creates sessions that have each made one run."""
    async with asyncio.TaskGroup() as group:
        for place in range(SIDE_BY_SIDE):
            group.create_task(run_to_idle(server, len(range(place, count, SIDE_BY_SIDE))))


@asynccontextmanager
async def at_work(server: Server, crowd: Crowd) -> AsyncIterator[list[DeltaReader]]:
    """The running sessions, started one after the other over the length of a step, so that their tool calls are spread;
    and their readers, distributed evenly and connected before the run starts. All end with the context."""
    readers: list[DeltaReader] = []
    paths: list[str] = []
    async with Connection(server.port) as connection:
        begun = time.monotonic()
        for number in range(crowd.running):
            await asyncio.sleep(begun + number * crowd.step_s / crowd.running - time.monotonic())
            body = {"model": f"{PROVIDER}/{crowd.model}", "limits": {"max_steps": MAX_STEPS}}
            session = await connection.ask("POST", "/v1/sessions", body)
            paths.append(f"/v1/sessions/{session['id']}")
            for _ in range(number, crowd.readers, crowd.running):
                readers.append(await DeltaReader.open(server.port, f"{paths[-1]}/events"))
            await connection.ask("POST", f"{paths[-1]}/queue", {"content": "go"})
        for reader in readers:
            await reader.until(lambda reader=reader: len(reader.ages_ms) > 0)  # type: ignore[misc]
        yield readers
        for path in paths:
            await connection.ask("POST", f"{path}/cancel")
    for reader in readers:
        reader.close()
