"""Runs a fuzzer: draws cases, counts what came of them, and makes the first that crashes as small as it can."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisException
from hypothesis.strategies import SearchStrategy

BATCH = 100
"""Cases that are drawn from one seed: the drawing grows slower with each that it must not draw again."""
SHRINKING_S = 60
"""How long a crash may be made smaller after the time is over, in seconds."""
HUNG_S = 120
"""Seconds after which a case has hung; the slowest that end by themselves take some ten on a busy machine."""


class Crash(AssertionError):
    """What came of a case is none of what may."""


Outcome = tuple[str, str]
"""The kind of something that was tried, and what came of it."""


class Fuzzer(Protocol):
    """One border. Entered before its first case and left after its last."""

    def cases(self) -> SearchStrategy[Any]:
        """What may be tried."""
        ...

    def attempt(self, case: Any) -> list[Outcome]:
        """Tries a case, which may be several things in turn. Raises `Crash`, or anything else, for one that must not
        have gone as it went."""
        ...

    def shown(self, case: Any) -> str:
        """The case as it goes into a regression test."""
        ...


@dataclass
class Result:
    """How many cases were tried, what came of them by kind and outcome, and the crash that ended it: its smallest case
    and what that raised."""

    total: int = 0
    counts: Counter[Outcome] = field(default_factory=Counter)
    crash: str | None = None
    seconds: float = 0.0


def run(
    fuzzer: Fuzzer,
    *,
    seed_: int,
    seconds: float | None = None,
    inputs: int | None = None,
    result: Result | None = None,
    hung: Path | None = None,
) -> Result:
    """Tries cases until the time is over or so many were tried, or one crashes. A case that does not end is written to
    the file `hung`, where one is given, and ends the process. `result` is what to count into."""
    result = result or Result()
    started = time.monotonic()

    def over() -> bool:
        late = seconds is not None and time.monotonic() - started > seconds
        return late or (inputs is not None and result.total >= inputs)

    number = 0
    with _watched(fuzzer, hung) as trying:
        while not over() and result.crash is None:
            result.crash = _batch(fuzzer, seed_ * 1_000_003 + number, result, over, trying)
            number += 1
            result.seconds = time.monotonic() - started
    return result


def _batch(
    fuzzer: Fuzzer, number: int, result: Result, over: Callable[[], bool], trying: Callable[[Any], None]
) -> str | None:
    crashed: list[tuple[Any, str, float]] = []

    def body(case: Any) -> None:
        if crashed and time.monotonic() - crashed[0][2] > SHRINKING_S:
            return
        if not crashed and over():
            return
        trying(case)
        try:
            outcomes = fuzzer.attempt(case)
        except HypothesisException:
            raise
        except Exception:
            crashed.append((case, traceback.format_exc(), time.monotonic()))
            raise
        if not crashed:
            result.total += 1
            result.counts.update(outcomes)

    check = settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )(seed(number)(given(fuzzer.cases())(body)))
    try:
        check()
    except Exception:
        if not crashed:
            raise
        case, raised, _ = min(crashed, key=lambda item: len(fuzzer.shown(item[0])))
        return f"{fuzzer.shown(case)}\n\n{raised}"
    return None


@contextmanager
def _watched(fuzzer: Fuzzer, hung: Path | None) -> Iterator[Callable[[Any], None]]:
    """Notes the case under way. Nothing but the process's end helps against one that never ends."""
    now: list[tuple[Any, float]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(1):
            if now and time.monotonic() - now[0][1] > HUNG_S:
                assert hung is not None
                hung.write_text(f"hung for {HUNG_S} s:\n{fuzzer.shown(now[0][0])}\n")
                print(f"a case has hung; it is in {hung}", flush=True)
                os._exit(1)

    def trying(case: Any) -> None:
        now[:] = [(case, time.monotonic())]

    watcher = threading.Thread(target=watch, name="fuzz-watch", daemon=True)
    if hung is not None:
        watcher.start()
    try:
        yield trying
    finally:
        done.set()
