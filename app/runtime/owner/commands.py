"""The background commands of a session as its owner and its model use them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Row

from app.agent.conversation import Conversation, control
from app.db.repositories import commands as rows
from app.errors import ToolError
from app.runtime.command_reading import read_output
from app.runtime.commands import MAX_RUNNING, end_all, too_many
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import commands as transactions
from app.runtime.transactions.commands import End
from app.sandbox.base import Sandbox
from app.sessions import CommandStatus, SessionKind
from app.tools.background import CommandOutput, described
from app.tools.base import CommandPiece, CommandState
from app.tools.registry import tools_for

NAME_CHARS = 200
"""Longest part of a command that names it in a message."""


class SessionCommands:
    """See `tools.base.Background`. Made with the owner, but what it starts outlives that."""

    def __init__(self, setup: RuntimeSetup, session: SessionState, recorder: Recorder) -> None:
        self._setup = setup
        self._session = session
        self._recorder = recorder
        self._started: set[str] = set()
        """Those whose end the model does not know, as far as the owner knows."""
        self._seen: set[str] = set()
        """Those of them whose end it has seen in a result."""

    async def recover(self) -> None:
        """The owner begins. Commands of an earlier one may have ended with a server that did not note it. Raises
        `StaleOwnerError`, `SupersededError` and `StorageError`."""
        session_id = self._session.id
        if self._session.row.has_commands:
            known = await self._setup.database.read(lambda c: rows.unreported(c, session_id))
            self._started = {row.call_id for row in known}
            if known:
                await self._setup.commands.recover(self._setup, session_id, self._recorder.epoch)

    async def start(self, call_id: str, command: str, sandbox: Sandbox, env: Mapping[str, str]) -> CommandState:
        session_id, epoch = self._session.id, self._recorder.epoch
        if self._session.row.kind == SessionKind.SUBAGENT:
            raise ToolError("A sub-agent cannot run commands in the background.")
        if not self._can_be_seen():
            raise ToolError("This session cannot run commands in the background: it has no command_output.")
        if len(self._setup.commands.of(session_id)) >= MAX_RUNNING:
            raise too_many()
        stored = self._recorder.submit(lambda c: transactions.started(c, session_id, epoch, call_id, command))
        try:
            await asyncio.shield(stored)
            if not self._session.row.has_commands:
                # The tools for it are offered from the next step on.
                await self._session.read()
        except asyncio.CancelledError:
            # It is stored all the same, but not started.
            self._recorder.submit(lambda c: transactions.ended(c, session_id, call_id, End("stopped")))
            raise
        self._started.add(call_id)
        masking = self._session.masking
        running = await self._setup.commands.start(
            self._setup, session_id, call_id, command, sandbox=sandbox, env=env, masking=masking
        )
        return self._see(running.state())

    async def output(self, command_id: str, since: int | None, wait_s: float, most: int) -> CommandPiece:
        row = await self._find(command_id)
        running = self._setup.commands.of(self._session.id).get(command_id)
        if running is not None and wait_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while running.end is None and (since is None or running.log.bytes <= since):
                        running.log.grown.clear()
                        await running.log.grown.wait()
            row = await self._find(command_id)
        piece = await read_output(self._setup, row, since, most)
        self._see(piece.state)
        return piece

    async def stop(self, command_id: str) -> CommandState:
        row = await self._find(command_id)
        running = self._setup.commands.of(self._session.id).get(command_id)
        if running is None:
            return self._see(CommandState(command_id, row.status, row.exit_code, row.bytes, row.remark))
        await end_all([running], "stopped")
        return self._see(running.state())

    def _can_be_seen(self) -> bool:
        """Whether the model has, or will have, the tool that shows what a command prints."""
        row, window = self._session.row, self._session.config().budget.limit
        names = tools_for(window) if row.tools is None else row.tools
        return names is None or CommandOutput.name in names

    def _see(self, state: CommandState) -> CommandState:
        """The model gets this."""
        if state.status != "running":
            self._seen.add(state.command_id)
        return state

    async def _find(self, command_id: str) -> Row[Any]:
        session_id = self._session.id
        row = await self._setup.database.read(lambda c: rows.get(c, session_id, command_id))
        if row is not None:
            return row
        # Its id may be in a part of the conversation that the model no longer sees.
        here = await self._setup.database.read(lambda c: rows.running(c, session_id))
        known = "; ".join(f"{row.call_id} (`{_name(row.command)}`)" for row in here) or "none"
        text = f"There is no background command {command_id[:100]!r}. Those that run: {known}."
        raise ToolError(self._session.masking.text(text))

    async def report(self, conversation: Conversation) -> None:
        """Tells the model, at the end of the conversation, which commands have ended since its last step."""
        session_id, epoch = self._session.id, self._recorder.epoch
        if not self._started - self._setup.commands.of(session_id).keys():
            return
        found = await self._setup.database.read(lambda c: rows.unreported(c, session_id))
        ended = [row for row in found if row.ended_at is not None]
        if not ended:
            return
        unseen = [row for row in ended if row.call_id not in self._seen]
        message = control(self._session.masking.text(_message(unseen))) if unseen else None
        # Not guarded: what is stored and what is in memory have to be the same.
        seq = await self._recorder.submit(lambda c: transactions.mark_reported(c, session_id, epoch, ended, message))
        if message is not None:
            conversation.append(message.model_copy(update={"seq": seq}))
        self._started -= {row.call_id for row in ended}

    async def end(self, reason: CommandStatus) -> None:
        """Ends all commands."""
        await self._setup.commands.end(self._session.id, reason)

    async def leave(self, *, hands_over: bool) -> None:
        """The owner ends. If another machine may have the session next, its commands end too."""
        if self._setup.node is not None or self._setup.workspaces is not None:
            await self.end("interrupted" if hands_over else "sandbox_stopped")

    async def touch(self) -> None:
        """A step begins: what runs may have changed files since the last one."""
        workspaces = self._setup.workspaces
        if workspaces is not None and self._setup.commands.of(self._session.id):
            async with workspaces.using(self._session.id):
                pass


def _message(ended: Sequence[Row[Any]]) -> str:
    lines = (
        f"- {row.call_id} (`{_name(row.command)}`): "
        + described(CommandState(row.call_id, row.status, row.exit_code, row.bytes, row.remark))
        for row in ended
    )
    return "\n".join(["[Background commands have ended; `command_output` shows what they printed.", *lines]) + "]"


def _name(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= NAME_CHARS else f"{line[:NAME_CHARS]}…"
