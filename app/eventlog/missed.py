"""What has happened in all sessions since a time, read from their logs: for readers that reconnect, and for nodes that
get no messages of others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from functools import partial

import orjson
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import deletions, events, sessions
from app.db.repositories.events import Changed, StoredEvent
from app.events import SessionDeleted, SessionUpdated

NEWS_BYTES = 128 * 1024
"""Size of the events that are read at a time, which a stalled reader holds in memory."""

RECENTLY = 200
"""Events at the end of a log that are read. There is no index by type, and a run of some minutes rarely has more."""

News = list[tuple[str, StoredEvent]]
"""Events with the ids of their sessions."""


async def news(database: Database, since: datetime, *, newest_only: bool) -> AsyncIterator[News]:
    """The `session.*` events of all sessions since then, in the order of each log, with `newest_only` those that have
    none of their type after them; then the last events of deleted sessions. Where the end of a log does not reach back
    that far, a `session.updated` shows the session as it is. Each page is read when it is taken, and has at most
    `NEWS_BYTES` and the rest of one session."""
    for read in (partial(_of_changed, newest_only), _of_deleted):
        after_id: str | None = ""
        while after_id is not None:
            found, after_id = await database.read(partial(_page, read, since, after_id))
            if found:
                yield found


_Read = Callable[[Connection, datetime, str], Iterator[tuple[str, list[StoredEvent]]]]


def _page(read: _Read, since: datetime, after_id: str, connection: Connection) -> tuple[News, str | None]:
    """The next sessions' events, and the id to continue after; None at the end."""
    found: News = []
    size = 0
    for session_id, new in read(connection, since, after_id):
        found += [(session_id, event) for event in new]
        size += sum(len(event.data) for event in new)
        if size >= NEWS_BYTES:
            return found, session_id
    return found, None


def _of_changed(
    newest_only: bool, connection: Connection, since: datetime, after_id: str
) -> Iterator[tuple[str, list[StoredEvent]]]:
    for session in events.changed_sessions(connection, since, after_id):
        yield session.id, _of_session(connection, session, since, newest_only)


def _of_session(connection: Connection, session: Changed, since: datetime, newest_only: bool) -> list[StoredEvent]:
    first = max(session.last_seq - RECENTLY, 0) + 1
    types = events.session_types(connection, session.id, first)
    seqs = {*dict(types).values()} if newest_only else {seq for _, seq in types}
    if session.created_at >= since:
        seqs.add(1)  # Before a history that was imported or copied.
    found = events.with_seqs(connection, session.id, seqs | {first})
    new = [event for event in found if event.type.startswith("session.") and _at(event) >= since]
    if first > 1 and all(_at(event) >= since for event in found if event.seq == first):
        new.append(_as_it_is(connection, session))
    return new


def _at(event: StoredEvent) -> datetime:
    return datetime.fromisoformat(orjson.loads(event.data)["at"])


def _as_it_is(connection: Connection, session: Changed) -> StoredEvent:
    current = sessions.snapshot(connection, session.id)
    event = SessionUpdated(session_id=session.id, at=session.updated_at, session=current)
    return StoredEvent(session.last_seq, event.type, event.model_dump_json())


def _of_deleted(connection: Connection, since: datetime, after_id: str) -> Iterator[tuple[str, list[StoredEvent]]]:
    for last in deletions.since(connection, since, after_id):
        yield last.session_id, [StoredEvent(last.seq, SessionDeleted.type, last.data)]
