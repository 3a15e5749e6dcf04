"""`palimpsest eval` without its own process: its options, its output, its errors."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from app.cli.eval_table import LINE_CHARS
from app.cli.evaluate import Progress, policies_of
from app.cli.screen import UsageError
from app.llm import registry
from app.llm.scripted import ScriptedProvider
from evals import Evaluation, Row, load_packaged, packaged_names
from tests.unit.cli.terminal import Terminal


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["eval", *args])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("reactive,threshold,handoff", ["reactive", "threshold", "handoff"]),
        (" handoff , reactive,handoff,", ["handoff", "reactive"]),
    ],
)
def test_policies_keep_their_order(text: str, names: list[str]) -> None:
    assert policies_of(text) == names


@pytest.mark.parametrize("text", ["", ",", "reactive,lazy", "Reactive"])
def test_unknown_policies_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(UsageError, match="choose from reactive, threshold, handoff"):
        policies_of(text)


def test_on_a_terminal_progress_is_one_line_that_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    evaluation = Evaluation("m/x", [load_packaged("long_log")], ["handoff"])
    progress = Progress(evaluation)
    progress("long_log", "full", "question 1 of 10 " + "x" * 200)
    evaluation.rows["long_log", "full"] = Row(
        history="long_log", policy="full", tokens_before=1, tokens_after=1, window=1, error="down \x1b[2J"
    )
    progress("long_log", "full", "done")
    progress.clear()
    first, second, last = out.getvalue().split("\r\x1b[2K")[1:]
    assert first.startswith("[0/2] long_log, full: question 1 of 10 xxx")
    assert len(first) == LINE_CHARS
    assert second == "[1/2] long_log, full: down \\x1b[2J\n"
    assert last == ""


def test_one_history_under_one_policy_needs_no_key_and_no_server() -> None:
    done = run("--history", "other_scripts", "--policies", "threshold")
    assert done.exit_code == 0, done.output
    assert "Recall of scripted/demo" in done.stdout
    assert "  threshold " in done.stdout
    assert "handoff" not in done.stdout
    assert done.stderr.splitlines()[0] == "1 round and 16 questions for scripted/demo"
    assert done.stderr.splitlines()[-1].startswith("[2/2] other_scripts, threshold: ")


def test_json_has_every_answer_and_is_also_written_to_a_file(home: Path) -> None:
    done = run("--history", "other_scripts", "--policies", "handoff", "--json", "--out", "found.json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    assert json.loads((home / "found.json").read_text()) == found
    assert [row["policy"] for row in found["rows"]] == ["full", "handoff"]
    assert found["stopped"] is False
    assert found["model"] == "scripted/demo"
    handoff = found["rows"][1]
    assert handoff["tokens_after"] < handoff["tokens_before"]
    assert handoff["rung"] == "summary"
    assert "scripted demo" in handoff["summary"]
    assert all(answer["answer"] for row in found["rows"] for answer in row["answers"])
    assert len(handoff["answers"]) == 8


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (("--policies", "lazy"), 2, "(unknown_policy)"),
        (("--history", "nowhere.json"), 1, "nowhere.json cannot be read"),
        (("--history", "long_log", "--history", "long_log"), 2, "(same_name)"),
        (("--model", "nobody/x"), 2, "(unknown_model)"),
        (("--model", "openai/gpt-5"), 2, "has no API key"),
        (("--judge", "nobody/x"), 2, "(unknown_model)"),
        (("--out", "no/such/folder.json"), 1, "(not_written)"),
        (("--window", "100"), 2, "--window"),
    ],
)
def test_errors_are_one_sentence(args: tuple[str, ...], status: int, says: str) -> None:
    done = run(*args)
    assert done.exit_code == status
    assert says in done.stderr
    assert "question" not in done.stderr, "nothing is announced that is not done"
    assert not done.stdout


def test_a_file_that_is_not_a_history_is_named(home: Path) -> None:
    (home / "mine.json").write_text('{"name": "mine"}')
    done = run("--history", "mine.json")
    assert done.exit_code == 1
    assert "mine.json: messages: Field required. (invalid_history)" in done.stderr


def test_a_wrong_name_lists_the_packaged_ones() -> None:
    done = run("--history", "nowhere")
    assert all(name in done.stderr for name in packaged_names())


def test_a_judge_that_cannot_judge_leaves_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ScriptedProvider", partial(ScriptedProvider, word_delay_s=0))
    args = ("--history", "other_scripts", "--policies", "handoff", "--judge", "scripted/demo")
    found = json.loads(run(*args, "--json").stdout)
    assert found["judge"] == "scripted/demo"
    assert {answer["judged"] for row in found["rows"] for answer in row["answers"]} == {None}
    assert [sums["judged"] for sums in found["policies"]] == [None, None]
    table = run(*args).stdout
    assert " judge " in table
