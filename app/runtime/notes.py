"""AGENTS.md and MEMORY.md of a workspace, for the system text.

They are read when a context is built: at the first step of a session, and at each compaction. In between, the copy in
the session's row is used, so that a changed file never invalidates the provider's prompt cache.
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
"""Timeout in seconds for reading the files from the sandbox; after it the run continues without them."""

_AT_ONCE = timedelta(seconds=1)
"""A run that started this soon after its session was created with a task: no file was uploaded before."""

log = structlog.get_logger(__name__)


async def workspace_notes(sandbox: Sandbox) -> Notes:
    """The current content of both files. Creates and starts nothing: a workspace that does not exist yet has none. A
    file that is too large or binary is reported to the model; a link or a directory does not count as a file. Raises
    `SandboxUnavailableError` if the sandbox does not answer, and `TimeoutError` if it takes too long."""
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
        log.warning("note_read_failed", path=path, reason=error.detail)
        return ""


def may_have_files(row: Row[Any]) -> bool:
    """Whether files may have been put into a session's workspace before its current run. A session created with a task
    runs at once, so its first request need not wait for a check."""
    if row.task is None or row.parent_id is not None or row.run_started_at is None:
        return True
    began: timedelta = row.run_started_at - row.created_at
    return began > _AT_ONCE


def are_due(row: Row[Any], *, has_generation: bool) -> bool:
    """Whether the first context of a session has not been built yet, so that its notes must be read. A generation that
    only came from a compaction does not count; one that a fork got from its parent does."""
    made = has_generation and (row.steps or row.parent_id is not None)
    return not made and may_have_files(row)


async def read_notes(session_id: str, sandbox: Callable[[], Sandbox]) -> Notes | None:
    """A session's notes for a new context; None if they cannot be read, since nothing must fail because of notes."""
    try:
        return Notes.load((await workspace_notes(sandbox())).dump())
    except (PalimpsestError, TimeoutError) as error:
        log.warning("notes_read_failed", session_id=session_id, reason=str(error) or "the sandbox took too long")
        return None


async def read_beside_owner(sandboxes: Sandboxes, row: Row[Any]) -> Notes | None:
    """Like `read_notes`, for callers that do not hold the session's sandbox."""
    with ExitStack() as held:

        def sandbox() -> Sandbox:
            lease = sandboxes.lease(row.id, SandboxSpec(**row.sandbox))
            held.callback(lease.release)
            return lease.sandbox

        return await read_notes(row.id, sandbox)


async def refresh_notes(database: Database, row: Row[Any], sandbox: Callable[[], Sandbox]) -> Row[Any] | None:
    """Reads a session's notes again and stores them like `keep_notes`. If they cannot be read the old ones stay."""
    notes = await read_notes(row.id, sandbox)
    return None if notes is None else await keep_notes(database, row, notes)


async def keep_notes(database: Database, row: Row[Any], notes: Notes) -> Row[Any] | None:
    """Stores a session's notes; returns the session's row if they have changed. Raises `StaleOwnerError` if the session
    has another owner now."""
    kept = notes.dump()
    if kept == row.notes:
        return None
    return await database.writer.write(lambda c: _store(c, row, kept))


def _store(connection: Connection, row: Row[Any], notes: str | None) -> Row[Any]:
    # Without an event; the fence applies here too.
    events.allocate(connection, row.id, 0, now(), epoch=row.epoch)
    sessions.change(connection, row.id, notes=notes)
    return sessions.row(connection, row.id)
