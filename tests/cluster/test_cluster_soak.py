"""Random users and faults on a cluster, for some seconds; `make soak ARGS=--cluster` does the same for ten minutes."""

from __future__ import annotations

import pytest

from tests.behavior.rig import run_rig
from tests.requirements import need

SECONDS = 24


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(600)  # includes starts on a busy machine, and waiting for each session to become idle
def test_every_invariant_of_a_cluster_holds_under_random_faults() -> None:
    for kind in ("bubblewrap", "postgres", "temporal", "redis", "s3"):
        need(kind)
    chosen = ("--minutes", str(SECONDS / 60), "--sessions", "6", "--gap", "3", "--longest", "5")
    result, _ = run_rig("--cluster", *chosen)
    assert result["faults"]["kill_worker"] >= 1
    assert result["lives"] >= 6, "no node was ended"
    assert result["counts"]["sessions checked"] >= 6
    assert result["counts"]["steps"] > 0


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(600)
def test_a_cluster_works_again_after_each_of_its_services_was_away() -> None:
    """The report of what kept working is in `benchmarks/outages.py`, with outages of a minute."""
    for kind in ("bubblewrap", "postgres", "temporal", "redis", "s3"):
        need(kind)
    away = [word for name in ("engine", "broker", "database", "store") for word in ("--fault", f"{name}_away")]
    chosen = ("--rounds", "1", "--sessions", "4", "--gap", "3", "--longest", "6")
    result, _ = run_rig("--cluster", "--probes", *chosen, *away)
    assert len(result["reports"]) == 4
    assert result["counts"]["sessions checked"] >= 4
