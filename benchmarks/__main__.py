"""The command: runs the measurements and prints the table."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence

import uvicorn

from benchmarks.large_workspace import measure_workspace
from benchmarks.memory import measure_memory
from benchmarks.processes import Bench, start_all
from benchmarks.report import Result, as_json, machine, notes, table
from benchmarks.steps import measure_commands, measure_first_byte, measure_history, measure_steps
from benchmarks.stored import measure_listings, measure_start
from benchmarks.streaming import Load, measure_cpu, measure_latency

Measurement = Callable[[Bench], Awaitable[list[Result]]]

FULL: dict[str, Measurement] = {
    "cpu": lambda bench: measure_cpu(bench, Load(streams=20, rate=50, seconds=5, rounds=5)),
    "latency": lambda bench: measure_latency(bench, Load(streams=20, rate=50, seconds=8, rounds=3)),
    "steps": lambda bench: measure_steps(bench, long_messages=10_000, rounds=7),
    "commands": lambda bench: measure_commands(bench, steps=200),
    "first-byte": lambda bench: measure_first_byte(bench, posts=100),
    "history": lambda bench: measure_history(bench, messages=50_000, posts=50),
    "memory": lambda bench: measure_memory(bench, running=200, idle=600),
    "start": lambda bench: measure_start(bench, sessions=5_000, events=1_000_000),
    "listings": lambda bench: measure_listings(bench, idle=1_000, running=100, pages=200, files=10_000),
    "workspace": lambda bench: measure_workspace(bench, files=99_000, in_one_folder=10_000),
}

QUICK: dict[str, Measurement] = {
    "cpu": lambda bench: measure_cpu(bench, Load(streams=30, rate=50, seconds=2, rounds=1)),
    "latency": lambda bench: measure_latency(bench, Load(streams=20, rate=50, seconds=2, rounds=1)),
    "steps": lambda bench: measure_steps(bench, long_messages=2_000, rounds=3),
    "commands": lambda bench: measure_commands(bench, steps=40),
    "first-byte": lambda bench: measure_first_byte(bench, posts=30),
    "history": lambda bench: measure_history(bench, messages=2_000, posts=15),
    "memory": lambda bench: measure_memory(bench, running=150, idle=100),
    "start": lambda bench: measure_start(bench, sessions=500, events=100_000),
    "listings": lambda bench: measure_listings(bench, idle=100, running=10, pages=30, files=1_000),
    "workspace": lambda bench: measure_workspace(bench, files=2_000, in_one_folder=500),
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures the service against its goals: CPU time and latency per streamed token, the overhead of"
        " a step, the time from a message to the model request, memory, the start, listings and large workspaces. The"
        " service, a mock model and a bare pass-through for comparison run in separate processes. Needs Linux and an"
        " otherwise idle machine: other work affects every number except the ratios.",
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"what to measure: {', '.join(FULL)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="short rounds, in about a minute; numbers are rough")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    options = parser.parse_args(arguments)
    if unknown := [row for row in options.rows if row not in FULL]:
        parser.error(f"unknown row {', '.join(unknown)}; choose from {', '.join(FULL)}")
    return options


async def measure(rows: Sequence[str], measurements: dict[str, Measurement]) -> list[Result]:
    """The results of the rows, in the table's order."""
    results: list[Result] = []
    async with start_all() as bench:
        for name, measurement in measurements.items():
            if not rows or name in rows:
                print(f"measuring {name} …", file=sys.stderr, flush=True)
                results += await measurement(bench)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    size = machine()
    loop_factory = uvicorn.Config("", loop="auto").get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        results = runner.run(measure(options.rows, QUICK if options.quick else FULL))
    if options.json:
        print(json.dumps(as_json(results, size), indent=2))
    else:
        print(", ".join(f"{name} {value}" for name, value in size.items()))
        print(f"\n{table(results)}\n\n{notes(results)}")
    return 1 if options.strict and not all(result.met for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
