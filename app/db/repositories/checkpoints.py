"""The checkpoints of sessions, whose content is in a git repository of each session."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select

from app.db.models import checkpoints, messages
from app.errors import NotFoundError


class StoredCheckpoint(NamedTuple):
    """A row; see the table."""

    session_id: str
    id: str
    at: datetime
    run: int
    reason: str
    message_id: str | None
    files: int
    bytes: int
    commit_id: str | None
    tree_id: str


# By id, which begins with the time, since several may have the same millisecond.
_ADD = insert(checkpoints)
_OF_SESSION = select(checkpoints).where(checkpoints.c.session_id == bindparam("sid"))
_ALL = _OF_SESSION.order_by(checkpoints.c.id)
_LAST = _OF_SESSION.order_by(checkpoints.c.id.desc()).limit(1)
_ONE = _OF_SESSION.where(checkpoints.c.id == bindparam("checkpoint"))
_LAST_MESSAGE = (
    select(messages.c.id)
    .where(messages.c.session_id == bindparam("sid"), messages.c.voided_at.is_(None))
    .order_by(messages.c.seq.desc())
    .limit(1)
)


def of_session(connection: Connection, session_id: str) -> list[StoredCheckpoint]:
    """All checkpoints of a session, oldest first."""
    return [StoredCheckpoint(*row) for row in connection.execute(_ALL, {"sid": session_id})]


def last(connection: Connection, session_id: str) -> StoredCheckpoint | None:
    row = connection.execute(_LAST, {"sid": session_id}).first()
    return None if row is None else StoredCheckpoint(*row)


def get(connection: Connection, session_id: str, checkpoint_id: str) -> StoredCheckpoint:
    """Raises `NotFoundError` (code `checkpoint_not_found`)."""
    row = connection.execute(_ONE, {"sid": session_id, "checkpoint": checkpoint_id}).first()
    if row is None:
        raise NotFoundError(f"The session has no checkpoint {checkpoint_id}.", code="checkpoint_not_found")
    return StoredCheckpoint(*row)


def add(connection: Connection, row: StoredCheckpoint) -> None:
    connection.execute(_ADD, row._asdict())


def last_message(connection: Connection, session_id: str) -> str | None:
    """The id of the last message of a session's history."""
    id: str | None = connection.execute(_LAST_MESSAGE, {"sid": session_id}).scalar()
    return id


def drop(connection: Connection, session_id: str, ids: Sequence[str]) -> None:
    """Removes checkpoints."""
    rows = checkpoints.c
    connection.execute(delete(checkpoints).where(rows.session_id == session_id, rows.id.in_(ids)))


def keep_only(connection: Connection, session_id: str, commits: Collection[str]) -> None:
    """Removes the checkpoints whose commits the session's repository does not have."""
    rows = checkpoints.c
    others = rows.session_id == session_id, rows.commit_id.is_not(None), rows.commit_id.not_in(list(commits))
    connection.execute(delete(checkpoints).where(*others))


def copy(connection: Connection, source_id: str, target_id: str, message_ids: Collection[str]) -> None:
    """Gives a fork the checkpoints of its parent, up to the first that was taken after other messages than these."""
    for row in of_session(connection, source_id):
        if row.message_id is not None and row.message_id not in message_ids:
            return
        add(connection, row._replace(session_id=target_id))
