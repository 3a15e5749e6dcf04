from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory without settings, but for a data directory of the test's own."""
    for name in [*os.environ]:
        if name.startswith(("PALIMPSEST_", "OPENAI_", "ANTHROPIC_", "DOCKER_")) and "_TEST_" not in name:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALIMPSEST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PALIMPSEST_PORT", "0")
    return tmp_path


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Commands set up the logs of their process, on a standard error that a test has closed when the next one logs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level
