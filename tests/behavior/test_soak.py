"""Random users and faults from a seed, for 8 seconds; `make soak` does the same for ten minutes."""

from __future__ import annotations

import pytest

from tests.behavior.rig import run_rig
from tests.requirements import need

SECONDS = 8
"""Four faults, of which the first is a kill."""


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.bubblewrap
@pytest.mark.timeout(600)  # includes starts on a busy machine, and waiting for each session to become idle
def test_every_invariant_holds_under_random_faults() -> None:
    need("bubblewrap")
    result, _ = run_rig("--minutes", str(SECONDS / 60), "--sessions", "8", "--gap", "2")
    assert result["faults"]["kill"] >= 1
    assert result["lives"] >= 2, "the server was never ended"
    assert result["counts"]["sessions checked"] >= 8
    assert result["counts"]["steps"] > 0
