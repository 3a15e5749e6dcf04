"""Runs the soak rig as its command, and gives what it found."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.behaviour.process import ROOT

STOP_S = 120
"""How long a rig that is told to end may take to take its server and its disk down."""


def run_rig(*arguments: str) -> tuple[dict[str, Any], str]:
    """The rig's result and what it said on the way; fails on any violation."""
    command = [sys.executable, "-m", "tests.soak", *arguments, "--json"]
    rig = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, said = rig.communicate()
    finally:
        if rig.poll() is None:
            # Not killed at once: it has a server to end and a disk to take down.
            rig.terminate()
            rig.communicate(timeout=STOP_S)
    assert rig.returncode in (0, 1), said
    result: dict[str, Any] = json.loads(out)
    assert result["violations"] == [], said
    assert rig.returncode == 0
    return result, said
