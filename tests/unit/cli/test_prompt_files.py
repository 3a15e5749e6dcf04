"""Prompt files: what is read, and the errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.bootstrap import Prompts
from app.cli.startup import load_settings
from app.context.prompts import SYSTEM_TEMPLATE
from app.server import SUMMARY_TEMPLATE_BYTES, SYSTEM_PROMPT_BYTES, StartError, read_prompts
from app.settings import Settings

VARIABLES = {
    "system_prompt_file": ("PALIMPSEST_SYSTEM_PROMPT_FILE", SYSTEM_PROMPT_BYTES),
    "summary_template_file": ("PALIMPSEST_SUMMARY_TEMPLATE_FILE", SUMMARY_TEMPLATE_BYTES),
}


def _refusal(settings: Settings) -> str:
    with pytest.raises(StartError) as caught:
        read_prompts(settings)
    assert caught.value.code == "invalid_settings"
    return caught.value.detail


def test_without_files_the_texts_are_the_built_in_ones() -> None:
    assert read_prompts(load_settings()) == Prompts(SYSTEM_TEMPLATE, None)


def test_text_added_by_editors_is_removed(home: Path) -> None:
    (home / "system.md").write_bytes("\ufeffMach es gut,\r\nfür alle.\r\n".encode())
    (home / "summary.md").write_bytes(b"\n### Only this\n")
    settings = load_settings(system_prompt_file=home / "system.md", summary_template_file=home / "summary.md")
    assert read_prompts(settings) == Prompts("Mach es gut,\nfür alle.", "### Only this")


@pytest.mark.parametrize("setting", VARIABLES)
def test_a_file_may_be_as_large_as_the_limit(home: Path, setting: str) -> None:
    variable, most = VARIABLES[setting]
    file, size = home / "large.md", most // 3 + 1
    file.write_bytes(b"x" * (most % 3) + "€".encode() * (most // 3))
    settings = load_settings(**{setting: file})
    assert file.stat().st_size == most
    assert read_prompts(settings) != Prompts()
    # One more character, whose bytes the limit would split.
    file.write_bytes("€".encode() * size)
    assert _refusal(settings) == f"{variable} cannot be used: {file} is larger than {most // 1024:,} KiB."


@pytest.mark.parametrize("setting", VARIABLES)
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\xef\xbb\xbf\n", "is empty"),
        (b"### \xff", "is not UTF-8"),
        ("### Größe".encode("utf-16"), "is not UTF-8"),
    ],
)
def test_a_file_without_usable_text(home: Path, setting: str, content: bytes, fault: str) -> None:
    file = home / "file.md"
    file.write_bytes(content)
    assert _refusal(load_settings(**{setting: file})) == f"{VARIABLES[setting][0]} cannot be used: {file} {fault}."


@pytest.mark.parametrize("setting", VARIABLES)
def test_a_missing_file(home: Path, setting: str) -> None:
    for place, fault in ((home / "absent.md", "No such file or directory"), (home, "Is a directory")):
        said = _refusal(load_settings(**{setting: place}))
        assert said == f"{VARIABLES[setting][0]} cannot be used: {place} cannot be read: {fault}."


def test_a_path_may_start_at_home_or_in_the_working_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PALIMPSEST_SUMMARY_TEMPLATE_FILE", "~/summary.md")
    assert load_settings().summary_template_file == home / "summary.md"
    monkeypatch.chdir(home)
    monkeypatch.setenv("PALIMPSEST_SYSTEM_PROMPT_FILE", "system.md")
    assert load_settings().system_prompt_file == home / "system.md"
