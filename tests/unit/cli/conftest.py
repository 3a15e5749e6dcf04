from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.testing

from app.cli import app
from app.cli.commands import command_line
from tests.logs import logs_restored


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory without settings, except the test's own data directory."""
    for name in [*os.environ]:
        if name.startswith(("PALIMPSEST_", "OPENAI_", "ANTHROPIC_", "DOCKER_")) and "_TEST_" not in name:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALIMPSEST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PALIMPSEST_PORT", "0")
    return tmp_path


@pytest.fixture(autouse=True)
def made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer's runner would make the program with all its commands again for each command that a test gives."""
    make = typer.testing._get_command  # type: ignore[attr-defined]
    monkeypatch.setattr(typer.testing, "_get_command", lambda given: command_line() if given is app else make(given))


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Commands configure logging on a standard error that is closed when the next test logs."""
    with logs_restored():
        yield
