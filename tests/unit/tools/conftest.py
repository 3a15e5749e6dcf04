from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tools.workbench import DirectorySandbox, Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    root = tmp_path / "workspace"
    root.mkdir()
    return Workbench(DirectorySandbox(root), root)
