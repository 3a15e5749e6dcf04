"""Deletes idle sessions that have not been used for a while, over the HTTP API."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from app.cli.client import Client
from app.cli.errors import COMPLETED, FAILED, ConnectionLostError, ServerRefusedError, UsageError
from app.cli.screen import one_line, visible
from app.cli.sessions import connected

_AGE = re.compile(r"(\d{1,5})([hd])|0")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1)}
_ROW = "{:<36}  {:<50}  {:>6}"


def age_of(text: str) -> timedelta:
    """The duration of `12h`, `7d` or `0`. Raises `UsageError`."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text} is not an age. Use hours or days, such as 12h or 7d, or 0.", code="invalid_age")
    number, unit = found.groups()
    return int(number) * _UNITS[unit] if unit else timedelta()


def run_prune(older_than: str, server: str | None, key: str | None, *, yes: bool, dry_run: bool) -> int:
    """Lists the sessions that are old enough, asks, and deletes them. Returns the exit status.

    The sessions are paged through twice, so that memory is bounded. Both passes use the same cutoff time: a session
    that is used between them is no longer old enough, so only listed sessions are deleted. The prompt comes between two
    event loops, since a running loop would block Ctrl-C.
    """
    before = datetime.now(UTC) - age_of(older_than)
    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageError(
            "There is no terminal to confirm the deletion. Pass --yes to delete without asking, or --dry-run to only"
            " list the sessions.",
            code="confirmation_required",
        )
    count = connected(server, key, lambda client: show_old(client, before))
    if not count:
        typer.echo("No sessions to delete.")
        return COMPLETED
    if dry_run:
        typer.echo(f"{_sessions(count)} would be deleted.")
        return COMPLETED
    typer.echo(f"{_sessions(count)} in total.")
    if not yes:
        whose = "its" if count == 1 else "their"
        typer.confirm(f"Delete {_sessions(count)} with {whose} history and files?", abort=True, err=True)
    return connected(server, key, lambda client: delete_old(client, before))


async def show_old(client: Client, before: datetime) -> int:
    """Prints the idle sessions that were last updated at or before a time, as a table. Returns how many they are."""
    count, now = 0, datetime.now(UTC)
    async for session in _unused(client, before):
        if not count:
            typer.echo(_ROW.format("ID", "TITLE", "AGE"))
        count += 1
        title = one_line(session["title"] or session["task"] or "", 50)
        typer.echo(visible(_ROW.format(session["id"], title, short_age(now - _updated(session)))))
    return count


async def delete_old(client: Client, before: datetime) -> int:
    """Deletes the same sessions. Returns the exit status. Raises `NoServerError` if the server stops meanwhile."""
    deleted = failed = 0
    async for session in _unused(client, before):
        try:
            deleted += await _delete(client, session["id"], before)
        except (ServerRefusedError, ConnectionLostError) as error:
            failed += 1
            typer.echo(visible(f"Could not delete {session['id']}: {error.detail} ({error.code})"), err=True)
    typer.echo(f"Deleted {_sessions(deleted)}.")
    if failed:
        typer.echo(f"{_sessions(failed)} could not be deleted.", err=True)
    return FAILED if failed else COMPLETED


async def _delete(client: Client, session_id: str, before: datetime) -> bool:
    """Deletes a session; returns whether it did. The page may be minutes old, so the session is read again first: one
    that is in use or already deleted is skipped."""
    try:
        if not _is_unused(await client.session(session_id), before):
            return False
        await client.call("DELETE", f"/v1/sessions/{session_id}")
    except ServerRefusedError as error:
        if error.code == "session_not_found":
            return False
        raise
    return True


async def _unused(client: Client, before: datetime) -> AsyncIterator[dict[str, Any]]:
    async for session in client.sessions(status="idle"):
        if _is_unused(session, before):
            yield session


def _is_unused(session: dict[str, Any], before: datetime) -> bool:
    return session["status"] == "idle" and _updated(session) <= before


def _updated(session: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(session["updated_at"])


def short_age(age: timedelta) -> str:
    """`12 d`, `5 h` or `3 min`, rounded down."""
    if age >= _UNITS["d"]:
        return f"{age.days} d"
    minutes = max(0, int(age.total_seconds())) // 60
    return f"{minutes // 60} h" if minutes >= 60 else f"{minutes} min"


def _sessions(count: int) -> str:
    return f"{count:,} session{'' if count == 1 else 's'}"
