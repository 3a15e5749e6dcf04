"""The last events of sessions that were just deleted, which are in no log: readers on other nodes need them, and those
that reconnect."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, select

from app.db.dialects import insert_new, streamed
from app.db.models import deletions
from app.messages import now

KEPT = timedelta(minutes=10)
"""How long a last event is kept for readers."""


class LastEvent(NamedTuple):
    """The last event of a deleted session; `data` is its JSON."""

    session_id: str
    seq: int
    data: str


_LAST = select(deletions.c.session_id, deletions.c.seq, deletions.c.data)


def add(connection: Connection, last: LastEvent) -> None:
    """Keeps a last event until `remove_old` removes it."""
    connection.execute(insert_new(deletions, key=("session_id",)), {**last._asdict(), "deleted_at": now()})


def remove_old(connection: Connection) -> None:
    """Removes those that no reader waits for anymore: they have the session's task and answer."""
    connection.execute(delete(deletions).where(deletions.c.deleted_at < now() - KEPT))


def of(connection: Connection, session_ids: Collection[str]) -> list[LastEvent]:
    """The last events of those of the sessions that were deleted just now."""
    return [LastEvent(*row) for row in connection.execute(_LAST.where(deletions.c.session_id.in_(session_ids)))]


def since(connection: Connection, at: datetime, after_id: str) -> Iterator[LastEvent]:
    """The last events of the sessions that were deleted since a time, by id from the one after `after_id`, read lazily
    one by one."""
    query = streamed(_LAST.where(deletions.c.deleted_at >= at, deletions.c.session_id > after_id))
    with connection.execute(query.order_by(deletions.c.session_id)) as rows:
        for row in rows:
            yield LastEvent(*row)
