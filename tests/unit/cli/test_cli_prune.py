"""Deleting old sessions on a server with scripted responses."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.cli.listing import short_age
from app.cli.screen import NoServerError, UsageError
from app.cli.sessions import age_of, delete_old, show_old
from app.messages import now, rfc3339
from tests.unit.cli.test_cli_client import answer, as_json, client_of

WEEK = timedelta(days=7)
DELETED = answer("204 No Content", b"")
REFUSED = as_json({"code": "sandbox_unavailable", "detail": "The Engine is away."}, "503 Service Unavailable")
GONE = as_json({"code": "session_not_found", "detail": "No such session."}, "404 Not Found")
STOPPING = as_json({"code": "unavailable", "detail": "The server is stopping."}, "503 Service Unavailable")


def session(name: str, days: float, status: str = "idle", **fields: Any) -> dict[str, Any]:
    updated = rfc3339(now() - timedelta(days=days))
    return {"id": name, "title": f"Title {name}", "task": None, "status": status, "updated_at": updated, **fields}


def page(*items: dict[str, Any], cursor: str | None = None) -> bytes:
    return as_json({"items": items, "next_cursor": cursor})


def week_ago() -> datetime:
    return now() - WEEK


def methods(heads: list[str]) -> list[str]:
    return [f"{method} {path.removeprefix('/v1/sessions')}" for method, path, *_ in map(str.split, heads)]


@pytest.mark.parametrize(
    ("text", "age"), [("0", timedelta()), ("0d", timedelta()), ("12h", timedelta(hours=12)), ("7d", WEEK)]
)
def test_an_age_is_hours_or_days(text: str, age: timedelta) -> None:
    assert age_of(text) == age


@pytest.mark.parametrize("text", ["", "7", "-1d", "7 days", "1w", "1.5d", "999999d"])
def test_other_ages_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="12h or 7d"):
        age_of(text)
    assert CliRunner().invoke(app, ["prune", f"--older-than={text}", "--yes"]).exit_code == 2


@pytest.mark.parametrize(
    ("age", "shown"),
    [
        (timedelta(seconds=-3), "0 min"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(minutes=179), "2 h"),
        (timedelta(days=8, hours=23), "8 d"),
    ],
)
def test_an_age_on_the_screen(age: timedelta, shown: str) -> None:
    assert short_age(age) == shown


def test_without_a_terminal_it_names_yes_and_exits_with_2() -> None:
    result = CliRunner().invoke(app, ["prune", "--server", "http://127.0.0.1:9"])
    assert result.exit_code == 2
    assert "--yes" in result.stderr


async def test_old_idle_sessions_of_all_pages_are_listed_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    old, older = session("a", 8), session("b", 30.5, title=None, task="the\ntask \x1b[2J")
    pages = (page(session("new", 6), old, cursor="c1"), page(older, session("busy", 99, "running")))
    deleting = (pages[0], as_json(old), DELETED, pages[1], as_json(older), DELETED)
    async with client_of(*pages, *deleting) as (client, heads, _):
        before = week_ago()
        assert await show_old(client, before) == 2
        assert not any(line.startswith("DELETE") for line in methods(heads))
        assert await delete_old(client, before) == 0
    asked = methods(heads)
    assert [line for line in asked if not line.startswith("GET ?")] == ["GET /a", "DELETE /a", "GET /b", "DELETE /b"]
    assert all("status=idle" in line for line in asked if line.startswith("GET ?"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["ID", "TITLE", "AGE"],
        ["a", "Title", "a", "8", "d"],
        ["b", "the", "task", "\\x1b[2J", "30", "d"],
        ["Deleted", "2", "sessions."],
    ]


async def test_without_old_sessions_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    async with client_of(page(session("a", 6))) as (client, _, _):
        assert await show_old(client, week_ago()) == 0
    assert capsys.readouterr().out == ""


async def test_a_failure_is_reported_and_the_rest_continues(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = session("a", 8), session("b", 9)
    async with client_of(page(a, b), as_json(a), REFUSED, as_json(b), DELETED) as (client, _, _):
        assert await delete_old(client, week_ago()) == 1
    shown = capsys.readouterr()
    assert shown.err == (
        "Could not delete a: The Engine is away. (sandbox_unavailable)\n1 session could not be deleted.\n"
    )
    assert shown.out == "Deleted 1 session.\n"


@pytest.mark.parametrize(("days", "status"), [(8, "running"), (8, "awaiting_approval"), (0, "idle")])
async def test_a_session_that_is_used_or_gone_meanwhile_is_skipped(
    days: int, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = page(session("a", 8), session("b", 9))
    async with client_of(listed, as_json(session("a", days, status)), GONE) as (client, heads, _):
        assert await delete_old(client, week_ago()) == 0
    assert not any(head.startswith("DELETE") for head in heads)
    assert capsys.readouterr().out == "Deleted 0 sessions.\n"


async def test_a_server_that_stops_ends_it() -> None:
    a = session("a", 8)
    async with client_of(page(a), as_json(a), STOPPING) as (client, _, _):
        with pytest.raises(NoServerError, match="stopping"):
            await delete_old(client, week_ago())
