"""The server is killed at random instants of its work, twice or, with PALIMPSEST_TEST_LONG=1, two hundred."""

from __future__ import annotations

import pytest

from tests.behavior.rig import run_rig
from tests.load import LONG
from tests.requirements import need

KILLS, SESSIONS = (200, 8) if LONG else (2, 4)
"""Each start costs 1.5 s of CPU time. With 8 sessions, a kill meets four in the middle of something, with 4, two.
So few kills might all miss: they come only while a session runs."""
MET = ("streaming", "running tools", "compacting")
"""States that many kills must each have met."""


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.bubblewrap
@pytest.mark.timeout(
    3600 if LONG else 600
)  # includes starts on a busy machine, and waiting for each session to become idle
def test_kills_at_random_instants_lose_repeat_and_block_nothing() -> None:
    """Sessions stream, run tools and compact in small windows while the server is killed; the invariants are in
    `tests.soak.checks`."""
    need("bubblewrap")
    at_work = () if LONG else ("--at-work",)
    result, said = run_rig("--kills", str(KILLS), "--sessions", str(SESSIONS), *at_work)
    counts, met = result["counts"], result["ends_met"]
    print(f"seed {result['seed']}: {KILLS} kills in {result['seconds']} s, met {met}, {counts}, {said if LONG else ''}")
    assert (result["faults"]["kill"], result["lives"]) == (KILLS, KILLS + 1)
    assert set(met) - {"idle"}, "no kill met a session at work"
    assert counts["recoveries"] > 0, "no kill met a run"
    assert counts["tool calls"] > 0
    if LONG:
        assert counts["compactions"] > 0
        assert [name for name in MET if not met.get(name)] == [], "no kill met one of these"
