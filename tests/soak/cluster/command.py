"""The output of a cluster's run, and how its options come from the command line."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from tests.requirements import missing
from tests.soak.cluster.plan import CLUSTER_FAULTS, ClusterFault, cluster_faults
from tests.soak.cluster.rig import ClusterResult, Options, run
from tests.soak.ending import ENDED, ended_by_signals, say
from tests.soak.report import listed, violations

MOST_FAULTS = 10_000
"""More than any run has time for."""


def execute(options: Options, *, as_document: bool = False) -> int:
    """Runs it and prints the result; returns the exit code. On SIGTERM everything is ended, as on Ctrl-C."""
    if (reason := absent()) is not None:
        print(reason, file=sys.stderr)
        return 2
    # The provider and the witness lose connections to nodes that were killed; asyncio logs each.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        result = asyncio.run(ended_by_signals(run(options, say)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("ended before its time; nothing was checked", file=sys.stderr)
        return ENDED
    print(json.dumps(as_json(result), indent=2) if as_document else summary(result))
    return int(bool(result.book.violations))


def absent() -> str | None:
    """Why there can be no cluster here, None if there can."""
    for kind in ("bubblewrap", "postgres", "temporal", "redis", "s3"):
        if (reason := missing(kind)) is not None:
            return f"There is no {kind} here: {reason}"
    return None


def options_of(seed: int, given: Namespace) -> Options:
    """A run with the faults that the command line asks for."""
    kinds = given.fault or CLUSTER_FAULTS
    faults = faults_of(seed, given, given.rounds * len(kinds) if given.rounds else MOST_FAULTS)
    return Options(
        seed,
        None if given.rounds else given.minutes * 60,
        given.sessions,
        faults,
        has_store=not given.shared_folder,
        keep=given.keep,
        reports=given.probes,
        probes=given.probes,
    )


def faults_of(seed: int, given: Namespace, count: int) -> tuple[ClusterFault, ...]:
    """So many faults of the command line's kinds."""
    return cluster_faults(seed, count, given.gap, given.longest, given.fault or CLUSTER_FAULTS)


def summary(result: ClusterResult) -> str:
    """The whole run, for a person."""
    book = result.book
    counts = {name: count for name, count in book.counts.items() if not name.startswith("deed ")}
    deeds = {name.removeprefix("deed "): count for name, count in book.counts.items() if name.startswith("deed ")}
    lines = [
        f"seed {result.seed}, {result.seconds:.0f} s, {result.nodes}, {result.lives} lives of nodes",
        f"faults:     {listed(book.faults)}",
        f"ends met:   {listed(book.met_ends)}; sessions {listed(book.met_sessions)}",
        *(f"left out:   {kind}: {why}" for kind, why in sorted(result.left_out.items())),
        f"counts:     {listed(counts)}",
        f"deeds:      {listed(deeds)}",
        f"slowest:    cancel {book.slowest_cancel_s:.1f} s, start {book.slowest_start_s:.1f} s",
        f"memory:     {', '.join(f'{name} {mb:.0f} MB' for name, mb in result.memory.items()) or 'unknown'}",
        *result.reports,
        *violations(book.violations)[1:],
        f"{len(book.violations)} violations",
    ]
    return "\n".join(lines)


def as_json(result: ClusterResult) -> dict[str, Any]:
    """The same for a program."""
    return {
        "seed": result.seed,
        "seconds": round(result.seconds, 1),
        "nodes": result.nodes,
        "lives": result.lives,
        "faults": dict(result.book.faults),
        "told": result.told,
        "reports": result.reports,
        "left_out": result.left_out,
        "counts": dict(result.book.counts),
        "slowest_cancel_s": round(result.book.slowest_cancel_s, 2),
        "memory_mb": {name: round(mb) for name, mb in result.memory.items()},
        "violations": [asdict(violation) for violation in result.book.violations],
    }
