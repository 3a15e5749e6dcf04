"""Which machine has a workspace: the transactions that ask and change it."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from app.db.dialects import lock_session
from app.db.engine import Database
from app.db.repositories import events, sessions, workspaces
from app.db.repositories.workspaces import StoredWorkspace
from app.errors import ConflictError
from app.messages import now
from app.sessions import Status


class Helper(NamedTuple):
    """A sub-agent that uses the workspace of its session, with the epoch of its claim."""

    session_id: str
    epoch: int


def elsewhere() -> ConflictError:
    return ConflictError("The session runs on another machine, or is about to; try again.", code="workspace_elsewhere")


async def find(database: Database, session_id: str) -> StoredWorkspace | None:
    return await database.read(lambda c: workspaces.find(c, session_id))


async def find_owned(database: Database, session_id: str, epoch: int) -> StoredWorkspace | None:
    """Like `find`, for an owner. Raises `StaleOwnerError`."""

    def work(connection: Connection) -> StoredWorkspace | None:
        events.lock(connection, session_id, now(), epoch=epoch)
        return workspaces.find(connection, session_id)

    return await database.writer.write(work, session_id=session_id)


async def disown(database: Database, row: StoredWorkspace) -> StoredWorkspace | None:
    """Takes the workspace from its machine, for it to be restored; the new row."""

    def work(connection: Connection) -> StoredWorkspace | None:
        workspaces.acquire(connection, row, "")
        return workspaces.find(connection, row.session_id)

    return await database.writer.write(work, session_id=row.session_id)


async def acquire(
    database: Database,
    session_id: str,
    row: StoredWorkspace | None,
    machine: str,
    epoch: int | None,
    node: str | None,
    *,
    helper: Helper | None = None,
    is_restored: bool = False,
) -> tuple[int, str | None] | None:
    """The new tenure, with the newest snapshot, from which the workspace `is_restored` or not; None if the row has
    changed since it was read. Raises `StaleOwnerError` if the `epoch` of an owner, or that of a `helper`, has ended;
    without an owner's, `ConflictError` (code `workspace_elsewhere`) if a run on another `node` may use it."""

    def work(connection: Connection) -> tuple[int, str | None] | None:
        at = now()
        if helper is not None:
            # Its own session first, as everywhere: no two transactions wait for each other.
            events.lock(connection, helper.session_id, at, epoch=helper.epoch)
            lock_session(connection, session_id)
        if epoch is not None:
            events.lock(connection, session_id, at, epoch=epoch)
        elif _may_run_elsewhere(connection, session_id, row, machine, node):
            raise elsewhere()
        if row is not None:
            tenure = workspaces.acquire(connection, row, machine, is_restored=is_restored)
            return None if tenure is None else (tenure, row.snapshot_id)
        if workspaces.find(connection, session_id) is not None:
            return None
        workspaces.add(connection, session_id, machine, at)
        return 1, None

    return await database.writer.write(work, session_id=session_id if helper is None else helper.session_id)


def _may_run_elsewhere(
    connection: Connection, session_id: str, row: StoredWorkspace | None, machine: str, node: str | None
) -> bool:
    session = sessions.find(connection, session_id)
    if session is None or (session.status == Status.IDLE and session.owner is None):
        return False
    if node is not None and session.owner not in (None, node):
        return True  # on this machine, maybe
    # An owner that has not asked for it yet takes it from this machine, which is then found when a snapshot is stored.
    return session.owner is not None if row is None else row.machine != machine
