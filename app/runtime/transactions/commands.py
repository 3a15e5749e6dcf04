"""The transactions of background commands: their rows, and the events of their beginning and end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.changes import ControlAdded
from app.db.repositories import commands, sessions
from app.errors import NotFoundError
from app.eventlog.log import Appender, StreamItem
from app.events import CommandEnded, CommandStarted
from app.messages import Message
from app.runtime.transactions.changes import commit_changes
from app.sessions import CommandStatus

MAX_LISTED = 1_000
"""Commands of a session that are listed."""


@dataclass(frozen=True, slots=True)
class End:
    """How a command has ended, with the size of its output and where that is stored."""

    status: CommandStatus
    exit_code: int | None = None
    remark: str | None = None
    bytes: int = 0
    output_ref: str | None = None


def started(
    connection: Connection, session_id: str, epoch: int, call_id: str, command: str
) -> tuple[None, list[StreamItem]]:
    appender = Appender(connection, session_id, epoch=epoch)
    commands.add(connection, session_id, call_id, command, appender.at)
    sessions.change(connection, session_id, has_commands=True)
    appender.emit(CommandStarted, command_id=call_id, command=command)
    return None, appender.flush()


def ended(
    connection: Connection, session_id: str, call_id: str, end: End, epoch: int | None = None
) -> tuple[None, list[StreamItem]]:
    """Notes the end of a command, once. Raises `NotFoundError` if its session was deleted; with an epoch,
    `StaleOwnerError` if that is no longer the session's."""
    appender = Appender(connection, session_id, epoch=epoch)
    row = commands.get(connection, session_id, call_id)
    if row is None or row.ended_at is not None:
        return None, []
    commands.change(
        connection,
        session_id,
        [call_id],
        status=end.status,
        exit_code=end.exit_code,
        remark=end.remark,
        bytes=end.bytes,
        output_ref=end.output_ref,
        ended_at=appender.at,
    )
    if end.output_ref is not None:
        commands.link_output(connection, session_id, call_id, end.output_ref)
    appender.emit(CommandEnded, end, command_id=call_id)
    return None, appender.flush()


def mark_reported(
    connection: Connection, session_id: str, epoch: int, rows: Collection[Row[Any]], message: Message | None
) -> tuple[int, list[StreamItem]]:
    """The model knows of the end of these commands, by a control message unless it has seen that already; returns its
    seq, 0 without one. Their calls have results now, to which the outputs belong."""
    seq, items = commit_changes(connection, session_id, epoch, [] if message is None else [ControlAdded(message)])
    commands.change(connection, session_id, [row.call_id for row in rows], is_told=True)
    for row in rows:
        if row.output_ref is not None:
            commands.link_output(connection, session_id, row.call_id, row.output_ref)
    return seq, items


def ask_to_stop(connection: Connection, session_id: str, call_id: str) -> tuple[None, list[StreamItem]]:
    """A request asks to stop a command. Raises `NotFoundError` (code `command_not_found`)."""
    find(connection, session_id, call_id)
    commands.change(connection, session_id, [call_id], stop_asked=True)
    return None, []


def find(connection: Connection, session_id: str, call_id: str) -> Row[Any]:
    """The row of a command. Raises `NotFoundError` (code `command_not_found`)."""
    sessions.row(connection, session_id)
    row = commands.get(connection, session_id, call_id)
    if row is None:
        raise NotFoundError("The session has no background command with this id.", code="command_not_found")
    return row


def of_session(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """The newest commands of a session, oldest first. Raises `NotFoundError` for an unknown session."""
    sessions.row(connection, session_id)
    return commands.newest(connection, session_id, MAX_LISTED)
