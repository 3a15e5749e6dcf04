"""Outputs and idle sessions that are old enough to be removed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, and_, select, update

from app.db.models import message_parts, messages, sessions
from app.sessions import Status


class StoredOutput(NamedTuple):
    """A raw output in a file: its call and its key."""

    session_id: str
    call_id: str
    key: str


_IDLE = and_(sessions.c.status == Status.IDLE, sessions.c.compaction_in_progress.is_(False))


def old_outputs(connection: Connection, before: datetime, limit: int) -> list[StoredOutput]:
    """Raw outputs of calls that were made before a time."""
    part = message_parts.c
    query = (
        select(part.session_id, part.call_id, part.output_ref)
        .join(sessions, sessions.c.id == part.session_id)
        .join(messages, and_(messages.c.session_id == part.session_id, messages.c.id == part.message_id))
        .where(part.output_ref.is_not(None), part.output_swept_at.is_(None), messages.c.created_at < before, _IDLE)
    )
    return [StoredOutput(*row) for row in connection.execute(query.limit(limit))]


def outputs_of(connection: Connection, session_id: str) -> list[StoredOutput]:
    """Raw outputs of one session, oldest first."""
    part = message_parts.c
    query = (
        select(part.session_id, part.call_id, part.output_ref)
        .join(messages, and_(messages.c.session_id == part.session_id, messages.c.id == part.message_id))
        .where(part.session_id == session_id, part.output_ref.is_not(None), part.output_swept_at.is_(None))
        .order_by(messages.c.seq, part.index)
    )
    return [StoredOutput(*row) for row in connection.execute(query)]


def mark_swept(connection: Connection, outputs: Collection[StoredOutput], at: datetime) -> list[str]:
    """Marks outputs as removed, except those whose session has started running; returns their keys."""
    ids = {output.session_id for output in outputs}
    idle = set(connection.execute(select(sessions.c.id).where(sessions.c.id.in_(ids), _IDLE)).scalars())
    return mark_removed(connection, [output for output in outputs if output.session_id in idle], at)


def mark_removed(connection: Connection, outputs: Collection[StoredOutput], at: datetime) -> list[str]:
    """Marks outputs as removed; returns their keys."""
    for output in outputs:
        connection.execute(
            update(message_parts)
            .where(
                message_parts.c.session_id == output.session_id,
                message_parts.c.call_id == output.call_id,
                message_parts.c.output_ref.is_not(None),
            )
            .values(output_swept_at=at)
        )
    return [output.key for output in outputs]


def swept_since(connection: Connection, since: datetime) -> Sequence[str]:
    """The keys of outputs that were marked as removed since a time."""
    part = message_parts.c
    query = select(part.output_ref).where(part.output_swept_at >= since, part.output_ref.is_not(None))
    return [ref for ref in connection.execute(query).scalars() if ref is not None]


def old_sessions(connection: Connection, before: datetime, limit: int) -> Sequence[str]:
    """Idle sessions without activity since a time, oldest first."""
    query = select(sessions.c.id).where(_IDLE, sessions.c.updated_at < before).order_by(sessions.c.updated_at)
    return connection.execute(query.limit(limit)).scalars().all()


def is_old(connection: Connection, session_id: str, before: datetime) -> bool:
    """Whether a session may still be removed."""
    query = select(sessions.c.id).where(_IDLE, sessions.c.id == session_id, sessions.c.updated_at < before)
    return connection.execute(query).first() is not None
