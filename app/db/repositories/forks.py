"""What a fork copies from its parent in addition to the messages: marks, plan, rounds, generation, output locations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from app.db.models import compaction_events, generations, message_parts, queue
from app.db.models import events as log
from app.db.repositories.events import StoredEvent
from app.events import DURABLE_EVENTS

SHAPING = tuple(event.type for event in DURABLE_EVENTS if event.type.startswith(("plan.", "prune.", "compaction.")))
"""The events that determine the shape of the context at each point of a log."""


def shaping_events(connection: Connection, session_id: str, before: int | None) -> list[StoredEvent]:
    """The events of these types with a seq below `before`, oldest first."""
    query = select(log.c.seq, log.c.type, log.c.data).where(log.c.session_id == session_id, log.c.type.in_(SHAPING))
    if before is not None:
        query = query.where(log.c.seq < before)
    return [StoredEvent(*row) for row in connection.execute(query.order_by(log.c.seq))]


def generations_until(connection: Connection, session_id: str, before: int | None) -> Sequence[Row[Any]]:
    """The context generations that started before an event, newest first."""
    query = select(generations).where(generations.c.session_id == session_id)
    if before is not None:
        query = query.where(generations.c.first_seq <= before)
    return connection.execute(query.order_by(generations.c.number.desc())).all()


def outputs(connection: Connection, session_id: str) -> dict[str, dict[str, Any]]:
    """By call: where its raw output is stored, if its result is not complete, and when that was removed."""
    columns = message_parts.c
    query = select(columns.call_id, columns.output_ref, columns.output_swept_at).where(
        columns.session_id == session_id, columns.output_ref.is_not(None)
    )
    return {
        row.call_id: {"output_ref": row.output_ref, "output_swept_at": row.output_swept_at}
        for row in connection.execute(query)
    }


def add_rounds(connection: Connection, session_id: str, rows: Iterable[Mapping[str, Any]]) -> None:
    added = [{**row, "session_id": session_id} for row in rows]
    if added:
        connection.execute(insert(compaction_events), added)


def first_queued(connection: Connection, session_id: str) -> Row[Any] | None:
    """The message that was accepted first, in whatever state it is now."""
    query = select(queue).where(queue.c.session_id == session_id).order_by(queue.c.ordinal).limit(1)
    return connection.execute(query).first()


def add_queued(connection: Connection, session_id: str, row: Mapping[str, Any]) -> None:
    connection.execute(insert(queue), {**row, "session_id": session_id})
