"""The work of `palimpsest sessions`, over the API of a running server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import typer

from app.cli import amounts
from app.cli.approvals import waiting_lines
from app.cli.asking import asking
from app.cli.client import Client
from app.cli.errors import COMPLETED
from app.cli.following import exit_status, show_all, writer
from app.cli.run import read_text
from app.cli.screen import Screen, one_line, visible
from app.cli.target import running
from app.cli.workspace import take_out
from app.messages import new_id

T = TypeVar("T")


def _say(text: str) -> None:
    Screen(sys.stderr).line(text, dim=True)


def connected(server: str | None, key: str | None, work: Callable[[Client], Awaitable[T]]) -> T:
    """Runs `work` with a client of the running server and returns its result. Raises `NoServerError`."""

    async def run() -> T:
        async with Client(await running(server, key), _say) as client:
            return await work(client)

    return asyncio.run(run())


async def show_list(client: Client, status: str | None, query: str | None, limit: int, as_json: bool) -> None:
    items = [item async for item in client.sessions(limit, status=status, q=query)]
    if as_json:
        _print_json(items)
        return
    for item in items:
        typer.echo(visible(list_line(item)))


def list_line(session: dict[str, Any]) -> str:
    """Id, state, creation time, model, and title or task, in columns."""
    state = session["status"] if session["status"] != "idle" else session["outcome"] or "idle"
    about = one_line(session["title"] or session["task"] or "", 60)
    created = session["created_at"][:16].replace("T", " ")
    return f"{session['id']}  {state:<17}  {created}  {session['model']:<28}  {about}".rstrip()


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
        ("tokens", amounts.tokens(usage)),
        ("cost", amounts.money(usage["cost_usd"])),
        ("context", f"{session['context']['tokens']:,} of {session['context']['usable']:,} tokens"),
        ("sandbox", _sandbox(session["sandbox"])),
        ("parent", session["parent_id"]),
        ("queue", f"{session['queue']['pending']} pending"),
        ("limits", ", ".join(f"{name} {value}" for name, value in session["limits"].items() if value is not None)),
    ]
    return [(name, value) for name, value in facts if value]


def _sandbox(sandbox: dict[str, Any]) -> str:
    return ", ".join(part for part in (sandbox["kind"], sandbox.get("image"), _network(sandbox.get("network"))) if part)


def _network(network: bool | dict[str, Any] | None) -> str:
    if isinstance(network, dict):
        return f"network limited to {' '.join(network['allowed_hosts'])}"
    return "with network" if network else "without network"


async def follow(client: Client, prefix: str, as_json: bool) -> int:
    """Returns the exit status for the last run's outcome; 0 if the session never ran."""
    session_id = await client.find(prefix)
    async with asking(client, session_id, as_json=as_json) as hear:
        outcome = await show_all(client.follow(session_id), writer(as_json), hear)
    return COMPLETED if outcome is None else exit_status(outcome)


async def send(client: Client, prefix: str, text: str, mode: str) -> None:
    session_id = await client.find(prefix)
    body = {"id": new_id(), "content": read_text(text), "mode": mode}
    receipt = await client.call("POST", f"/v1/sessions/{session_id}/queue", json=body)
    state = f"queued ({amounts.ordinal(receipt['position'])})" if receipt["position"] else receipt["status"]
    typer.echo(f"{receipt['mode']} {receipt['id']} {state}")


async def act(client: Client, prefix: str, action: str) -> None:
    """Posts `cancel` or `resume` and prints the session's new state."""
    session_id = await client.find(prefix)
    session = await client.call("POST", f"/v1/sessions/{session_id}/{action}")
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
