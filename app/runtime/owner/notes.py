"""What an agent gets in addition to its context: AGENTS.md, MEMORY.md and the skills of its workspace, and the
session's past for its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from app.context.clipping import readable
from app.context.prompts import Notes
from app.db.engine import Database
from app.db.repositories import events, images, messages, parts, search, secrets, sessions
from app.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidRequestError,
    NotFoundError,
    PalimpsestError,
    ToolError,
)
from app.messages import ImagePart, Part, ToolResultPart, ToolStatus, now, rfc3339
from app.runtime.searching import search_history
from app.runtime.setup import RuntimeSetup
from app.runtime.skills import workspace_skills
from app.runtime.vault import read_masking
from app.sandbox.base import Sandbox
from app.sessions import SandboxSpec, workspace_of
from app.tools.base import Finding, PastOutput, ToolImage
from app.tools.memory import MEMORY_FILE, read_note

AGENTS_FILES = ("AGENTS.md", "CLAUDE.md")
"""Files with instructions, in the order in which one is looked for."""
READ_WAIT_S = 10.0
"""Timeout in seconds for reading the files from the sandbox; after it the run continues without them."""
_AT_ONCE = timedelta(seconds=1)
"""A run that started this soon after its session was created with a task: no file was uploaded before."""
log = structlog.get_logger(__name__)


async def workspace_notes(sandbox: Sandbox) -> Notes:
    """The current content of both files, and the skills. Creates nothing, since a workspace that does not exist yet has
    none, and starts a sandbox only to list a folder of skills. A file that is too large or binary, or a link that leads
    out, is reported to the model; a directory does not count as a file. Raises `SandboxUnavailableError` if the
    sandbox does not answer, and `TimeoutError` if it takes too long."""
    async with asyncio.timeout(READ_WAIT_S):
        if not await sandbox.has_workspace():
            return Notes()
        memory, skills = await _read(sandbox, MEMORY_FILE), await workspace_skills(sandbox)
        for name in AGENTS_FILES:
            if text := await _read(sandbox, name):
                return Notes(text, memory, name, skills)
        return Notes(memory=memory, skills=skills)


async def _read(sandbox: Sandbox, path: str) -> str:
    try:
        return await read_note(sandbox, path) or ""
    except (ForbiddenError, ToolError) as error:
        log.warning("note_read_failed", path=path, reason=error.detail)
        return f"[{error.detail}]"
    except InvalidRequestError as error:
        log.warning("note_read_failed", path=path, reason=error.detail)
        return ""


def may_have_files(row: Row[Any]) -> bool:
    """Whether files may have been put into a session's workspace before its current run. A session created with a task
    runs at once, so its first request need not wait for a check."""
    if row.source is not None or row.task is None or row.parent_id is not None or row.run_started_at is None:
        return True
    began: timedelta = row.run_started_at - row.created_at
    return began > _AT_ONCE


def are_due(row: Row[Any], *, has_generation: bool) -> bool:
    """Whether the first context of a session has not been built yet, so that its notes must be read. A generation that
    only came from a compaction does not count; one that a fork got from its parent does."""
    made = has_generation and (row.steps or row.parent_id is not None)
    return not made and may_have_files(row)


Mask = Callable[[str], str]
"""Takes a session's secrets out of a text."""


async def read_notes(session_id: str, sandbox: Callable[[], Sandbox], mask: Mask = str) -> Notes | None:
    """A session's notes for a new context; None if they cannot be read, since nothing must fail because of notes. A
    command may have written secrets into them."""
    try:
        return Notes.load((await workspace_notes(sandbox())).masked(mask).dump())
    except (PalimpsestError, TimeoutError) as error:
        log.warning("notes_read_failed", session_id=session_id, reason=str(error) or "the sandbox took too long")
        return None


async def read_beside_owner(setup: RuntimeSetup, row: Row[Any]) -> Notes | None:
    """Like `read_notes`, for callers that do not hold the session's sandbox."""
    rows = await setup.database.read(lambda c: secrets.of_line(c, workspace_of(row)))
    masking = await read_masking(setup.vault, rows, workspace_of(row))
    with ExitStack() as held:

        def sandbox() -> Sandbox:
            lease = setup.sandboxes.lease(workspace_of(row), SandboxSpec(**row.sandbox))
            held.callback(lease.release)
            return lease.sandbox

        return await read_notes(row.id, sandbox, masking.text)


async def refresh_notes(
    database: Database, row: Row[Any], sandbox: Callable[[], Sandbox], mask: Mask = str
) -> Row[Any] | None:
    """Reads a session's notes again and stores them like `keep_notes`. If they cannot be read the old ones stay."""
    notes = await read_notes(row.id, sandbox, mask)
    return None if notes is None else await keep_notes(database, row, notes)


async def keep_notes(database: Database, row: Row[Any], notes: Notes) -> Row[Any] | None:
    """Stores a session's notes; returns the session's row if they have changed. Raises `StaleOwnerError` if the session
    has another owner now."""
    kept = notes.dump()
    if kept == row.notes:
        return None
    return await database.writer.write(lambda c: _store(c, row, kept), session_id=row.id)


def _store(connection: Connection, row: Row[Any], notes: str | None) -> Row[Any]:
    # Without an event; the fence applies here too.
    events.lock(connection, row.id, now(), epoch=row.epoch)
    sessions.change(connection, row.id, notes=notes)
    return sessions.row(connection, row.id)


class StoredHistory:
    """The history of one session, as `tools.base.SessionHistory`. It never reads another session's rows."""

    def __init__(self, database: Database, session_id: str, output_path: Callable[[str], Path] | None) -> None:
        """`output_path` returns the file of a stored output by its key; None if raw outputs are not stored."""
        self._database = database
        self._session_id = session_id
        self._output_path = output_path

    async def output(self, call_id: str) -> PastOutput:
        """See `SessionHistory.output`."""
        message = await self._database.read(lambda c: messages.find(c, self._session_id, call_id))
        if message is not None:
            data, shown = readable(message).encode(), await self._images(message.parts)
            return PastOutput("message", ToolStatus.COMPLETED, None, len(data), "", data, None, shown)
        result, ref, swept_at = await self._database.read(lambda c: _result(c, self._session_id, call_id))
        if swept_at is not None:
            raise swept(swept_at)
        return PastOutput(
            name=result.name,
            status=result.status,
            exit_code=result.exit_code,
            size=result.bytes,
            shown=result.output,
            # A raw output that is not in a file is the start of the shown one; only notes added by Palimpsest follow.
            data=result.output.encode()[: result.bytes],
            path=await self._file(ref) if ref is not None else None,
        )

    async def _images(self, parts: Sequence[Part]) -> tuple[ToolImage, ...]:
        """The images among these parts, as far as they are stored."""
        named = [part for part in parts if isinstance(part, ImagePart) and part.digest is not None]
        digests = {part.digest for part in named if part.digest is not None}
        found = await self._database.read(lambda c: images.of(c, self._session_id, digests)) if digests else {}
        return tuple(
            ToolImage(part.media_type, found[part.digest].data, part.width, part.height, part.path)
            for part in named
            if part.digest in found
        )

    async def _file(self, ref: str) -> Path:
        path = self._output_path(ref) if self._output_path is not None else None
        if path is None or not await asyncio.to_thread(path.is_file):
            raise NotFoundError("The raw output is no longer stored.", code="output_not_found")
        return path

    async def search(self, query: str, *, asked_by: str, limit: int) -> Sequence[Finding]:
        """See `SessionHistory.search`. Only messages before the calling one are certain to be complete."""
        found = await search_history(
            self._database,
            self._session_id,
            lambda c: search.seq_of_call(c, self._session_id, asked_by),
            lambda c, before: search.find(c, self._session_id, query, limit, before=before),
        )
        return [Finding(*place) for place in found]


def _result(
    connection: Connection, session_id: str, call_id: str
) -> tuple[ToolResultPart, str | None, datetime | None]:
    """A call's result, the key of its raw output if it is in a file, and when that was removed."""
    by_type = {row.type: row for row in parts.of_call(connection, session_id, call_id)}
    if "tool_call" not in by_type:
        raise NotFoundError(f"There is no tool call {call_id[:100]}.", code="call_not_found")
    if "tool_result" not in by_type:
        raise ConflictError(f"Call {call_id} has no result yet.", code="call_open")
    row = by_type["tool_result"]
    part = parts.part_of(row)
    assert isinstance(part, ToolResultPart)
    return part, row.output_ref, row.output_swept_at


def swept(at: datetime) -> GoneError:
    """The error for a raw output that was removed because of its age, or to make room for newer ones of its session."""
    return GoneError(
        f"The raw output was removed on {at.date().isoformat()}: raw outputs are kept for a limited time, and up to a"
        " limited size for each session.",
        code="output_swept",
        swept_at=rfc3339(at),
    )
