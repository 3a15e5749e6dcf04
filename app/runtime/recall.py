"""A session's past for its tools: raw outputs from the store, and full-text search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import messages, parts, search
from app.db.repositories.search import Found
from app.errors import ConflictError, GoneError, NotFoundError
from app.messages import ToolResultPart, ToolStatus, rfc3339
from app.tools.base import Finding, PastOutput


class StoredHistory:
    """The history of one session, as `tools.base.SessionHistory`. It never reads another session's rows."""

    def __init__(self, database: Database, session_id: str, output_path: Callable[[str], Path] | None) -> None:
        """`output_path` returns the file of a stored output by its key; None if raw outputs are not stored."""
        self._database = database
        self._session_id = session_id
        self._output_path = output_path

    async def output(self, call_id: str) -> PastOutput:
        """See `SessionHistory.output`."""
        text = await self._database.read(lambda c: messages.text(c, self._session_id, call_id))
        if text is not None:
            data = text.encode()
            return PastOutput("message", ToolStatus.COMPLETED, None, len(data), "", data, None)
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

    async def _file(self, ref: str) -> Path:
        path = self._output_path(ref) if self._output_path is not None else None
        if path is None or not await asyncio.to_thread(path.is_file):
            raise NotFoundError("The raw output is no longer stored.", code="output_not_found")
        return path

    async def search(self, query: str, *, asked_by: str, limit: int) -> Sequence[Finding]:
        """See `SessionHistory.search`. First indexes the messages since the last search, in short writes, so that no
        other session waits long for the writer; only messages before the calling one are certain to be complete."""
        before = await self._database.read(lambda c: search.seq_of_call(c, self._session_id, asked_by))
        done: int | None = 0
        while done is not None:
            done = await self._index(before, done)

        def look(connection: Connection) -> list[Found]:
            return search.find(connection, self._session_id, query, limit, before=before)

        return [Finding(*found) for found in await self._database.read(look)]

    async def _index(self, before: int, after: int) -> int | None:
        return await self._database.writer.write(
            lambda c: search.index(c, self._session_id, before=before, after=after)
        )


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
