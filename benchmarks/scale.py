"""One service with many sessions: `python -m benchmarks.scale` measures it with 1,000 idle and 100 running ones, and
300 readers. See "At scale" in `docs/performance.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict

import uvicorn

from app.settings import Settings
from benchmarks.crowd import Crowd, at_work, settle_idle
from benchmarks.http import Connection
from benchmarks.observation import MIB, Figure, figures, memory_figures, observe
from benchmarks.processes import Server, start_service, start_source
from benchmarks.report import machine

SETTLE_S = 5.0
"""Seconds between the start of the last run and the first second measured."""
AFTER_S = 3.0
"""Seconds between the end of the load and the last memory reading."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description="Measures one service with many sessions: resident memory, event-loop lag, the time from a model's"
        " write to each reader, and response times under load. Service, model and readers run in a process each."
        " Needs Linux and two idle cores.",
    )
    parser.add_argument("--idle", type=int, default=1000, help="idle sessions that have made one run (default: 1000)")
    parser.add_argument("--running", type=int, default=100, help="sessions that stream at the same time (default: 100)")
    parser.add_argument(
        "--readers", type=int, default=300, help="event streams, spread over the running sessions (default: 300)"
    )
    parser.add_argument("--rate", type=float, default=20, help="tokens a second per running session (default: 20)")
    parser.add_argument("--step-tokens", type=int, default=200, help="tokens before each tool call (default: 200)")
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure (default: 60)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    if options.running < 1 or options.readers < options.running:
        parser.error("each running session needs a reader: --readers must be --running or more, and that 1 or more")
    if options.idle < 0 or options.rate <= 0 or options.step_tokens < 1 or options.seconds < 1:
        parser.error("--rate must be above 0, --step-tokens and --seconds 1 or more, --idle 0 or more")
    return options


async def measure(crowd: Crowd, seconds: float) -> list[Figure]:
    """Starts everything and measures it, in the table's order. Progress goes to standard error."""
    async with (
        start_source() as source,
        start_service(source, endless=(crowd.model,), settings=bounds(crowd)) as service,
    ):
        await asyncio.sleep(1)
        memory = [_resident("rss_start_mib", "Resident memory at the start", service)]
        _tell(f"creating {crowd.idle:,} idle sessions")
        await settle_idle(service, crowd.idle)
        memory.append(_resident("rss_idle_mib", f"— with {crowd.idle:,} idle sessions", service))
        _tell(f"starting {crowd.running:,} runs with {crowd.readers:,} readers, {crowd.rate:g} tokens/s each")
        async with at_work(service, crowd) as readers:
            await asyncio.sleep(SETTLE_S)
            _tell(f"measuring for {seconds:g} s")
            seen = await observe(service, source, readers, seconds)
            memory += memory_figures(seen)
            others = figures(seen, readers, crowd.readers / crowd.running)
        _tell("ending")
        await _quiet(service)
        await asyncio.sleep(AFTER_S)
        memory.append(_resident("rss_after_mib", "— when all have ended", service))
    return [*memory, *others]


def _resident(name: str, what: str, service: Server) -> Figure:
    return Figure(name, what, service.resident_bytes() / MIB, "MiB")


def bounds(crowd: Crowd) -> dict[str, str]:
    """Settings that allow the crowd if it exceeds the service's defaults."""
    asked = {"max_runs": crowd.running, "max_readers": crowd.readers}
    return {
        f"PALIMPSEST_{name.upper()}": str(number)
        for name, number in asked.items()
        if number > Settings.model_fields[name].default
    }


async def _quiet(service: Server) -> None:
    """Waits until no session runs."""
    async with asyncio.timeout(60), Connection(service.port) as connection:
        while (await connection.ask("GET", "/v1/sessions?status=running&limit=1"))["items"]:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


def _tell(progress: str) -> None:
    print(f"{progress} …", file=sys.stderr, flush=True)


def table(found: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    rows = [("what", "measured"), ("---", "---"), *((figure.what, figure.shown) for figure in found)]
    return "\n".join(f"| {what} | {value} |" for what, value in rows)


def as_json(found: Sequence[Figure], crowd: Crowd, seconds: float, size: dict[str, object]) -> dict[str, object]:
    """The whole report as a JSON document; an unknown bound is null."""
    values = {figure.name: figure.value if math.isfinite(figure.value) else None for figure in found}
    return {"machine": size, "load": {**asdict(crowd), "seconds": seconds}, "figures": values}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    crowd = Crowd(options.idle, options.running, options.readers, options.rate, options.step_tokens)
    size = machine()
    loop_factory = uvicorn.Config("", loop="auto").get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        found = runner.run(measure(crowd, options.seconds))
    if options.json:
        print(json.dumps(as_json(found, crowd, options.seconds, size), indent=2))
    else:
        print(", ".join(f"{name} {value}" for name, value in size.items()))
        print(f"\n{table(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
