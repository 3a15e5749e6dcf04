"""What can be done with a session's compaction rounds: made, redone, listed and reverted."""

from __future__ import annotations

import json
import sys
from asyncio import CancelledError
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import typer

from app.cli import view
from app.cli.client import Client, ServerEvent
from app.cli.listing import print_json
from app.cli.screen import COMPLETED, FAILED, CliError, Screen, UsageError, visible
from app.cli.view import WITHOUT_MODEL, View


def _say(text: str) -> None:
    Screen(sys.stderr).line(text, dim=True)


async def compact(
    client: Client,
    prefix: str,
    policy: str | None,
    instructions: str | None,
    *,
    redo: bool = False,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Starts a round and waits for its end, or with `dry_run` shows what it would do. With `redo` it replaces the
    latest round, which was made without a model. Returns the exit status."""
    session = await client.session(await client.find(prefix))
    if redo:
        session = await _undone(client, session, dry_run=dry_run)
    wishes = {"policy": policy, "instructions": instructions, "dry_run": dry_run or None}
    body = {name: value for name, value in wishes.items() if value is not None}
    try:
        accepted = await client.call("POST", f"/v1/sessions/{session['id']}/compactions", json=body)
    except CliError:
        if redo:
            _say(_complete_again(session["id"]))
        raise
    if dry_run:
        own = session["compaction"]["policy"]
        typer.echo(json.dumps(accepted, indent=2) if as_json else visible(view.preview(accepted, own)))
        return COMPLETED
    end = await _end_of(client, session, accepted["round"], quiet=as_json)
    if as_json:
        typer.echo(json.dumps(await _round(client, session["id"], accepted["round"]), indent=2))
    if end.event != "compaction.completed":
        if redo:
            _say(_complete_again(session["id"]))
        return FAILED
    if redo and end.data["rung"] in WITHOUT_MODEL:
        _say(f"round {end.data['round']} was made without a model again")
        return FAILED
    return COMPLETED


def _complete_again(session_id: str) -> str:
    return (
        "the context is complete again and will be summarized when that is due;"
        f" `palimpsest compact {session_id}` tries now"
    )


async def _undone(client: Client, session: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
    """The session after a revert of its latest round. Raises `CliError` unless that was made without a model."""
    if dry_run:
        raise UsageError("--redo reverts a round, which --dry-run cannot show. Use one of them.", code="bad_options")
    if session["compaction"]["in_progress"]:
        raise CliError(
            f"A compaction of {session['id']} is already running. `palimpsest sessions follow` shows it.",
            code="compaction_in_progress",
        )
    made = session["compaction"].get("without_model")
    if made is None:
        raise CliError(
            f"There is nothing to redo: the latest round of {session['id']} was not made without a model.",
            code="nothing_to_redo",
        )
    await client.call("DELETE", f"/v1/sessions/{session['id']}/compactions/{made['round']}")
    _say(f"reverted round {made['round']}, which was summarized without a model")
    return await client.session(session["id"])


async def _end_of(client: Client, session: dict[str, Any], round: int, *, quiet: bool) -> ServerEvent:
    """Shows the events of the round only, until the last one. Ctrl-C stops the wait, not the round."""
    try:
        return await _watch(client, session["id"], session["last_seq"], round, quiet=quiet)
    except CancelledError:
        what = "it" if session["status"] == "idle" else "it and the run"
        _say(f"round {round} continues on the server; `palimpsest sessions cancel {session['id']}` cancels {what}")
        raise


async def _watch(client: Client, session_id: str, after: int, round: int, *, quiet: bool) -> ServerEvent:
    view = View(Screen())
    # Not until idle: an idle session stays idle while it is compacted.
    async with aclosing(client.follow(session_id, after, until_idle=False)) as events:
        async for event in events:
            if not event.event.startswith("compaction.") or event.data.get("round") != round:
                continue
            if not quiet:
                view.show(event)
            if _is_end(event):
                return event
    raise AssertionError("the stream ends only with an error")


def _is_end(event: ServerEvent) -> bool:
    """Whether the round has ended. A failed rung does not end it if another follows."""
    if event.event == "compaction.failed":
        return event.data.get("next") is None
    return event.event in ("compaction.completed", "compaction.cancelled", "compaction.discarded")


async def _rounds(client: Client, session_id: str) -> list[dict[str, Any]]:
    found = await client.call("GET", f"/v1/sessions/{session_id}/compactions")
    items: list[dict[str, Any]] = found["items"]
    return items


async def _round(client: Client, session_id: str, round: int) -> dict[str, Any]:
    return next(item for item in await _rounds(client, session_id) if item["round"] == round)


async def show_rounds(client: Client, prefix: str, fields: Sequence[str] | None) -> None:
    items = await _rounds(client, await client.find(prefix))
    if fields is not None:
        print_json(items, fields)
        return
    for item in items:
        typer.echo(visible(view.list_line(item)))


async def revert(client: Client, prefix: str, round: int | None) -> None:
    """Reverts a round, by default the latest one in force."""
    session_id = await client.find(prefix)
    if round is None:
        round = await _latest(client, session_id)
    await client.call("DELETE", f"/v1/sessions/{session_id}/compactions/{round}")
    typer.echo(f"reverted round {round} of {session_id}")


async def _latest(client: Client, session_id: str) -> int:
    made = [item["round"] for item in await _rounds(client, session_id) if item["status"] == "completed"]
    if not made:
        raise CliError(f"There is nothing to revert: {session_id} has no round in force.", code="nothing_to_revert")
    return int(made[-1])
