"""Lists for people, programs and scripts."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.cli.approvals import show as show_approvals
from app.cli.approvals import show_all
from app.cli.listing import Cell, ago, chosen, print_json, print_table, short_age, with_optional_values
from app.cli.nodes import node_rows
from app.cli.screen import UsageError
from app.cli.sessions import session_rows
from app.sessions import Session
from tests.unit.cli.events import AT
from tests.unit.cli.terminal import Terminal
from tests.unit.cli.test_cli_client import as_json, client_of

NOW = datetime.fromisoformat(AT)
IDS = ["01a20436-270d-740d-8574-6f28e66251d8", "01a20436-270d-740d-8574-6f294e0dd993"]


def session(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": IDS[number],
        "status": "idle",
        "outcome": "completed",
        "updated_at": "2026-11-22T09:57:00.000Z",
        "steps": 1_234,
        "usage": {"cost_usd": 0.0123},
        "title": None,
        "task": "Fix\tthe \x1b[2Jparser\nnow " * 20,
        **fields,
    }


NO_PRICE = session_rows([session(0, usage={"cost_usd": None})], NOW)
ROWS = session_rows([session(0), session(1, status="awaiting_approval", title="漢" * 60)], NOW)
HEAD = ("ID", "STATUS", "UPDATED", "STEPS", "COST", "TITLE")


def test_a_table_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    print_table(HEAD, ROWS)
    head, first, second = out.getvalue().splitlines()
    assert head == "ID        STATUS             UPDATED    STEPS  COST     TITLE"
    assert first.startswith(r"e66251d8  completed          3 min ago  1,234  $0.0123  Fix the \x1b[2Jparser")
    assert (len(first), first[-1]) == (80, "…")
    assert second.startswith("4e0dd993  awaiting approval  3 min ago  1,234  $0.0123  漢漢")
    assert len(second) == 68, "wide characters take two columns"


def test_states_are_colored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    print_table(HEAD, ROWS)
    assert "\x1b[32mcompleted" in out.getvalue()
    assert "\x1b[33mawaiting approval" in out.getvalue()


def test_programs_get_whole_values_between_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEAD, ROWS)
    first, second = capsys.readouterr().out.splitlines()
    identity, state, updated, steps, cost, title = first.split("\t")
    assert (identity, state, updated) == (IDS[0], "completed", "2026-11-22T09:57:00.000Z")
    assert (steps, cost) == ("1234", "0.0123")
    assert title == " ".join([r"Fix the \x1b[2Jparser now"] * 20)
    assert second.split("\t")[1] == "awaiting_approval"
    assert NO_PRICE[0][4] == Cell("-", "0")


@pytest.mark.parametrize(
    ("age", "shown"), [(-5, "just now"), (59, "just now"), (60, "1 min ago"), (7_300, "2 h ago"), (200_000, "2 d ago")]
)
def test_ages(age: int, shown: str) -> None:
    assert ago(AT, NOW + timedelta(seconds=age)) == shown


def test_the_age_of_unused_sessions() -> None:
    assert short_age(timedelta(seconds=-3)) == "0 min"


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ([], []),
        (["ls", "--json"], ["ls", "--json="]),
        (["--json", "--limit", "3"], ["--json=", "--limit", "3"]),
        (["--json", "id,title", "-q", "x"], ["--json", "id,title", "-q", "x"]),
    ],
)
def test_an_option_may_stand_alone(given: list[str], seen: list[str]) -> None:
    assert with_optional_values(given, "--json") == seen


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (["sessions", "ls"], "updated_at"),
        (["sessions", "compactions", IDS[0]], "tokens_after"),
        (["approvals", IDS[0]], "expires_at"),
        (["nodes"], "seen_at"),
    ],
)
def test_the_fields_of_a_list_are_listed_without_a_server(command: list[str], field: str) -> None:
    nowhere = ["--server", "http://127.0.0.1:9"]
    alone = CliRunner().invoke(app, [*command, "--json", *nowhere])
    assert (alone.exit_code, field in alone.stdout.splitlines()) == (0, True)
    unknown = CliRunner().invoke(app, [*command, "--json", f"{field},nothing", *nowhere])
    assert unknown.exit_code == 2
    assert "nothing is not a field. --json alone lists the fields" in unknown.stderr
    assert unknown.stderr.endswith("(unknown_field)\n")


def test_fields_are_chosen_in_the_given_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen(None, Session) is None
    assert chosen(" title , id", Session) == ["title", "id"]
    assert chosen("all", Session) == [*Session.model_fields]
    with pytest.raises(UsageError):
        chosen("id,", Session)
    print_json([{"id": "a", "title": "b", "task": "c"}], ["title", "metadata"])
    assert json.loads(capsys.readouterr().out) == [{"title": "b", "metadata": None}]


def test_nodes_have_a_row_each() -> None:
    names = ("id", "name", "role", "version")
    node = {**dict.fromkeys(names, "x"), "status": "lost", "sessions": 2, "slots": 4, "seen_at": AT}
    (row,) = node_rows([node], NOW)
    assert [cell.text for cell in row] == ["x", "x", "x", "lost", "2", "4", "x", "just now"]
    assert row[3] == Cell("lost", style={"fg": "red"})


async def test_waiting_calls_as_chosen_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer = as_json({"items": [{"call_id": "c", "name": "n"}], "last_seq": 1})
    async with client_of(answer) as (client, _, _):
        await show_approvals(client, IDS[0], ["call_id"])
    assert json.loads(capsys.readouterr().out) == [{"call_id": "c"}]


async def test_waiting_calls_of_all_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    sessions = as_json({"items": [session(0, title="Deploy"), session(1)], "next_cursor": None})
    call = {"name": "execute_command", "arguments": {"command": "ls"}, "expires_at": None}
    waiting = [as_json({"items": [{"call_id": f"call-{each}", **call}], "last_seq": 1}) for each in "ab"]
    for fields in (None, ["call_id"]):
        async with client_of(sessions, *waiting) as (client, heads, _):
            await show_all(client, fields)
        assert "status=awaiting_approval" in heads[0]
        assert [IDS[each] in heads[each + 1] for each in (0, 1)] == [True, True]
        out = capsys.readouterr().out
        if fields:
            assert json.loads(out)[1] == {"session_id": IDS[1], "call_id": "call-b"}
        else:
            assert out.startswith("session e66251d8  Deploy\ncall-a  no time limit\n  $ ls\nsession 4e0dd993  Fix")
