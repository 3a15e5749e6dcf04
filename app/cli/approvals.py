"""Tool calls on the screen, and those that wait for a person: listed, and decided by a command."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import typer

from app.cli import screen
from app.cli.client import Client
from app.cli.diffs import edit_counts
from app.cli.listing import print_json
from app.cli.screen import CliError, Screen, one_line, visible
from app.messages import now

_SAID = {"approve": "approved", "deny": "denied"}

COMMAND = "execute_command"
EDIT = "edit_file"
_VERBS = {
    "read_file": ("read", "path"),
    "write_file": ("wrote", "path"),
    "edit_file": ("edited", "path"),
    "list_directory": ("listed", "path"),
    "search_files": ("searched for", "pattern"),
}
SILENT = {"update_plan"}
"""Tools whose effect has its own event."""

MAX_SHOWN = 10_000
"""Max characters of a call shown for approval; a longer one is visibly cut."""


async def pending(client: Client, session_id: str) -> list[dict[str, Any]]:
    """The session's calls that wait for approval."""
    items: list[dict[str, Any]] = (await client.call("GET", f"/v1/sessions/{session_id}/approvals"))["items"]
    return items


async def decide(client: Client, session_id: str, call_id: str, decision: str, reason: str | None = None) -> None:
    """Approves or denies a call. Raises `ServerRefusedError`; `approval_resolved` if it is already decided."""
    body = {"decision": decision, **({"reason": reason} if reason else {})}
    await client.call("POST", f"/v1/sessions/{session_id}/approvals/{call_id}", json=body)


async def show(client: Client, prefix: str, fields: Sequence[str] | None) -> None:
    items = await pending(client, await client.find(prefix))
    if fields is not None:
        print_json(items, fields)
    else:
        _print_calls(items)


async def show_all(client: Client, fields: Sequence[str] | None) -> None:
    """Prints the waiting calls of all sessions; as JSON, each has its `session_id` too."""
    sessions = [each async for each in client.sessions(status="awaiting_approval")]
    calls = {each["id"]: await pending(client, each["id"]) for each in sessions}
    if fields is not None:
        items = [{"session_id": session_id, **item} for session_id, found in calls.items() for item in found]
        print_json(items, ["session_id", *fields])
        return
    for session in sessions:
        name = one_line(session["title"] or session["task"] or "", 60)
        typer.echo(visible(f"session {screen.short(session['id'], list(calls))}  {name}"))
        _print_calls(calls[session["id"]])
    if sys.stdout.isatty():
        decide_with = "`palimpsest approve SESSION CALL` (or `deny`) decides." if sessions else "No calls are waiting."
        Screen().line(decide_with, dim=True)


def _print_calls(items: list[dict[str, Any]]) -> None:
    known = _ids(items)
    for item in items:
        until = f", until {item['expires_at']}" if item["expires_at"] else ""
        head = f"{screen.short(item['call_id'], known)}  {time_left(item)}{until}"
        typer.echo(visible(f"{head}\n  {whole(_call(item))}"))


async def waiting_lines(client: Client, session_id: str) -> list[str]:
    """The number of waiting calls, how to decide on them, and each call on a line; empty if none wait."""
    items = await pending(client, session_id)
    if not items:
        return []
    known = _ids(items)
    return [
        f"{len(items)} waiting; {how_to_decide(client, session_id, 'CALL')}",
        *(f"{screen.short(item['call_id'], known)}  {time_left(item)}  {_brief(item)}" for item in items),
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
    return f"{screen.seconds(left)} left" if left > 0 else "expired"


async def answer(client: Client, prefix: str, given: str, decision: str, reason: str | None) -> None:
    """Decides on the only waiting call whose id starts or ends with `given`, and prints it. For a call that is already
    decided, the server's error says how."""
    session_id = await client.find(prefix)
    piece = screen.typed(given, "call")
    items = {item["call_id"]: item for item in await pending(client, session_id)}
    found = screen.matching(piece, items)
    if len(found) > 1:
        which = screen.listed([f"{screen.short(each, items)} ({_brief(items[each])})" for each in found])
        raise CliError(f"{len(found)} waiting calls start or end with {piece}: {which}.", code="ambiguous_id")
    call_id = found[0] if found else await _past_call(client, session_id, piece)
    await decide(client, session_id, call_id, decision, reason)
    about = one_line(whole(_call(items[call_id])), 300) if call_id in items else f"call {screen.short(call_id)}"
    typer.echo(visible(f"{_SAID[decision]} {about}"))


async def _past_call(client: Client, session_id: str, piece: str) -> str:
    """The id of the only call in the session's history that starts or ends with `piece`. Raises `CliError`."""
    if len(piece) >= screen.FULL:
        return piece
    found = screen.matching(piece, [call_id async for call_id in _all_calls(client, session_id)])
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


@dataclass
class Call:
    """An open call. `text` is its output on the screen; `whole` is False once live output had a gap."""

    name: str
    arguments: dict[str, Any] | str
    text: str = ""
    end: int = 0
    whole: bool = True

    def take(self, offset: int, text: str) -> str:
        """The new text in a chunk of live output."""
        if offset > self.end:
            gap, self.end, self.whole = offset - self.end, offset + len(text), False
            return f"\n… {gap:,} characters not shown …\n{text}"
        new = text[self.end - offset :]
        self.end += len(new)
        self.text += new
        return new

    def argument(self, name: str) -> str:
        value = self.arguments.get(name, "") if isinstance(self.arguments, dict) else self.arguments
        return value if isinstance(value, str) else json.dumps(value)

    def summary(self) -> str:
        """`execute_command ls -l`: the tool and its main argument, on one line."""
        _, subject = _VERBS.get(self.name, ("", "command"))
        return one_line(f"{self.name} {self.argument(subject)}")

    def headline(self) -> str:
        """`$ ls -l`, or what was done to what."""
        if self.name == COMMAND:
            return "$ " + self.argument("command").strip().replace("\n", "\n  ")
        verb, subject = _VERBS.get(self.name, (self.name, ""))
        about = self.argument(subject) if subject else json.dumps(self.arguments, ensure_ascii=False)
        return one_line(f"{verb} {about}")


def whole(call: Call) -> str:
    """The whole call, as a person needs it to decide."""
    if call.name == COMMAND and isinstance(call.arguments, dict):
        text = call.headline()
    else:
        arguments = call.arguments
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, indent=2)
        text = f"{call.name} {shown}"
    left = len(text) - MAX_SHOWN
    return (
        text
        if left <= 0
        else f"{text[:MAX_SHOWN]}\n… {left:,} more characters; `palimpsest approvals ID --json arguments` shows all"
    )


def command_rest(call: Call, result: dict[str, Any]) -> str:
    """The rest of a command's output that was not sent live; empty if live output had gaps."""
    output = str(result["output"])
    for note in ("[no output]", f"[exit code {result.get('exit_code')}]"):
        output = output.removesuffix(note)
    if not call.whole or not output.startswith(call.text):
        return ""
    return output[len(call.text) :]


def outcome_line(call: Call, result: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """How a call ended, with the line's style; empty if it needs no line."""
    status, time = result["status"], screen.seconds(result["duration_ms"] / 1000)
    good = status == "completed"
    if call.name == COMMAND:
        code = result.get("exit_code")
        ending = f"exit {code}" if good and code is not None else status
        if code and result.get("truncated"):
            ending += f" · {result['bytes']:,} bytes of output"
        return f"{ending} · {time}", {"dim": True} if good and code == 0 else {"fg": "red" if good else "yellow"}
    if good:
        return ("", {}) if call.name in SILENT else (f"· {call.headline()}{_lines(call)}", {"dim": True})
    reason = one_line(str(result["output"]), 300).removeprefix("Error: ")
    return f"· {call.headline()}: {status}: {reason}", {"fg": "yellow"}


def _lines(call: Call) -> str:
    if call.name == EDIT:
        added, removed = edit_counts(call.argument("old_text"), call.argument("new_text"))
        return f" (+{added} −{removed})" if added or removed else ""
    if call.name != "write_file":
        return ""
    count = len(call.argument("content").splitlines())
    return f" ({count} line{'s' * (count != 1)})"
