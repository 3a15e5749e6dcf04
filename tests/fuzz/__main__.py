"""The command: `python -m tests.fuzz`."""

from __future__ import annotations

import argparse
import logging
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.logs import configure_logging
from tests.fuzz.engine import Result, run

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

ENDED = 130
"""The exit code of a run that was stopped, as in shells after Ctrl-C."""


def fuzzer(name: str) -> AbstractContextManager[Any]:
    """The fuzzer of that name; each is loaded only if requested."""
    match name:
        case "api":
            from tests.fuzz.api import ApiFuzzer

            return ApiFuzzer()
        case "streams":
            from tests.fuzz.streams import StreamFuzzer

            return StreamFuzzer()
        case "sessions":
            from tests.fuzz.sessions import SessionFuzzer

            return SessionFuzzer()
        case "tools":
            from tests.fuzz.tools import ToolFuzzer

            return ToolFuzzer()
        case _:
            from tests.fuzz.paths import PathFuzzer

            return PathFuzzer()


NAMES = ("api", "streams", "sessions", "tools", "paths")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Tries hostile input, drawn from a seed, at the borders of the service, one after the other, and"
        " prints what came of it. The first crash is made small, stored and printed, and ends with 1.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to run each (default: 10)")
    parser.add_argument("--seed", type=int, help="draws the same again (default: a random one, which is printed)")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()), help="where a crash is stored")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in NAMES]:
        parser.error(f"there is no fuzzer {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return given


def summary(name: str, seed: int, result: Result) -> str:
    """A fuzzer's cases as a table of kinds and outcomes, most frequent first."""
    lines = [
        f"{name}: {result.total:,} inputs with {sum(result.counts.values()):,} outcomes in {result.seconds:.0f} s, seed"
        f" {seed}, {len(result.counts)} different ones, {'1 crash' if result.crash else 'no crash'}"
    ]
    lines += [f"  {count:>9,}  {kind}: {outcome}" for (kind, outcome), count in result.counts.most_common()]
    return "\n".join(lines)


def run_one(name: str, seed: int, given: argparse.Namespace) -> int:
    """Runs one fuzzer and prints its results, even if stopped; returns the exit code."""
    result = Result()
    stored = given.out / f"palimpsest-fuzz-{name}-{seed}.txt"
    try:
        with fuzzer(name) as border:
            run(border, seed_=seed, seconds=given.minutes * 60, result=result, hung=stored)
    except KeyboardInterrupt:
        print(f"{summary(name, seed, result)}\nended before its time", flush=True)
        return ENDED
    print(summary(name, seed, result), flush=True)
    if result.crash is None:
        return 0
    stored.write_text(result.crash)
    print(f"\n{result.crash}\nstored in {stored}", flush=True)
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    configure_logging("error", "json")
    # The server keeps writing to clients that have left; asyncio logs each write.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    codes = []
    for name in given.names or NAMES:
        codes.append(run_one(name, seed, given))
        if codes[-1] == ENDED:
            break
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
