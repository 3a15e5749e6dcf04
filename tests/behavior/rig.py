"""Runs the soak rig's command and returns its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.behavior.process import ROOT
from tests.soak.host import FORKED

STOP_S = 120
"""Timeout for a rig to shut down its server and its disk after a signal."""


def run_rig(*arguments: str) -> tuple[dict[str, Any], str]:
    """The rig's result and its output; fails on any violation."""
    command = [sys.executable, "-m", "tests.soak", *arguments, "--json"]
    env = {**os.environ, FORKED: "1"}
    rig = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, said = rig.communicate()
    finally:
        if rig.poll() is None:
            # Not killed at once: it must stop a server and unmount a disk.
            rig.terminate()
            rig.communicate(timeout=STOP_S)
    assert rig.returncode in (0, 1), said
    result: dict[str, Any] = json.loads(out)
    assert result["violations"] == [], f"{result['violations']}\n{said}"
    assert rig.returncode == 0
    return result, said
