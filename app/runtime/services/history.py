"""History and context of a session: messages, what a step sends, steps, tool calls and their raw output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from app.context.prompts import Notes
from app.errors import NotFoundError
from app.interchange import WireFormat
from app.runtime import history
from app.runtime.cursors import read_seq
from app.runtime.notes import read_beside_owner
from app.runtime.recall import swept
from app.runtime.setup import RuntimeSetup
from app.runtime.transfer import export_page
from app.runtime.values.history import ContextView, ExportPage, MessagePage, RawOutput, StepPage, ToolCallView


class HistoryService:
    """Reads the stored data of a session. Methods with `after` raise `MalformedRequestError` if it is invalid."""

    def __init__(self, setup: RuntimeSetup, output_path: Callable[[str], Path]) -> None:
        """`output_path` returns the file of a stored raw output."""
        self._database = setup.database
        self._agents = setup.agents
        self._sandboxes = setup.sandboxes
        self._output_path = output_path

    async def messages(self, session_id: str, *, after: str | None, limit: int) -> MessagePage:
        start = read_seq(after)
        return await self._database.read(lambda c: history.message_page(c, session_id, start, limit))

    async def export(self, session_id: str, *, format: WireFormat, after: str | None, limit: int) -> ExportPage:
        """The history in a provider's wire format."""
        start = read_seq(after)
        return await self._database.read(lambda c: export_page(c, session_id, format, start, limit))

    async def context(self, session_id: str, *, step: int | None) -> ContextView:
        """What the next step would send, or what a step has sent. Before the first step it includes the workspace's
        current notes, and the model's server is asked for its window."""
        notes = await self._first_notes(session_id) if step is None else None
        return await self._database.read(lambda c: history.context_view(c, session_id, step, self._agents, notes))

    async def _first_notes(self, session_id: str) -> Notes | None:
        row = await self._database.read(lambda c: history.reads_notes(c, session_id))
        if row is None:
            return None
        await self._agents.ask_windows(row.model, row.compaction.get("model"))
        return await read_beside_owner(self._sandboxes, row)

    async def steps(self, session_id: str, *, after: str | None, limit: int) -> StepPage:
        start = read_seq(after)
        return await self._database.read(lambda c: history.step_page(c, session_id, start, limit))

    async def tool_call(self, session_id: str, call_id: str) -> ToolCallView:
        """A call with its result. Raises `NotFoundError` (code `call_not_found`)."""
        return await self._database.read(lambda c: history.tool_call(c, session_id, call_id))

    async def tool_output(self, session_id: str, call_id: str) -> RawOutput:
        """The raw output of a call. Raises `ConflictError` (code `call_open`) while it has none, and `GoneError` if it
        was removed."""
        stored = await self._database.read(lambda c: history.stored_output(c, session_id, call_id))
        if stored.swept_at is not None:
            raise swept(stored.swept_at)
        if stored.ref is None:
            return RawOutput(size=len(stored.text), data=stored.text)
        path = self._output_path(stored.ref)
        try:
            return RawOutput(size=(await asyncio.to_thread(path.stat)).st_size, path=path)
        except OSError as error:
            raise NotFoundError("The raw output is no longer stored.", code="output_not_found") from error
