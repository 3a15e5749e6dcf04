"""Runs a fuzzer: draws cases, counts outcomes, and minimizes the first that crashes."""

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
"""Cases drawn from one seed: drawing gets slower with each case that must not be repeated."""
SHRINKING_S = 60
"""Seconds for minimizing a crash after the time is over."""
HUNG_S = 120
"""Seconds after which a case counts as hung; the slowest valid ones take about ten on a busy machine."""


class Crash(AssertionError):
    """A case had an outcome that is not allowed."""


Outcome = tuple[str, str]
"""The kind of a trial, and its outcome."""


class Fuzzer(Protocol):
    """A fuzzer of one interface. Entered before its first case and left after its last."""

    def cases(self) -> SearchStrategy[Any]:
        """The strategy for cases."""
        ...

    def attempt(self, case: Any) -> list[Outcome]:
        """Tries a case, which may be several things in sequence. Raises `Crash`, or anything else, for a forbidden
        outcome."""
        ...

    def shown(self, case: Any) -> str:
        """The case as needed in a regression test."""
        ...


@dataclass
class Result:
    """The number of cases, their outcomes by kind, and the crash that ended the run: its minimized case and the error
    it raised."""

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
    """Tries cases until the time is over, the given number was tried, or one crashes. A case that hangs is written to
    the file `hung`, if given, and ends the process. Counts into `result`."""
    result = result or Result()
    started = time.monotonic()

    def over() -> bool:
        late = seconds is not None and time.monotonic() - started > seconds
        return late or (inputs is not None and result.total >= inputs)

    number = 0
    with _watched(fuzzer, hung) as trying:
        while not over() and result.crash is None:
            # Each case that is drawn costs time, even if it comes after the last that is tried.
            size = BATCH if inputs is None else min(BATCH, inputs - result.total)
            result.crash = _batch(fuzzer, seed_ * 1_000_003 + number, size, result, over, trying)
            number += 1
            result.seconds = time.monotonic() - started
    return result


def _batch(
    fuzzer: Fuzzer, number: int, size: int, result: Result, over: Callable[[], bool], trying: Callable[[Any], None]
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
        max_examples=size,
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
    """Records the current case. A case that never ends can only be stopped by ending the process."""
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
