"""The faults of a cluster's soak, made from its seed alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

ClusterFaultKind = Literal[
    "kill_worker",
    "freeze_worker",
    "term_worker",
    "kill_api",
    "freeze_api",
    "term_api",
    "cut_database",
    "stall_database",
    "cut_broker",
    "stall_broker",
    "cut_engine",
    "stall_engine",
    "cut_store",
    "stall_store",
    "database_away",
    "broker_away",
    "engine_away",
    "store_away",
    "clock_worker",
    "roll",
    "kill_command",
    "provider_resets",
    "provider_stalls",
    "provider_500",
]
"""`kill` is `SIGKILL`, `term` is `SIGTERM`, each followed by a new process; `cut` and `stall` hit one node's link to a
service, `away` the service itself; `roll` restarts all nodes one after the other."""
CLUSTER_FAULTS: tuple[ClusterFaultKind, ...] = get_args(ClusterFaultKind)
SERVICES = ("database", "broker", "engine", "store")
SHORTEST = 1 / 6
"""Of the longest fault that lasts."""


@dataclass(frozen=True, slots=True)
class ClusterFault:
    """A fault that begins `after_s` seconds after the end of the one before, and lasts `seconds` if it lasts; `pick`,
    from 0 to 1, chooses its victim or its size."""

    after_s: float
    kind: ClusterFaultKind
    seconds: float
    pick: float


def cluster_faults(
    seed: int, count: int, gap_s: float, longest_s: float, kinds: Sequence[ClusterFaultKind] = CLUSTER_FAULTS
) -> tuple[ClusterFault, ...]:
    """So many faults; each of the `kinds` comes once before one comes twice. A worker is killed first, so that the
    shortest run has a take-over."""
    rng = random.Random(f"{seed}/cluster")
    faults: list[ClusterFault] = []
    while len(faults) < count:
        in_turn = rng.sample(kinds, len(kinds))
        if not faults:
            in_turn.sort(key=lambda kind: kind != "kill_worker")
        for kind in in_turn:
            after_s = rng.uniform(0.5, 1.5) * gap_s
            lasting = rng.uniform(SHORTEST, 1) * longest_s
            faults.append(ClusterFault(round(after_s, 2), kind, round(lasting, 2), rng.random()))
    return tuple(faults[:count])
