"""The background commands of sessions, as clients see and stop them."""

from __future__ import annotations

from app.runtime.command_reading import read_output
from app.runtime.commands import end_all
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import commands
from app.runtime.values.commands import CommandList, CommandOutput, view_of

MAX_PIECE = 256 * 1024
"""Bytes of output in one answer."""


class CommandService:
    """Methods that take a command's id raise `NotFoundError` (code `command_not_found`) for an unknown one."""

    def __init__(self, setup: RuntimeSetup) -> None:
        self._setup = setup

    async def list(self, session_id: str) -> CommandList:
        """All commands that the session has run in the background, oldest first."""
        rows = await self._setup.database.read(lambda c: commands.of_session(c, session_id))
        here = self._setup.commands.of(session_id)
        sizes = {call_id: running.log.bytes for call_id, running in here.items()}
        return CommandList(items=tuple(view_of(row, sizes.get(row.call_id, row.bytes)) for row in rows))

    async def output(self, session_id: str, command_id: str, since: int) -> CommandOutput:
        """A piece of the output from a byte on."""
        row = await self._setup.database.read(lambda c: commands.find(c, session_id, command_id))
        piece = await read_output(self._setup, row, since, MAX_PIECE)
        return CommandOutput(
            command_id=command_id,
            status=piece.state.status,
            exit_code=piece.state.exit_code,
            output=piece.data.decode("utf-8", "replace"),
            since=piece.since,
            next_since=piece.until,
            bytes=piece.state.bytes,
        )

    async def stop(self, session_id: str, command_id: str) -> None:
        """Ends a command; does nothing if it has ended. One on another node of a cluster ends soon after."""
        row = await self._setup.database.read(lambda c: commands.find(c, session_id, command_id))
        running = self._setup.commands.of(session_id).get(command_id)
        if running is not None:
            await end_all([running], "stopped")
        elif row.ended_at is None:
            await self._setup.write(session_id, lambda c: commands.ask_to_stop(c, session_id, command_id))
