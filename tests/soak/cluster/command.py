"""The output of a cluster's run, and how its options come from the command line."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tests.requirements import missing
from tests.soak.cluster.plan import cluster_faults
from tests.soak.cluster.rig import ClusterResult, Options
from tests.soak.report import listed, violations

MOST_FAULTS = 10_000


def absent() -> str | None:
    """Why there can be no cluster here, None if there can."""
    for kind in ("bubblewrap", "postgres", "temporal", "redis", "s3"):
        if (reason := missing(kind)) is not None:
            return f"There is no {kind} here: {reason}"
    return None


def options_of(
    seed: int, seconds: float, sessions: int, gap_s: float, longest_s: float, *, has_store: bool, keep: bool
) -> Options:
    """A run with random faults."""
    faults = cluster_faults(seed, MOST_FAULTS, gap_s, longest_s)
    return Options(seed, seconds, sessions, faults, has_store=has_store, keep=keep)


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
        *result.extra,
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
        "left_out": result.left_out,
        "counts": dict(result.book.counts),
        "slowest_cancel_s": round(result.book.slowest_cancel_s, 2),
        "memory_mb": {name: round(mb) for name, mb in result.memory.items()},
        "violations": [asdict(violation) for violation in result.book.violations],
    }
