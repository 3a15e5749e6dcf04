"""Shell completion and the manual page, which come from the commands' own descriptions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shutil import which

import pytest
import typer.main
from typer.testing import CliRunner

from app.cli import app
from app.cli.man import man_page


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _palimpsest_completion palimpsest"),
        ("zsh", "#compdef palimpsest"),
        ("fish", "complete --command palimpsest "),
    ],
)
def test_a_shells_script_is_printed_and_asks_this_program(shell: str, line: str) -> None:
    shown = CliRunner().invoke(app, ["--show-completion", shell], prog_name="palimpsest")
    assert shown.exit_code == 0
    assert line in shown.stdout
    assert f"_PALIMPSEST_COMPLETE=complete_{shell}" in shown.stdout


def test_another_shell_is_refused() -> None:
    refused = CliRunner().invoke(app, ["--install-completion", "tcsh"])
    assert refused.exit_code == 2
    assert "tcsh is not one of bash, zsh, fish." in " ".join(refused.stderr.replace("│", " ").split())


def test_completion_is_installed_where_the_shell_looks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    installed = CliRunner().invoke(app, ["--install-completion", "fish"], prog_name="palimpsest")
    assert installed.exit_code == 0, installed.output
    assert (home / ".config/fish/completions/palimpsest.fish").read_text().startswith("complete --command palimpsest")


def test_the_manual_has_all_commands_and_options_and_no_errors() -> None:
    page = CliRunner().invoke(app, ["--man"]).stdout
    assert page == man_page(typer.main.get_command(app), "palimpsest")
    commands = re.findall(r"^\.SS palimpsest (.*)$", page, re.MULTILINE)
    assert {"run [OPTIONS] [task]", "sessions ls [OPTIONS]", "db upgrade [OPTIONS]"} <= set(commands)
    assert r"\fB\-o, \-\-output DIR\fR" in page
    assert r"\fB\-\-limit <int" in page
    if which("groff"):
        checked = subprocess.run(["groff", "-man", "-ww", "-z"], input=page, capture_output=True, text=True)
        assert checked.stderr == ""
