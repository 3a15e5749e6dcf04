"""Users and faults drawn from a seed, for three quarters of a minute; `make soak` does the same for ten minutes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.behaviour.process import ROOT
from tests.requirements import need

SECONDS = 45
STOP_S = 120


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.timeout(600)  # with a busy machine's starts, and each session's way to its rest
def test_every_invariant_holds_under_random_faults() -> None:
    need("bubblewrap")
    arguments = ("--minutes", str(SECONDS / 60), "--sessions", "8", "--gap", "4", "--json")
    command = [sys.executable, "-m", "tests.soak", *arguments]
    rig = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, said = rig.communicate()
    finally:
        if rig.poll() is None:
            # Not killed at once: it has a server to end and a disk to take down.
            rig.terminate()
            rig.communicate(timeout=STOP_S)
    assert rig.returncode in (0, 1), said
    result = json.loads(out)
    assert result["violations"] == [], said
    assert rig.returncode == 0
    assert result["lives"] >= 2, "the server was never ended"
    assert result["counts"]["sessions checked"] >= 8
    assert result["counts"]["steps"] > 0
