"""`python -m benchmarks.rolling`: restarts all nodes of a cluster one after the other, under running sessions.

Each node gets `SIGTERM` and is started again once it has ended, workers first. Readers whose stream ends reconnect to
any API node with `Last-Event-ID`. Then every invariant is checked as in `python -m tests.soak --cluster`: among others
that no stream has a hole, no step is repeated, and no command ran twice.
"""

from __future__ import annotations

import argparse
import sys

from app.settings import Settings
from tests.soak.cluster.command import execute
from tests.soak.cluster.plan import ClusterFault
from tests.soak.cluster.rig import Options

APART_S = 10.0
"""Seconds before a restart of all nodes: the sessions are at work."""
DRAIN_S: float = Settings.model_fields["drain_s"].default


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rolling", description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=50, help="at work at once (default: 50)")
    parser.add_argument("--times", type=int, default=1, help="how often all nodes are restarted (default: 1)")
    parser.add_argument("--drain", type=float, default=DRAIN_S, help=f"seconds for steps to end (default: {DRAIN_S:g})")
    parser.add_argument("--keep", action="store_true", help="keep data and logs; they are kept on a violation anyway")
    options = parser.parse_args()
    faults = (ClusterFault(APART_S, "roll", 0.0, 0.0),) * options.times
    return execute(Options(1, None, options.sessions, faults, keep=options.keep, reports=True, drain_s=options.drain))


if __name__ == "__main__":
    sys.exit(main())
