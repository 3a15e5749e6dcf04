"""The command: `python -m tests.soak`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import Sequence

from tests.requirements import missing
from tests.soak.cluster.plan import CLUSTER_FAULTS
from tests.soak.ending import ENDED, ended_by_signals, say
from tests.soak.plan import FAULTS, faults_of
from tests.soak.report import as_json, summary
from tests.soak.rig import Options, run

GAP_S = 4.0
"""Seconds between faults, on average: the server has time for a few steps in between."""
LONGEST_S = 60.0
"""How long a fault of a cluster lasts at most; a sixth of it at least."""
PLANNED = 50
"""Faults of a cluster that `--plan` prints."""
IMAGE = os.environ.get("PALIMPSEST_TEST_IMAGE", "palimpsest/test-busybox:latest")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Runs a real server for some minutes with users and faults drawn from a seed: kills and restarts,"
        " a full disk, a failing provider, slow and vanishing readers, cancels, interrupts, edits, deletes. Then holds"
        " every invariant against the database and against what the users saw. Needs Linux; a full disk needs root,"
        " clock jumps need Debian's package libfaketime. Exits with 1 on any violation.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to work (default: 10)")
    parser.add_argument("--seed", type=int, help="draws the same plan again (default: a random one, which is printed)")
    parser.add_argument("--sessions", type=int, default=24, help="sessions at work at once (default: 24)")
    parser.add_argument("--gap", type=float, default=GAP_S, help=f"seconds between faults (default: {GAP_S:g})")
    parser.add_argument("--kills", type=int, help="kill the server so often, at random instants; no other fault")
    parser.add_argument("--at-work", action="store_true", help="with --kills: only at instants at which a session runs")
    parser.add_argument("--one-life", action="store_true", help="cause no fault that ends the server")
    parser.add_argument(
        "--sandbox", choices=("bubblewrap", "docker"), default="bubblewrap", help="where commands run (bubblewrap)"
    )
    parser.add_argument("--image", default=IMAGE, help=f"image of Docker sandboxes (default: {IMAGE})")
    parser.add_argument(
        "--cluster", action="store_true", help="run 2 API nodes and 3 workers on Postgres, Temporal, Redis and S3"
    )
    parser.add_argument("--longest", type=float, default=LONGEST_S, help=f"of a cluster's fault ({LONGEST_S:g} s)")
    parser.add_argument("--fault", action="append", choices=CLUSTER_FAULTS, help="a cluster's only fault; repeatable")
    parser.add_argument("--rounds", type=int, help="cause each fault of a cluster so often, however long that takes")
    parser.add_argument("--probes", action="store_true", help="measure what keeps working during a cluster's faults")
    parser.add_argument("--shared-folder", action="store_true", help="a cluster without S3: nodes share a directory")
    parser.add_argument("--keep", action="store_true", help="keep data and log; they are kept on a violation anyway")
    parser.add_argument("--plan", action="store_true", help="print the faults of the seed and do nothing")
    parser.add_argument("--json", action="store_true", help="print a JSON document instead of the summary")
    given = parser.parse_args(arguments)
    if given.at_work and given.kills is None:
        parser.error("--at-work needs --kills")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments)
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    if given.cluster:
        return _soak_cluster(given, seed)
    if given.plan:
        for fault in faults_of(seed, given.minutes * 60, given.gap, FAULTS):
            print(f"{fault.at_s:7.2f} s  {fault.kind}  {fault.seconds:.2f} s, pick {fault.pick:.3f}")
        return 0
    if (reason := missing(given.sandbox)) is not None:
        print(f"There is no {given.sandbox} here: {reason}", file=sys.stderr)
        return 2
    options = Options(
        seed,
        given.minutes * 60,
        given.sessions,
        given.gap,
        given.sandbox,
        given.image,
        given.keep,
        given.kills,
        given.at_work,
        given.one_life,
    )
    # The provider keeps writing to clients that were killed; asyncio logs each write.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    work = run(options, say)
    try:
        result = asyncio.run(ended_by_signals(work))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("ended before its time; nothing was checked", file=sys.stderr)
        return ENDED
    print(json.dumps(as_json(result), indent=2) if given.json else summary(result))
    return 1 if result.violations else 0


def _soak_cluster(given: argparse.Namespace, seed: int) -> int:
    # What a cluster needs is not installed everywhere.
    from tests.soak.cluster import command

    if given.plan:
        for fault in command.faults_of(seed, given, PLANNED):
            print(f"+{fault.after_s:5.1f} s  {fault.kind}  {fault.seconds:.1f} s, pick {fault.pick:.3f}")
        return 0
    return command.execute(command.options_of(seed, given), as_document=given.json)


if __name__ == "__main__":
    sys.exit(main())
