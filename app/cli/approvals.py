"""Lists the calls that wait for approval, and approves or denies them."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import typer

from app.cli import amounts, ids
from app.cli.calls import Call, whole
from app.cli.client import Client
from app.cli.errors import CliError
from app.cli.screen import one_line, visible
from app.messages import now

_SAID = {"approve": "approved", "deny": "denied"}


async def pending(client: Client, session_id: str) -> list[dict[str, Any]]:
    """The session's calls that wait for approval."""
    items: list[dict[str, Any]] = (await client.call("GET", f"/v1/sessions/{session_id}/approvals"))["items"]
    return items


async def decide(client: Client, session_id: str, call_id: str, decision: str, reason: str | None = None) -> None:
    """Approves or denies a call. Raises `ServerRefusedError`; `approval_resolved` if it is already decided."""
    body = {"decision": decision, **({"reason": reason} if reason else {})}
    await client.call("POST", f"/v1/sessions/{session_id}/approvals/{call_id}", json=body)


async def show(client: Client, prefix: str, as_json: bool) -> None:
    items = await pending(client, await client.find(prefix))
    if as_json:
        typer.echo(json.dumps(items, indent=2))
        return
    known = _ids(items)
    for item in items:
        until = f", until {item['expires_at']}" if item["expires_at"] else ""
        head = f"{ids.short(item['call_id'], known)}  {time_left(item)}{until}"
        typer.echo(visible(f"{head}\n  {whole(_call(item))}"))


async def waiting_lines(client: Client, session_id: str) -> list[str]:
    """The number of waiting calls, how to decide on them, and each call on a line; empty if none wait."""
    items = await pending(client, session_id)
    if not items:
        return []
    known = _ids(items)
    return [
        f"{len(items)} waiting; {how_to_decide(client, session_id, 'CALL')}",
        *(f"{ids.short(item['call_id'], known)}  {time_left(item)}  {_brief(item)}" for item in items),
    ]


def how_to_decide(client: Client, session_id: str, call: str) -> str:
    """The command that approves a call, ready to type on this machine, and how to deny it."""
    rest = f"{session_id} {call}{_server(client)}"
    return f"`palimpsest approve {rest}` (or `deny`)"


def _server(client: Client) -> str:
    """The option that a command needs to reach the same server, or nothing."""
    return f" --server {shlex.quote(client.url)}" if client.has_to_be_named else ""


def time_left(item: dict[str, Any]) -> str:
    """How long a call still waits, by this machine's clock."""
    if item["expires_at"] is None:
        return "no time limit"
    left = int((datetime.fromisoformat(item["expires_at"]) - now()).total_seconds())
    return f"{amounts.seconds(left)} left" if left > 0 else "expired"


async def answer(client: Client, prefix: str, given: str, decision: str, reason: str | None) -> None:
    """Decides on the only waiting call whose id starts or ends with `given`, and prints it. For a call that is already
    decided, the server's error says how."""
    session_id = await client.find(prefix)
    piece = ids.typed(given, "call")
    items = {item["call_id"]: item for item in await pending(client, session_id)}
    found = ids.matching(piece, items)
    if len(found) > 1:
        which = ids.listed([f"{ids.short(each, items)} ({_brief(items[each])})" for each in found])
        raise CliError(f"{len(found)} waiting calls start or end with {piece}: {which}.", code="ambiguous_id")
    call_id = found[0] if found else await _past_call(client, session_id, piece)
    await decide(client, session_id, call_id, decision, reason)
    about = one_line(whole(_call(items[call_id])), 300) if call_id in items else f"call {ids.short(call_id)}"
    typer.echo(visible(f"{_SAID[decision]} {about}"))


async def _past_call(client: Client, session_id: str, piece: str) -> str:
    """The id of the only call in the session's history that starts or ends with `piece`. Raises `CliError`."""
    if len(piece) >= ids.FULL:
        return piece
    found = ids.matching(piece, [call_id async for call_id in _all_calls(client, session_id)])
    if len(found) != 1:
        raise CliError(
            f"No waiting call of {session_id} starts or ends with {piece};"
            f" `palimpsest approvals {session_id}{_server(client)}` lists the waiting calls.",
            code="approval_not_found",
        )
    return found[0]


async def _all_calls(client: Client, session_id: str) -> AsyncIterator[str]:
    """The ids of all tool calls in the session's history."""
    query: dict[str, str] = {}
    while True:
        page = await client.call("GET", f"/v1/sessions/{session_id}/messages", params=query)
        for message in page["items"]:
            for part in message["parts"]:
                if part["type"] == "tool_call":
                    yield part["call_id"]
        if page["next_cursor"] is None:
            return
        query = {"after": page["next_cursor"]}


def _ids(items: list[dict[str, Any]]) -> list[str]:
    return [item["call_id"] for item in items]


def _call(item: dict[str, Any]) -> Call:
    return Call(item["name"], item["arguments"])


def _brief(item: dict[str, Any]) -> str:
    return one_line(whole(_call(item)), 80)
