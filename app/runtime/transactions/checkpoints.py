"""The transactions around checkpoints: their rows, and the events of those that failed and of restorations."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from app.db.repositories import checkpoints, sessions
from app.db.repositories.checkpoints import StoredCheckpoint
from app.errors import ConflictError, PalimpsestError
from app.eventlog.log import Appender, StreamItem
from app.events import CheckpointFailed, WorkspaceRestored
from app.messages import new_id, now
from app.runtime.checkpoints.shared import Taken
from app.runtime.values.checkpoints import CheckpointReason
from app.sessions import Status

BEGIN, END = "run_started", "run_ended"


def add(connection: Connection, session_id: str, reason: CheckpointReason, taken: Taken) -> StoredCheckpoint:
    """Adds a checkpoint of a workspace. Raises `ConflictError`, before anything is written, if it is in a shared
    repository that another server has changed meanwhile."""
    if taken.recording is not None:
        taken.recording.record(connection)
    before = checkpoints.last(connection, session_id)
    run = 0 if before is None else before.run
    if reason == BEGIN or (reason == END and (before is None or before.reason != BEGIN)):
        run += 1
    started_at = sessions.row(connection, session_id).run_started_at if reason == BEGIN else None
    row = StoredCheckpoint(
        session_id,
        new_id(),
        started_at or now(),
        run,
        reason,
        checkpoints.last_message(connection, session_id),
        taken.files,
        taken.bytes,
        taken.commit,
        taken.tree,
    )
    checkpoints.add(connection, row)
    return row


def has_begun(connection: Connection, session_id: str, since: datetime | None) -> bool:
    """Whether there is a checkpoint of the beginning of a run that has started at this time. It has exactly that time,
    since the clocks of nodes differ."""
    last = checkpoints.last(connection, session_id)
    return last is not None and last.reason == BEGIN and last.at == since


def fail(appender: Appender, reason: CheckpointReason, error: PalimpsestError) -> None:
    """Reports a checkpoint that could not be taken."""
    appender.emit(CheckpointFailed, reason=reason, code=error.code, detail=error.detail)


def check_idle(connection: Connection, session_id: str) -> None:
    """Raises `ConflictError` (code `session_running`) while a run is active, or a sub-agent of one that was cancelled:
    those work in the same workspace, and may end later."""
    is_running = sessions.row(connection, session_id).status != Status.IDLE
    if is_running or sessions.working_children(connection, session_id):
        raise ConflictError("The session is running.", code="session_running")


def save(connection: Connection, session_id: str, taken: Taken) -> tuple[StoredCheckpoint, list[StreamItem]]:
    """Adds the checkpoint before a restoration. Raises the same as `check_idle`."""
    check_idle(connection, session_id)
    return add(connection, session_id, "before_restore", taken), []


def restored(
    connection: Connection, session_id: str, checkpoint_id: str, saved_id: str
) -> tuple[None, list[StreamItem]]:
    """Reports a restoration."""
    appender = Appender(connection, session_id)
    appender.emit(WorkspaceRestored, checkpoint_id=checkpoint_id, saved_id=saved_id)
    return None, appender.flush()


def drop_excess(connection: Connection, session_id: str, most: int) -> set[str]:
    """Removes the oldest checkpoints beyond `most`, but never the first, with which changes are compared; returns the
    commits of those that stay."""
    rows = checkpoints.of_session(connection, session_id)
    dropped = rows[1 : len(rows) - most + 1] if len(rows) > most else []
    checkpoints.drop(connection, session_id, [row.id for row in dropped])
    return {row.commit_id for row in rows if row not in dropped and row.commit_id is not None}
