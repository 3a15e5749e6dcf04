"""What can be done with the sessions of a running server: shown, followed, changed, and deleted once idle for long."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import typer

from app.cli import screen, view
from app.cli.approvals import waiting_lines
from app.cli.client import Client
from app.cli.listing import Cell, ago, print_json, print_table, short_age
from app.cli.run import read_text, take_out
from app.cli.screen import (
    COMPLETED,
    FAILED,
    ConnectionLostError,
    Screen,
    ServerRefusedError,
    UsageError,
    one_line,
    visible,
)
from app.cli.target import running
from app.messages import new_id

T = TypeVar("T")

_AGE = re.compile(r"(\d{1,5})([hd])|0")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1)}
_ROW = "{:<36}  {:<50}  {:>6}"


def _say(text: str) -> None:
    Screen(sys.stderr).line(text, dim=True)


def connected(server: str | None, key: str | None, work: Callable[[Client], Awaitable[T]]) -> T:
    """Runs `work` with a client of the running server and returns its result. Raises `NoServerError`."""

    async def run() -> T:
        async with Client(await running(server, key), _say) as client:
            return await work(client)

    return asyncio.run(run())


_COLORS = {"running": "cyan", "completed": "green", "failed": "red", "idle": None}
"""Colors of a session's state; others are yellow."""


async def show_list(
    client: Client, status: str | None, query: str | None, limit: int, fields: Sequence[str] | None
) -> None:
    items = [item async for item in client.sessions(limit, status=status, q=query)]
    if fields is not None:
        print_json(items, fields)
    elif items or not sys.stdout.isatty():
        print_table(("ID", "STATUS", "UPDATED", "STEPS", "COST", "TITLE"), session_rows(items, datetime.now(UTC)))
    else:
        _say("No sessions match." if status or query else "No sessions yet. `palimpsest run` starts one.")


def session_rows(items: Sequence[dict[str, Any]], now: datetime) -> list[list[Cell]]:
    """A row for each session: id, state, last update, steps, cost, and title or task."""
    ids = [item["id"] for item in items]
    return [
        [
            Cell(screen.short(item["id"], ids), item["id"], {"bold": True}),
            Cell(_state(item).replace("_", " "), _state(item), {"fg": _COLORS.get(_state(item), "yellow")}),
            Cell(ago(item["updated_at"], now), item["updated_at"], {"dim": True}),
            Cell(f"{item['steps']:,}", str(item["steps"])),
            Cell(_cost(item["usage"]["cost_usd"]), str(item["usage"]["cost_usd"] or 0)),
            Cell(item["title"] or item["task"] or ""),
        ]
        for item in items
    ]


def _cost(cost_usd: float | None) -> str:
    return "-" if cost_usd is None else screen.money(cost_usd)


def _state(session: dict[str, Any]) -> str:
    return str(session["status"] if session["status"] != "idle" else session["outcome"] or "idle")


async def show(client: Client, prefix: str, as_json: bool) -> None:
    session = await client.session(await client.find(prefix))
    if as_json:
        _print_json(session)
        return
    facts = _facts(session)
    if session["status"] == "awaiting_approval":
        lines = await waiting_lines(client, session["id"])
        facts += [("" if place else "approvals", line) for place, line in enumerate(lines)]
    for name, value in facts:
        typer.echo(visible(f"{name:<10} {value}").rstrip())


def _facts(session: dict[str, Any]) -> list[tuple[str, str]]:
    usage, error = session["usage"], session["error"]
    facts = [
        ("session", session["id"]),
        ("title", session["title"]),
        ("task", one_line(session["task"] or "", 300)),
        ("status", session["status"]),
        ("outcome", session["outcome"]),
        ("error", f"{error.get('detail')} ({error.get('code')})" if error else None),
        ("model", session["model"]),
        ("created", session["created_at"]),
        ("updated", session["updated_at"]),
        ("steps", str(session["steps"])),
        ("tokens", screen.tokens(usage)),
        ("cost", screen.money(usage["cost_usd"])),
        ("context", f"{session['context']['tokens']:,} of {session['context']['usable']:,} tokens"),
        ("compaction", _compaction(session)),
        ("sandbox", _sandbox(session["sandbox"])),
        ("node", session.get("node")),
        ("parent", session["parent_id"]),
        ("queue", f"{session['queue']['pending']} pending"),
        ("limits", ", ".join(f"{name} {value}" for name, value in session["limits"].items() if value is not None)),
    ]
    return [(name, value) for name, value in facts if value]


def _compaction(session: dict[str, Any]) -> str:
    """Only what asks for an action; an older server does not report it."""
    mark = view.without_model(session["compaction"].get("without_model"))
    return mark and f"{mark}; to redo it: `palimpsest compact {session['id']} --redo`"


def _sandbox(sandbox: dict[str, Any]) -> str:
    return ", ".join(part for part in (sandbox["kind"], sandbox.get("image"), _network(sandbox.get("network"))) if part)


def _network(network: bool | dict[str, Any] | None) -> str:
    if isinstance(network, dict):
        return f"network limited to {' '.join(network['allowed_hosts'])}"
    return "with network" if network else "without network"


async def send(client: Client, prefix: str, text: str, mode: str) -> None:
    session_id = await client.find(prefix)
    body = {"id": new_id(), "content": read_text(text), "mode": mode}
    receipt = await client.call("POST", f"/v1/sessions/{session_id}/queue", json=body)
    state = f"queued ({screen.ordinal(receipt['position'])})" if receipt["position"] else receipt["status"]
    typer.echo(f"{receipt['mode']} {receipt['id']} {state}")


async def cancel(client: Client, prefix: str) -> None:
    """Cancels the run, or the compaction of an idle session, and prints what was cancelled."""
    session = await client.session(await client.find(prefix))
    await client.call("POST", f"/v1/sessions/{session['id']}/cancel")
    if session["status"] != "idle":
        typer.echo(f"cancelled the run of {session['id']}")
    elif session["compaction"]["in_progress"]:
        typer.echo(f"cancelled the compaction of {session['id']}")
    else:
        typer.echo(f"nothing to cancel: {session['id']} is idle")


async def resume(client: Client, prefix: str) -> None:
    """Prints the session's new state."""
    session_id = await client.find(prefix)
    session = await client.call("POST", f"/v1/sessions/{session_id}/resume")
    outcome = f", {session['outcome']}" if session["outcome"] and session["status"] == "idle" else ""
    typer.echo(f"{session_id} {session['status']}{outcome}")


async def fork(client: Client, prefix: str, after: str | None, title: str | None, as_json: bool) -> None:
    """Prints the new session's id, for the next command."""
    session_id = await client.find(prefix)
    options = {"after_message_id": after, "title": title}
    body = {name: value for name, value in options.items() if value is not None}
    created = await client.call("POST", f"/v1/sessions/{session_id}/fork", json=body)
    if as_json:
        _print_json(created)
    else:
        typer.echo(created["id"])


async def files(client: Client, prefix: str, folder: Path) -> None:
    await take_out(client, await client.find(prefix), folder, _say)


async def remove(client: Client, prefix: str, yes: bool) -> None:
    session = await client.session(await client.find(prefix))
    about = one_line(session["title"] or session["task"] or "no task", 60)
    if not yes:
        typer.confirm(visible(f"Delete {session['id']} ({about}) with its history and files?"), abort=True, err=True)
    await client.call("DELETE", f"/v1/sessions/{session['id']}")
    typer.echo(f"deleted {session['id']}")


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


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
    """Deletes the same sessions. Returns the exit status. Raises `NoServerError` if the server stops."""
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


def _sessions(count: int) -> str:
    return f"{count:,} session{'' if count == 1 else 's'}"
