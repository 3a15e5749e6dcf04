"""Sessions: their rows, and the snapshot that the API shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, or_, select, tuple_, update

from app.db.models import server, sessions
from app.db.repositories import queue
from app.db.repositories.events import session_not_found
from app.messages import Usage, new_id
from app.sessions import (
    Approval,
    CompactionState,
    ContextState,
    Limits,
    QueueState,
    SandboxSpec,
    Session,
    Status,
)


def instance_id(connection: Connection) -> str:
    """The id of this database, created on first use; it labels the server's containers."""
    found = connection.execute(select(server.c.value).where(server.c.key == "instance_id")).scalar()
    if found is None:
        found = new_id()
        connection.execute(insert(server).values(key="instance_id", value=found))
    return str(found)


def touch(connection: Connection) -> None:
    """Writes a dummy row to check that the database is writable."""
    written = connection.execute(update(server).where(server.c.key == "touched").values(value=new_id()))
    if written.rowcount == 0:
        connection.execute(insert(server).values(key="touched", value=new_id()))


def add(connection: Connection, **fields: Any) -> None:
    connection.execute(insert(sessions).values(**fields))


def row(connection: Connection, session_id: str) -> Row[Any]:
    """A session's row. Raises `NotFoundError`."""
    found = find(connection, session_id)
    if found is None:
        raise session_not_found(session_id)
    return found


_BY_ID = select(sessions).where(sessions.c.id == bindparam("sid"))


def find(connection: Connection, session_id: str) -> Row[Any] | None:
    return connection.execute(_BY_ID, {"sid": session_id}).first()


_CHANGE = update(sessions).where(sessions.c.id == bindparam("sid"))


def change(connection: Connection, session_id: str, **fields: Any) -> None:
    connection.execute(_CHANGE, {"sid": session_id, **fields})


_CLAIM = _CHANGE.values(epoch=sessions.c.epoch + 1).returning(sessions)


def claim(connection: Connection, session_id: str) -> Row[Any] | None:
    """Raises the epoch, which fences off every earlier owner; returns the new row, or None if the session is gone."""
    return connection.execute(_CLAIM, {"sid": session_id}).first()


def remove(connection: Connection, session_id: str) -> None:
    """Deletes a session and all its rows."""
    connection.execute(delete(sessions).where(sessions.c.id == session_id))


def snapshot(connection: Connection, session_id: str) -> Session:
    """The session as the API shows it. Raises `NotFoundError`."""
    return view(row(connection, session_id), queue.count(connection, session_id))


def view(row: Row[Any], pending: int) -> Session:
    """A row as the API shows it."""
    return Session(
        id=row.id,
        title=row.title,
        task=row.task,
        status=row.status,
        outcome=row.outcome,
        error=row.error,
        model=row.model,
        reasoning_effort=row.reasoning_effort,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_seq=row.last_seq,
        steps=row.steps,
        usage=Usage(**row.usage),
        context=ContextState(**row.context),
        compaction=CompactionState(
            policy=row.compaction["policy"],
            settings={name: value for name, value in row.compaction.items() if name != "policy"},
            count=row.compaction_count,
            last_at=row.compaction_last_at,
            in_progress=row.compaction_in_progress,
        ),
        sandbox=SandboxSpec(**row.sandbox),
        queue=QueueState(pending=pending),
        limits=Limits(**row.limits),
        approval=Approval(**row.approval),
        parent_id=row.parent_id,
        metadata=row.metadata,
    )


PAGE_CHARS = 512 * 1024
"""Total characters of the tasks on a page; a larger first task comes alone."""


def page(
    connection: Connection,
    *,
    status: Status | None,
    q: str | None,
    before: tuple[datetime, str] | None,
    limit: int,
) -> tuple[list[Session], bool]:
    """Sessions, newest first, filtered by status, by text in title or task, and by a place in that order. Large tasks
    make a page smaller than `limit`; the second value says whether there are more."""
    query = select(sessions)
    if status is not None:
        query = query.where(sessions.c.status == status)
    if q:
        query = query.where(
            or_(sessions.c.title.icontains(q, autoescape=True), sessions.c.task.icontains(q, autoescape=True))
        )
    if before is not None:
        created_at = bindparam("before_at", before[0], type_=sessions.c.created_at.type)
        query = query.where(tuple_(sessions.c.created_at, sessions.c.id) < tuple_(created_at, before[1]))
    found = connection.execute(query.order_by(sessions.c.created_at.desc(), sessions.c.id.desc()).limit(limit + 1))
    rows: list[Row[Any]] = []
    chars, more = 0, False
    for row in found:
        chars += len(row.task or "")
        if more := bool(rows) and (len(rows) == limit or chars > PAGE_CHARS):
            break
        rows.append(row)
    found.close()
    pending = queue.counts(connection, [row.id for row in rows])
    return [view(row, pending.get(row.id, 0)) for row in rows], more


def sandboxes(connection: Connection, session_ids: Collection[str]) -> dict[str, SandboxSpec]:
    """The sandbox of each of these sessions."""
    query = select(sessions.c.id, sessions.c.sandbox).where(sessions.c.id.in_(session_ids))
    return {row.id: SandboxSpec(**row.sandbox) for row in connection.execute(query)}


def ids(connection: Connection, *, status: Status | None = None) -> Sequence[str]:
    """Ids of all sessions, or of those with a status."""
    query = select(sessions.c.id)
    if status is not None:
        query = query.where(sessions.c.status == status)
    return connection.execute(query).scalars().all()
