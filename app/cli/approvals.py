"""Calls that wait for a person: listed, decided by a command, or asked for while a run is followed in a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import typer

from app.cli.calls import Call, whole
from app.cli.client import Client
from app.cli.errors import CliError
from app.cli.screen import Screen, one_line, visible
from app.cli.sse import ServerEvent

Hear = Callable[[ServerEvent], None]


async def pending(client: Client, session_id: str) -> list[dict[str, Any]]:
    """The calls of a session that wait."""
    items: list[dict[str, Any]] = (await client.call("GET", f"/v1/sessions/{session_id}/approvals"))["items"]
    return items


async def decide(client: Client, session_id: str, call_id: str, decision: str, reason: str | None = None) -> None:
    """Decides on one. Raises `ServerRefusedError`, with the code `approval_resolved` where it waits no more."""
    body = {"decision": decision, **({"reason": reason} if reason else {})}
    await client.call("POST", f"/v1/sessions/{session_id}/approvals/{call_id}", json=body)


async def show(client: Client, prefix: str, as_json: bool) -> None:
    items = await pending(client, await client.find(prefix))
    if as_json:
        typer.echo(json.dumps(items, indent=2))
        return
    for item in items:
        call = Call(item["name"], item["arguments"])
        typer.echo(visible(f"{item['call_id']}  until {item['expires_at']}\n  {whole(call)}"))


async def answer(client: Client, prefix: str, call: str, decision: str, reason: str | None) -> None:
    """Decides on the one call whose id begins with `call`, and says which it was."""
    session_id = await client.find(prefix)
    found = [item for item in await pending(client, session_id) if item["call_id"].startswith(call.strip().lower())]
    if len(found) != 1:
        many = f"{len(found)} calls that wait" if found else "No call that waits"
        raise CliError(
            f"{many} in {session_id} begin{'' if found else 's'} with {call}; see `palimpsest approvals {prefix}`.",
            code="ambiguous_id" if found else "approval_not_found",
        )
    (item,) = found
    await decide(client, session_id, item["call_id"], decision, reason)
    said = "approved" if decision == "approve" else "denied"
    typer.echo(visible(f"{said} {one_line(whole(Call(item['name'], item['arguments'])), 300)}"))


@asynccontextmanager
async def asking(client: Client, session_id: str, *, as_json: bool) -> AsyncIterator[Hear]:
    """Asks the person at the terminal about every call that waits while the context lasts; it has to be told of the
    session's events. Nobody is asked without a terminal: the events say what waits, and others may answer."""
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        yield lambda _: None
        return
    asker = Asker(client, session_id, Screen(sys.stderr))
    task = asyncio.create_task(asker.run())
    try:
        yield asker.hear
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Asker:
    """Asks about one call after the other, as long as it waits."""

    def __init__(self, client: Client, session_id: str, screen: Screen) -> None:
        self._client = client
        self._session_id = session_id
        self._screen = screen
        self._waiting: dict[str, Call] = {}
        self._news = asyncio.Event()

    def hear(self, event: ServerEvent) -> None:
        """Takes an event of the session."""
        if event.event == "approval.requested":
            self._waiting[event.data["call_id"]] = Call(event.data["name"], event.data["arguments"])
        elif event.event == "approval.resolved":
            self._waiting.pop(event.data["call_id"], None)
        else:
            return
        self._news.set()

    async def run(self) -> None:
        """Asks until it is cancelled, or the terminal's input ends."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                call_id, call = next(iter(self._waiting.items()))
                if await self._is_pending(call_id) and not await self._ask(call_id, call):
                    return
                self._waiting.pop(call_id, None)

    async def _is_pending(self, call_id: str) -> bool:
        """Whether the call still waits: what is read of an old log was decided long ago."""
        try:
            return call_id in [item["call_id"] for item in await pending(self._client, self._session_id)]
        except CliError as error:
            self._screen.line(error.detail, fg="yellow")
            return False

    async def _ask(self, call_id: str, call: Call) -> bool:
        """Asks about a call until it is decided, here or elsewhere; False where nobody can be asked any more."""
        self._screen.line(whole(call), bold=True)
        while call_id in self._waiting:
            _forget_typed()
            self._screen.write("allow it? y, or n and the reason: ", fg="yellow")
            line = await self._line(call_id)
            if line is None:
                self._screen.fresh()
                continue
            if not line:
                return False
            word, _, reason = line.strip().partition(" ")
            decision = {"y": "approve", "yes": "approve", "n": "deny", "no": "deny"}.get(word.lower().rstrip(",:"))
            if decision is not None:
                self._waiting.pop(call_id, None)
                await self._decide(call_id, decision, reason.strip() or None)
        return True

    async def _decide(self, call_id: str, decision: str, reason: str | None) -> None:
        try:
            await decide(self._client, self._session_id, call_id, decision, reason)
        except CliError as error:
            self._screen.line(error.detail, fg="yellow")

    async def _line(self, call_id: str) -> str | None:
        """The next line of the terminal, empty at its end; None where the call was decided elsewhere meanwhile."""
        loop = asyncio.get_running_loop()
        read: asyncio.Future[str] = loop.create_future()

        def take() -> None:
            if not read.done():
                read.set_result(os.read(sys.stdin.fileno(), 64 * 1024).decode("utf-8", "replace"))

        loop.add_reader(sys.stdin.fileno(), take)
        try:
            while not read.done() and call_id in self._waiting:
                self._news.clear()
                news = asyncio.ensure_future(self._news.wait())
                both: set[asyncio.Future[Any]] = {read, news}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
        finally:
            loop.remove_reader(sys.stdin.fileno())
        return read.result() if read.done() else None


def _forget_typed() -> None:
    """What was typed before a question is no answer to it."""
    import termios

    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
