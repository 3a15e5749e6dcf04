"""Where each session's workspace is, and its newest snapshot."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from app.db.models import sessions, workspaces


class StoredWorkspace(NamedTuple):
    """A row; see the table."""

    session_id: str
    machine: str
    tenure: int
    snapshot_id: str | None
    as_of: datetime
    restored_as_of: datetime | None = None


_FIND = select(workspaces).where(workspaces.c.session_id == bindparam("sid"))


def find(connection: Connection, session_id: str) -> StoredWorkspace | None:
    row = connection.execute(_FIND, {"sid": session_id}).first()
    return None if row is None else StoredWorkspace(*row)


def add(connection: Connection, session_id: str, machine: str, at: datetime, *, snapshot_id: str | None = None) -> None:
    """The first row of a session, as of a moment. An empty `machine` has it restored where it is used first."""
    row = {"session_id": session_id, "machine": machine, "tenure": 1, "snapshot_id": snapshot_id, "as_of": at}
    connection.execute(insert(workspaces), row)


def acquire(connection: Connection, known: StoredWorkspace, machine: str, *, is_restored: bool = False) -> int | None:
    """Makes a machine the holder of a workspace, unless its row has changed since it was `known`; the new tenure, None
    if it has. One that `is_restored` has the content of its snapshot; see `take_restored`."""
    restored = {"restored_as_of": known.restored_as_of or known.as_of} if is_restored else {}
    change = (
        update(workspaces)
        .where(
            workspaces.c.session_id == known.session_id,
            workspaces.c.tenure == known.tenure,
            workspaces.c.snapshot_id.is_not_distinct_from(known.snapshot_id),
        )
        .values(machine=machine, tenure=known.tenure + 1, **restored)
    )
    return known.tenure + 1 if connection.execute(change).rowcount else None


def record(connection: Connection, session_id: str, tenure: int, snapshot_id: str | None, as_of: datetime) -> bool:
    """Records a holder's newest snapshot; False if the workspace has another holder now."""
    change = (
        update(workspaces)
        .where(workspaces.c.session_id == session_id, workspaces.c.tenure == tenure)
        .values(snapshot_id=snapshot_id, as_of=as_of)
    )
    return bool(connection.execute(change).rowcount)


def is_restored(connection: Connection, session_id: str) -> bool:
    """Whether a workspace was restored and its session's log does not say so yet."""
    row = find(connection, session_id)
    return row is not None and row.restored_as_of is not None


def take_restored(connection: Connection, session_id: str) -> datetime | None:
    """The time of the snapshot that a workspace was restored from, for the session's log; None if it was not, or if the
    log says so already."""
    row = find(connection, session_id)
    if row is None or row.restored_as_of is None:
        return None
    connection.execute(update(workspaces).where(workspaces.c.session_id == session_id).values(restored_as_of=None))
    return row.restored_as_of


def left_unstored(connection: Connection, machines: Collection[str]) -> list[str]:
    """The sessions on machines without an owner that have changed since their newest snapshot, or that have none."""
    query = (
        select(workspaces.c.session_id)
        .join(sessions, sessions.c.id == workspaces.c.session_id)
        .where(
            workspaces.c.machine.in_(machines),
            sessions.c.owner.is_(None),
            or_(workspaces.c.snapshot_id.is_(None), sessions.c.updated_at > workspaces.c.as_of),
        )
    )
    return list(connection.execute(query).scalars())
