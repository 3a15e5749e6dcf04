"""`palimpsest compact` and the rounds of a session: start, preview, list and revert them."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import typer

from app.cli import rounds
from app.cli.client import Client
from app.cli.errors import COMPLETED, FAILED
from app.cli.screen import Screen, visible
from app.cli.sse import ServerEvent
from app.cli.view import View


async def compact(
    client: Client, prefix: str, policy: str | None, instructions: str | None, *, dry_run: bool, as_json: bool
) -> int:
    """Starts a round and waits for its end, or with `dry_run` shows what it would do. Ctrl-C only stops waiting; the
    round continues."""
    session = await client.session(await client.find(prefix))
    wishes = {"policy": policy, "instructions": instructions, "dry_run": dry_run or None}
    body = {name: value for name, value in wishes.items() if value is not None}
    accepted = await client.call("POST", f"/v1/sessions/{session['id']}/compactions", json=body)
    if dry_run:
        own = session["compaction"]["policy"]
        typer.echo(json.dumps(accepted, indent=2) if as_json else visible(rounds.preview(accepted, own)))
        return COMPLETED
    status = await _watch(client, session["id"], session["last_seq"], accepted["round"], quiet=as_json)
    if as_json:
        typer.echo(json.dumps(await _round(client, session["id"], accepted["round"]), indent=2))
    return status


async def _watch(client: Client, session_id: str, after: int, round: int, *, quiet: bool) -> int:
    """Shows the events of the round only. Returns the exit status."""
    view = View(Screen())
    # Not until idle: an idle session stays idle while it is compacted.
    async with aclosing(client.follow(session_id, after, until_idle=False)) as events:
        async for event in events:
            if not event.event.startswith("compaction.") or event.data.get("round") != round:
                continue
            if not quiet:
                view.show(event)
            if event.event == "compaction.completed":
                return COMPLETED
            if _changed_nothing(event):
                return FAILED
    raise AssertionError("the stream ends only with an error")


def _changed_nothing(event: ServerEvent) -> bool:
    """Whether the round has ended without a change. A failed rung does not end the round if another follows."""
    if event.event == "compaction.failed":
        return event.data.get("next") is None
    return event.event in ("compaction.cancelled", "compaction.discarded")


async def _round(client: Client, session_id: str, round: int) -> dict[str, Any]:
    found = await client.call("GET", f"/v1/sessions/{session_id}/compactions")
    item: dict[str, Any] = next(item for item in found["items"] if item["round"] == round)
    return item


async def show_rounds(client: Client, prefix: str, as_json: bool) -> None:
    found = await client.call("GET", f"/v1/sessions/{await client.find(prefix)}/compactions")
    if as_json:
        typer.echo(json.dumps(found["items"], indent=2))
        return
    for item in found["items"]:
        typer.echo(visible(rounds.list_line(item)))


async def revert(client: Client, prefix: str, round: int) -> None:
    session_id = await client.find(prefix)
    await client.call("DELETE", f"/v1/sessions/{session_id}/compactions/{round}")
    typer.echo(f"reverted round {round} of {session_id}")
