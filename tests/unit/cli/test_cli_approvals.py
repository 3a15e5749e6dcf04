"""Deciding on calls against a server with scripted responses."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.cli.approvals import answer, how_to_decide, time_left, waiting_lines
from app.cli.client import Client, Target
from app.cli.screen import CliError, ServerRefusedError
from app.messages import now, rfc3339
from tests.unit.cli.test_cli_client import as_json, client_of

SESSION = "01a20436-0000-7000-8000-000000000001"
CALL = "01a20436-270d-740d-8574-6f28e66251d8"
NONE_WAITS = as_json({"items": [], "last_seq": 9})
RESOLVED = as_json({"code": "approval_resolved", "detail": "The call no longer waits."}, "409 Conflict")


def page(*call_ids: str, cursor: str | None = None) -> bytes:
    parts = [{"type": "text", "text": "x"}, *({"type": "tool_call", "call_id": each} for each in call_ids)]
    return as_json({"items": [{"parts": parts}], "next_cursor": cursor})


async def test_a_decided_call_is_searched_in_the_whole_history() -> None:
    pages = (page("01a20436-1", cursor="c1"), page(CALL, "01a20436-2"))
    async with client_of(NONE_WAITS, *pages, RESOLVED) as (client, heads, _):
        with pytest.raises(ServerRefusedError) as caught:
            await answer(client, SESSION, "E66251D8", "approve", None)
    assert caught.value.code == "approval_resolved"
    assert heads[2].startswith(f"GET /v1/sessions/{SESSION}/messages?after=c1 ")
    assert heads[3].startswith(f"POST /v1/sessions/{SESSION}/approvals/{CALL} ")


@pytest.mark.parametrize("found", [(), ("01a20436-1", "01a20436-2")], ids=["none", "several"])
async def test_an_id_that_matches_no_waiting_call_decides_nothing(found: tuple[str, ...]) -> None:
    async with client_of(NONE_WAITS, page(*found)) as (client, heads, _):
        with pytest.raises(CliError, match=f"No waiting call of {SESSION} starts or ends with 01a20436; ") as caught:
            await answer(client, SESSION, "01a20436", "deny", None)
    assert (caught.value.code, len(heads)) == ("approval_not_found", 2)


async def test_a_too_short_id_decides_nothing() -> None:
    async with client_of() as (client, heads, _):
        with pytest.raises(CliError, match="Give at least 4 characters of the call's id") as caught:
            await answer(client, SESSION, "", "approve", None)
    assert (caught.value.code, heads) == ("short_id", [])


def test_the_time_left_is_never_negative() -> None:
    assert time_left({"expires_at": rfc3339(now() + timedelta(seconds=45.9))}) == "45 s left"
    assert time_left({"expires_at": rfc3339(now() - timedelta(seconds=3))}) == "expired"


async def test_the_command_names_a_server_that_others_do_not_find() -> None:
    async with Client(Target("http://127.0.0.1:1/a b", has_to_be_named=True)) as client:
        rest = f"{SESSION} e66251d8 --server 'http://127.0.0.1:1/a b'"
        told = how_to_decide(client, SESSION, "e66251d8")
    assert told == f"`palimpsest approve {rest}` (or `deny`)"


async def test_a_session_without_waiting_calls_shows_none() -> None:
    async with client_of(NONE_WAITS) as (client, _, _):
        assert await waiting_lines(client, SESSION) == []
