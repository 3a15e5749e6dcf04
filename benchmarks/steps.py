"""What the service adds to a step, and to the time from a message to the model request."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from benchmarks.http import Connection, StreamReader
from benchmarks.opencode import opencode_steps_ms
from benchmarks.processes import PROVIDER, Bench, start_service
from benchmarks.report import Result
from benchmarks.stats import gaps, median, percentile, spread

MESSAGES_PER_STEP = 2
"""A step with a call adds the model's message and the tool's."""

SHORT_MESSAGES = 50
STEP_MESSAGES = 100
"""Messages of the short history whose steps are compared with those of a long one."""
WARM_STEPS = 5
"""Steps excluded at the start of a run, where it reads its history and a sandbox starts."""

THINKING_MS = 20
"""Response time of the model while steps are measured: far below a real one's, yet long enough that the service's
concurrent work does not count as overhead, as in production."""


COMMAND_THINKING_MS = 100
"""As THINKING_MS, for steps with a command."""

GOALS_MS = {"bubblewrap": 12, "docker": 15}
"""What a step with one `echo` may take."""

IMAGE = os.environ.get("PALIMPSEST_SANDBOX_IMAGE", "palimpsest/test-busybox:latest")
"""Docker's image of the measured commands; `.ci/sandbox-image` makes the default one without a registry."""


@dataclass
class Worker:
    """A session that runs steps, with connections to its service and its source."""

    service: Connection
    source: Connection
    reader: StreamReader
    path: str
    model: str

    @classmethod
    @asynccontextmanager
    async def open(cls, bench: Bench, model: str, **fields: Any) -> AsyncIterator[Self]:
        """`fields` are further fields of the session."""
        async with Connection(bench.service.port) as service, Connection(bench.source.port) as source:
            body = {"model": f"{PROVIDER}/{model}", "limits": {"max_steps": 1_000_000}, **fields}
            session = await service.ask("POST", "/v1/sessions", body)
            path = f"/v1/sessions/{session['id']}"
            reader = await StreamReader.open(bench.service.port, f"{path}/events?after={session['last_seq']}")
            yield cls(service, source, reader, path, model)
            reader.close()

    async def run(self, steps: int, thinking_ms: int = 0) -> list[tuple[float, float, float]]:
        """One run of `steps` steps with a call each: start, end and complete arrival of each model call, in seconds."""
        await self.source.ask("PUT", f"/plan/{self.model}/{steps}/{thinking_ms}")
        await self.service.ask("POST", f"{self.path}/queue", {"content": "go on"})
        await self.reader.until_idle()
        calls = await self.source.ask("GET", f"/calls/{self.model}")
        return [(begin, end, received) for begin, end, received in calls]

    async def first_byte_ms(self) -> float:
        """The time from posting a message until its model request starts."""
        calls = await self.run(0)
        return (calls[0][0] - self.service.sent_at) * 1000

    async def change(self) -> None:
        """Changes the session, so that the next message's run reads the conversation instead of continuing it."""
        await self.service.ask("PATCH", self.path, {"metadata": {}})

    async def compact(self) -> None:
        """Runs a compaction, which must complete."""
        await self.service.ask("POST", f"{self.path}/compactions", {})
        while (await self.service.ask("GET", self.path))["compaction"]["in_progress"]:  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.1)
        session = await self.service.ask("GET", self.path)
        assert session["compaction"]["count"] == 1, "the history was not compacted"


async def measure_steps(bench: Bench, *, long_messages: int, rounds: int) -> list[Result]:
    """The time between the end of one model call and the start of the next, with a short and with a long history."""
    short: list[float] = []
    long: list[float] = []
    uploads: list[float] = []
    async with Worker.open(bench, "steps-long", history=_history(long_messages)) as worker:
        await worker.run(WARM_STEPS)
        for _ in range(rounds):
            short.append(await short_overhead_ms(bench))
            calls = await worker.run(WARM_STEPS + 20, THINKING_MS)
            long.append(_overhead_ms(calls[WARM_STEPS:]))
            uploads.append(median([(received - begin) * 1000 for begin, _, received in calls]))
    ratios = [much / little for much, little in zip(long, short, strict=True)]
    return [
        Result(
            f"Step with one tool call, {STEP_MESSAGES} messages",
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
            against_what=f"{STEP_MESSAGES} messages",
            goal_is_ratio=True,
            paired_ratio=median(ratios),
            spread=spread(ratios),
            note=f"Sending the long request's body takes another {median(uploads):.1f} ms, which is not counted.",
        ),
    ]


async def measure_commands(bench: Bench, *, steps: int) -> list[Result]:
    """What a step with one `echo` takes above the model's own time, in each sandbox that this machine has."""
    results: list[Result] = []
    for kind, goal_ms in GOALS_MS.items():
        settings = {"PALIMPSEST_SANDBOX": kind, "PALIMPSEST_SANDBOX_IMAGE": IMAGE}
        async with start_service(bench.source, endless=[f"echo-{kind}"], settings=settings) as service:
            try:
                async with Worker.open(replace(bench, service=service), f"echo-{kind}") as worker:
                    calls = (await worker.run(WARM_STEPS + steps, COMMAND_THINKING_MS))[WARM_STEPS:]
                    # Its server is killed, which would leave the container.
                    await worker.service.ask("DELETE", worker.path)
            except RuntimeError as error:
                print(f"no {kind}: {error}", file=sys.stderr)
                continue
        times = [gap * 1000 for gap in gaps([(begin, end) for begin, end, _ in calls])]
        part = len(times) // 4
        results.append(
            Result(
                f"Step with one `echo`, {kind}",
                median(times),
                "ms",
                goal_ms,
                spread=spread(times),
                note=f"{len(times)} steps with {COMMAND_THINKING_MS} ms of the model's time each; p90"
                f" {percentile(times, 0.9):.1f} ms; the last quarter takes"
                f" {median(times[-part:]) / median(times[:part]):.2f} times as long as the first.",
            )
        )
    peer = await opencode_steps_ms(bench.source, steps, WARM_STEPS, COMMAND_THINKING_MS)
    if results and peer is not None:
        version, times = peer
        results.append(
            Result(
                "The first of these, compared with OpenCode",
                results[0].value,
                "ms",
                0.167,
                against=median(times),
                against_what=f"OpenCode {version}",
                goal_is_ratio=True,
                note=f"The same model and `echo` in its server, {len(times)} steps in an empty folder, without a"
                f" sandbox; p90 {percentile(times, 0.9):.0f} ms.",
            )
        )
    return results


async def short_overhead_ms(bench: Bench) -> float:
    """The overhead at about `STEP_MESSAGES` messages in a new session, of which all but ten steps are imported."""
    history = _history(STEP_MESSAGES - 10 * MESSAGES_PER_STEP)
    async with Worker.open(bench, "steps-short", history=history) as worker:
        calls = await worker.run(WARM_STEPS + 20, THINKING_MS)
    return _overhead_ms(calls[WARM_STEPS:])


def _overhead_ms(calls: list[tuple[float, float, float]]) -> float:
    return median(gaps([(begin, end) for begin, end, _ in calls])) * 1000


async def measure_first_byte(bench: Bench, *, posts: int) -> list[Result]:
    """The time from posting a message to an idle session until its model request starts."""
    times: list[float] = []
    async with Worker.open(bench, "reply") as worker:
        for _ in range(posts):
            times.append(await worker.first_byte_ms())
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


async def measure_history(bench: Bench, *, messages: int, posts: int) -> list[Result]:
    """The same with a short history, and with a long one whose summary covers all but the same number of messages."""
    short: list[float] = []
    long: list[float] = []
    keep = {"policy": "threshold", "recent_messages_to_keep": SHORT_MESSAGES}
    async with (
        Worker.open(bench, "history-short", history=_history(SHORT_MESSAGES), compaction=keep) as few,
        Worker.open(bench, "history-long", history=_history(messages), compaction=keep) as many,
    ):
        await many.compact()
        for _ in range(posts):
            for worker, times in ((few, short), (many, long)):
                await worker.change()
                times.append(await worker.first_byte_ms())
    short, long = short[WARM_STEPS:], long[WARM_STEPS:]
    ratios = [much / little for much, little in zip(long, short, strict=True)]
    return [
        Result(
            f"Message posted → model request, {messages:,} messages, compacted",
            median(long),
            "ms",
            50,
            against=median(short),
            against_what=f"{SHORT_MESSAGES} messages",
            paired_ratio=median(ratios),
            spread=spread(ratios),
            note=f"To idle sessions with imported histories that are read again, {len(long)} times in turn;"
            f" p90 {percentile(long, 0.9):.1f} ms.",
        )
    ]


def _history(messages: int) -> dict[str, Any]:
    """A history to import: turns of a request, a call, its result and an answer."""
    turns = (_turn(number) for number in range(messages // 4 + 1))
    return {"format": "openai", "messages": [message for turn in turns for message in turn][:messages]}


def _turn(number: int) -> list[dict[str, Any]]:
    function = {"name": "read_file", "arguments": f'{{"path": "part-{number}.txt"}}'}
    return [
        {"role": "user", "content": f"Do part {number} of the work."},
        {
            "role": "assistant",
            "content": "I read it first.",
            "tool_calls": [{"id": f"call-{number}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"call-{number}", "content": f"part {number}: " + "work " * 100},
        {"role": "assistant", "content": f"Part {number} is done."},
    ]
