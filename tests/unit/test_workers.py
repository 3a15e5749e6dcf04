"""The processes that run the tests: nothing is lost, also if one of them dies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import os, signal
import pytest
from coverage import Coverage

@pytest.mark.parametrize("number", range(20))
def test_passes(number, tmp_path):
    (tmp_path / "file").write_text("")
    assert Coverage.current() is None and "COVERAGE_PROCESS_CONFIG" not in os.environ

@pytest.mark.measured
def test_is_measured():
    assert Coverage.current() is not None and "COVERAGE_PROCESS_CONFIG" in os.environ

def test_fails():
    print("captured output")
    assert [1] == [2]

def test_is_skipped():
    pytest.skip("a reason")

def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.fixture
def broken():
    yield
    raise ValueError

def test_ends_badly(broken):
    pass
"""


@pytest.mark.slow
def test_each_test_runs_once_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = measured\n  slow\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    (tmp_path / ".coveragerc").write_text("[run]\nparallel = true\npatch = subprocess, _exit, fork\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.workers", "-p", "pytest_cov", "--workers=3", "--cov=.", "-rA"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    outcomes = sorted(
        re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) .*?test_inner\.py(?:::|:\d+: )([\w\[\] ]+)", ran.stdout, re.M)
    )
    passed = [*(f"test_passes[{number}]" for number in range(20)), "test_ends_badly", "test_is_measured"]
    assert outcomes == [
        ("ERROR", "test_ends_badly "),
        ("FAILED", "test_dies "),
        ("FAILED", "test_fails "),
        *(("PASSED", name) for name in sorted(passed)),
        ("SKIPPED", "a reason"),
    ]
    assert "The worker ended with -9" in ran.stdout
    assert "Captured stdout call" in ran.stdout
    assert re.search(r"test_inner\.py +\d+ +\d+ +\d+%", ran.stdout), "no coverage of what the workers ran"
