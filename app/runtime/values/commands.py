"""Background commands as requests see them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from app.messages import Timestamp, Value
from app.sessions import CommandStatus


class CommandView(Value):
    """A command that runs, or ran, in the background. `command_id` is the id of the call that started it, which has its
    whole output once it has ended. `bytes` is the size of its output so far; `remark` names the limit that ended it, or
    says why it could not be started."""

    command_id: str
    command: str
    status: CommandStatus
    exit_code: int | None
    remark: str | None
    bytes: int
    started_at: Timestamp
    ended_at: Timestamp | None


class CommandList(Value):
    """The newest 1,000 background commands of a session, oldest first."""

    items: tuple[CommandView, ...]


class CommandOutput(Value):
    """A piece of a command's output as text. `since` is its first byte, later than requested if what comes before is
    not stored; pass `next_since` to continue. `bytes` is the size of all output so far."""

    command_id: str
    status: CommandStatus
    exit_code: int | None
    output: str
    since: int
    next_since: int
    bytes: int


def view_of(row: Row[Any], size: int) -> CommandView:
    """From a row, and the size of its output so far."""
    return CommandView.of(row, command_id=row.call_id, bytes=size)
