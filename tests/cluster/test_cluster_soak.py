"""Users and faults on a cluster, each fault once; `make soak ARGS=--cluster` draws faults for ten minutes."""

from __future__ import annotations

import pytest

from tests.behavior.rig import run_rig
from tests.requirements import need

FAULTS = (
    "kill_worker",
    "freeze_worker",
    "kill_api",
    *(f"{name}_away" for name in ("engine", "broker", "database", "store")),
)


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(600)  # includes starts on a busy machine, and waiting for each session to become idle
def test_every_invariant_of_a_cluster_holds_under_faults() -> None:
    """A report of what kept working while a service was away is in `benchmarks/outages.py`, with outages of a
    minute."""
    for kind in ("bubblewrap", "postgres", "temporal", "redis", "s3"):
        need(kind)
    chosen = ("--rounds", "1", "--sessions", "2", "--gap", "1", "--longest", "5")
    result, _ = run_rig("--cluster", "--probes", *chosen, *(word for fault in FAULTS for word in ("--fault", fault)))
    assert [result["faults"][fault] for fault in FAULTS] == [1] * len(FAULTS)
    assert result["lives"] >= 6, "no node was ended"
    assert len(result["reports"]) == len(FAULTS)
    assert result["counts"]["sessions checked"] >= 2
    assert result["counts"]["steps"] > 0
