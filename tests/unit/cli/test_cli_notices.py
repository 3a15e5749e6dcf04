"""Warnings about names that look like settings, and about open directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.screen import InvalidSettingsError
from app.cli.startup import how_to_close, load_settings, unknown_variables
from app.settings import Settings


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("PALIMPSEST_MAXSTEPS", "PALIMPSEST_MAX_STEPS"),
        ("PALIMPSEST_MODEL_NAME", "PALIMPSEST_MODEL"),
        ("PALIMPSEST_API_KEYES", "PALIMPSEST_API_KEYS"),
        ("PALIMPSEST_SANDBOX_MEMORY", "PALIMPSEST_SANDBOX_MEMORY_MB"),
        ("palimpsest_prot", "PALIMPSEST_PORT"),
        ("PALIMPSEST_OPENAI_KEY", "PALIMPSEST_OPENAI_API_KEY"),
        ("PALIMPSEST_ULR", "PALIMPSEST_URL"),
        ("PALIMPSEST_XYZZY", None),
        ("PALIMPSEST_", None),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest_known_one(
    monkeypatch: pytest.MonkeyPatch, written: str, near: str | None
) -> None:
    monkeypatch.setenv(written, "x")
    assert unknown_variables() == {written: near}


@pytest.mark.parametrize("name", sorted(Settings.variables()))
def test_every_known_name_is_read(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Its value is used, or refused by name."""
    monkeypatch.setenv(name, "[[]]")
    assert unknown_variables() == {}
    try:
        read = name.removeprefix("PALIMPSEST_").lower() in load_settings().model_fields_set
    except InvalidSettingsError as error:
        read = error.detail.startswith(name)
    assert read


@pytest.mark.parametrize("name", ["PALIMPSEST_TEST_IMAGE", "PALIMPSEST_URL", "palimpsest_max_steps", "PATH"])
def test_known_names_are_not_reported(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "7")
    assert unknown_variables() == {}


def test_the_env_file_is_checked_and_invalid_lines_are_ignored(home: Path) -> None:
    (home / ".env").write_text("PALIMPSEST_PROT=1\nPALIMPSEST_EMPTY=\nPALIMPSEST_API_KEYS:sec=ret\nPALIMPSEST_BARE\n")
    assert unknown_variables() == {"PALIMPSEST_PROT": "PALIMPSEST_PORT"}


@pytest.mark.parametrize(
    ("mode", "is_open"), [(0o700, False), (0o500, False), (0o710, True), (0o701, True), (0o755, True)]
)
def test_a_directory_is_open_if_anyone_else_has_any_access(home: Path, mode: int, is_open: bool) -> None:
    home.chmod(mode)
    assert how_to_close(home) == (f"chmod 700 {home}" if is_open else None)
    home.chmod(0o700)
