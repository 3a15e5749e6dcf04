"""One row of the benchmarks, from the command to its report."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(
    "row", ["first-byte", *(pytest.param(row, marks=pytest.mark.extended) for row in ("history", "latency"))]
)
async def test_a_quick_row_runs(row: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *["-m", "benchmarks", "--quick", "--json", row],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    report = json.loads(output)
    assert report["results"]
    assert all(result["value"] > 0 for result in report["results"])
