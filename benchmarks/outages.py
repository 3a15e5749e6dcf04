"""`python -m benchmarks.outages`: what keeps working in a cluster while one of its services is away.

Starts two API nodes and three workers on services of their own, with users that work through sessions. Temporal, Redis
and Postgres are killed and the store of workspaces is frozen, one after the other, each for a while. Then every
invariant is checked as in `python -m tests.soak --cluster`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.soak.cluster.command import execute
from tests.soak.cluster.plan import ClusterFault, ClusterFaultKind
from tests.soak.cluster.rig import Options

AWAY: dict[str, ClusterFaultKind] = {
    "engine": "engine_away",
    "broker": "broker_away",
    "database": "database_away",
    "store": "store_away",
}
APART_S = 20.0
"""Seconds between two outages: the cluster works as usual again."""


def options_of(services: Sequence[str], seconds: float, sessions: int, apart_s: float) -> Options:
    """A run in which each of the services is away for so long."""
    faults = tuple(ClusterFault(apart_s, AWAY[name], seconds, 0.0) for name in services)
    return Options(1, None, sessions, faults, reports=True, probes=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outages", description=__doc__.splitlines()[0])
    parser.add_argument("--service", action="append", choices=AWAY, help="the only one (default: each); repeatable")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each outage (default: 60)")
    parser.add_argument("--sessions", type=int, default=12, help="at work at once (default: 12)")
    parser.add_argument("--apart", type=float, default=APART_S, help=f"seconds between outages (default: {APART_S:g})")
    options = parser.parse_args()
    return execute(options_of(options.service or [*AWAY], options.seconds, options.sessions, options.apart))


if __name__ == "__main__":
    sys.exit(main())
