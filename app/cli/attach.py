"""Following a session that has been started already: `palimpsest attach` and `palimpsest sessions follow`."""

from __future__ import annotations

import asyncio
from typing import Any

from app.cli.client import Client
from app.cli.following import show_all
from app.cli.run_end import show_end
from app.cli.screen import COMPLETED, Notes, Screen
from app.cli.watching import watching


async def follow(client: Client, prefix: str, as_json: bool) -> int:
    """Shows a session from its start until it is idle. Returns the exit status for the last run's outcome; 0 if the
    session never ran."""
    return await _watch(client, await client.find(prefix), 0, as_json, steers=False)


async def attach(client: Client, prefix: str, after: int | None, as_json: bool) -> int:
    """Shows a session from the seq `after` or the start of its newest run until it is idle, and sends it what is typed.
    Returns the exit status as `follow` does."""
    session_id = await client.find(prefix)
    start = await _start_of_run(client, session_id) if after is None else after
    status = await _watch(client, session_id, start, as_json, steers=True)
    if not as_json:
        await show_end(client, session_id, Screen(), linked=True)
    return status


async def _watch(client: Client, session_id: str, after: int, as_json: bool, *, steers: bool) -> int:
    notes = Notes()
    client.on_notice = notes.say
    async with watching(client, session_id, notes, "json" if as_json else "text", steers=steers) as watched:
        if watched.steers:
            notes.say("Type a message to steer the session. Ctrl-C detaches; the run continues.")
        try:
            end = await show_all(client.follow(session_id, after), *watched.takers)
        except asyncio.CancelledError:
            if steers:
                notes.say(f"detached; `palimpsest sessions cancel {session_id}` cancels the run")
            raise
    return COMPLETED if end.outcome is None else end.status


async def _start_of_run(client: Client, session_id: str) -> int:
    """The seq before the newest run began; a restart of the server does not begin one."""
    query: dict[str, Any] = {"types": "session.running", "order": "desc"}
    while True:
        page = await client.call("GET", f"/v1/sessions/{session_id}/log", params=query)
        for item in page["items"]:
            if item["data"]["trigger"] != "recovery":
                return int(item["seq"]) - 1
        if page["next_cursor"] is None:
            return 0
        query["after"] = page["next_cursor"]
