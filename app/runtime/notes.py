"""AGENTS.md and MEMORY.md of a workspace, on their way into the system text.

They are read when a context is made: at the first step of a session, and at each compaction. Between those the copy in
the session's row counts, so that a changed file never costs the provider's prompt cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from app.context.prompts import Notes
from app.db.engine import Database
from app.db.repositories import events, sessions
from app.errors import ForbiddenError, InvalidRequestError, PalimpsestError, ToolError
from app.messages import now
from app.runtime.sandboxes import Sandboxes
from app.sandbox.base import Sandbox
from app.sessions import SandboxSpec
from app.tools.memory import MEMORY_FILE, read_note

AGENTS_FILE = "AGENTS.md"

READ_WAIT_S = 10.0
"""How long a sandbox may take to hand the files over; without an answer the run continues without them."""

_AT_ONCE = timedelta(seconds=1)
"""A run that began this soon after its session was made with its task: nobody has put a file there before."""

log = structlog.get_logger(__name__)


async def workspace_notes(sandbox: Sandbox) -> Notes:
    """Both files as they are now. Makes and starts nothing: a workspace that was never made has none. Of a file that is
    too large or binary the model is told; a link or a directory in its place counts as no file. Raises
    `SandboxUnavailableError` where the sandbox does not answer, and `TimeoutError` where it takes too long."""
    async with asyncio.timeout(READ_WAIT_S):
        if not await sandbox.has_workspace():
            return Notes()
        return Notes(agents=await _read(sandbox, AGENTS_FILE), memory=await _read(sandbox, MEMORY_FILE))


async def _read(sandbox: Sandbox, path: str) -> str:
    try:
        return await read_note(sandbox, path) or ""
    except ToolError as error:
        return f"[{error.detail}]"
    except (ForbiddenError, InvalidRequestError) as error:
        log.warning("note_not_read", path=path, reason=error.detail)
        return ""


def may_have_files(row: Row[Any]) -> bool:
    """Whether files can have been put into a session's workspace before its present run. A session made with its task
    runs at once, so that its first request need not wait for a look."""
    if row.task is None or row.parent_id is not None or row.run_started_at is None:
        return True
    began: timedelta = row.run_started_at - row.created_at
    return began > _AT_ONCE


def are_due(row: Row[Any], *, has_generation: bool) -> bool:
    """Whether the first context of a session is still to be made, so that its notes are read for it; one of a session
    that was only compacted does not count, that which a fork has from its parent does."""
    made = has_generation and (row.steps or row.parent_id is not None)
    return not made and may_have_files(row)


async def read_notes(session_id: str, sandbox: Callable[[], Sandbox]) -> Notes | None:
    """A session's notes as a new context would have them; None where they cannot be read, since nothing must fail for
    its notes."""
    try:
        return Notes.load((await workspace_notes(sandbox())).dump())
    except (PalimpsestError, TimeoutError) as error:
        log.warning("notes_not_read", session_id=session_id, reason=str(error) or "the sandbox took too long")
        return None


async def read_beside_owner(sandboxes: Sandboxes, row: Row[Any]) -> Notes | None:
    """As `read_notes`, for those who do not hold the session's sandbox."""
    with ExitStack() as held:

        def sandbox() -> Sandbox:
            lease = sandboxes.lease(row.id, SandboxSpec(**row.sandbox))
            held.callback(lease.release)
            return lease.sandbox

        return await read_notes(row.id, sandbox)


async def refresh_notes(database: Database, row: Row[Any], sandbox: Callable[[], Sandbox]) -> Row[Any] | None:
    """Reads a session's notes again and keeps them, as `keep_notes` does. Where they cannot be read the old ones
    stay."""
    notes = await read_notes(row.id, sandbox)
    return None if notes is None else await keep_notes(database, row, notes)


async def keep_notes(database: Database, row: Row[Any], notes: Notes) -> Row[Any] | None:
    """Makes these a session's notes; gives the session's row where they have changed. Raises `StaleOwnerError` where
    the session has another owner by now."""
    kept = notes.dump()
    if kept == row.notes:
        return None
    return await database.writer.write(lambda c: _store(c, row, kept))


def _store(connection: Connection, row: Row[Any], notes: str | None) -> Row[Any]:
    # No event goes with it; the fence holds here too.
    events.allocate(connection, row.id, 0, now(), epoch=row.epoch)
    sessions.change(connection, row.id, notes=notes)
    return sessions.row(connection, row.id)
