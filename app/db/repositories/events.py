"""The event log: gapless seq numbers, counted on the session's row inside the committing transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, case, insert, select, update

from app.db.dialects import STREAMED, streamed, utf8_length, utf8_slice
from app.db.models import events, sessions
from app.db.prepared import Prepared
from app.errors import NotFoundError, StaleOwnerError
from app.sessions import Status


class StoredEvent(NamedTuple):
    """An event as stored in the log; `data` is its JSON, `traceparent` the trace that it belongs to."""

    seq: int
    type: str
    data: str
    traceparent: str | None = None


class Locked(NamedTuple):
    """A locked session: the seq of its newest event, the trace of its current run, and how often others than its owner
    have changed it in a cluster."""

    last_seq: int
    traceparent: str | None
    nudges: int


class EventPiece(NamedTuple):
    """An event's JSON in UTF-8 from `offset` on: all of it, or as much as requested."""

    seq: int
    type: str
    offset: int
    data: bytes
    is_last: bool


def session_not_found(session_id: str) -> NotFoundError:
    return NotFoundError(f"There is no session {session_id}.", code="session_not_found")


_OF_SESSION = update(sessions).where(sessions.c.id == bindparam("sid"))
# An update, since it also locks the row, and SQLite has no SELECT … FOR UPDATE.
_LOCK = _OF_SESSION.values(updated_at=bindparam("at")).returning(
    sessions.c.last_seq,
    case((sessions.c.status != Status.IDLE, sessions.c.run_traceparent)).label("traceparent"),
    sessions.c.nudges,
)
_LOCK_ANY = Prepared(_LOCK)
_LOCK_FENCED = Prepared(_LOCK.where(sessions.c.epoch == bindparam("owner_epoch")))


def lock(connection: Connection, session_id: str, at: datetime, *, epoch: int | None = None) -> Locked:
    """Locks a session's row for the rest of the transaction, which changes the session at this time.

    With an epoch, the caller must still own the session: else `StaleOwnerError`. Without one, any caller may write;
    `NotFoundError` if the session is gone.
    """
    values = {"sid": session_id, "at": at}
    if epoch is None:
        last = _LOCK_ANY.first(connection, values)
        if last is None:
            raise session_not_found(session_id)
    else:
        last = _LOCK_FENCED.first(connection, {**values, "owner_epoch": epoch})
        if last is None:
            raise StaleOwnerError(f"Another owner has taken over session {session_id}, or it was deleted.")
    return Locked(last.last_seq, last.traceparent, last.nudges)


_APPEND = Prepared(insert(events))
_ADVANCE = Prepared(_OF_SESSION.values(last_seq=bindparam("last")))


def append(connection: Connection, session_id: str, stored: Sequence[StoredEvent]) -> None:
    """Adds events, whose seqs follow the newest one of a locked session."""
    if stored:
        _APPEND.run_all(connection, [{"session_id": session_id, **event._asdict()} for event in stored])
        _ADVANCE.run(connection, {"sid": session_id, "last": stored[-1].seq})


_AFTER = (
    select(
        events.c.seq,
        events.c.type,
        utf8_length(events.c.data),
        utf8_slice(events.c.data, bindparam("offset") + 1, bindparam("most_bytes")),
    )
    .where(events.c.session_id == bindparam("sid"), events.c.seq > bindparam("after_seq"))
    .order_by(events.c.seq)
    .limit(bindparam("page"))
    .execution_options(**STREAMED)
)


def after(
    connection: Connection, session_id: str, seq: int, limit: int, most_bytes: int, offset: int = 0
) -> list[EventPiece]:
    """The events after a seq, oldest first: at most `limit`, with at most `most_bytes` in total. A larger event comes
    alone and in part; with an `offset`, only the rest of the first event is returned."""
    values = {"sid": session_id, "after_seq": seq, "page": 1 if offset else limit, "offset": offset}
    found: list[EventPiece] = []
    room = most_bytes
    with connection.execute(_AFTER, {**values, "most_bytes": most_bytes}) as rows:
        for row in rows:
            left = row[2] - offset
            if found and left > room:
                break
            found.append(EventPiece(row[0], row[1], offset, row[3], left <= most_bytes))
            room -= left
            if room <= 0:
                break  # Before the database reads the next one, and others with it.
    return found


def between(
    connection: Connection, session_id: str, first: int, last: int, types: Collection[str] = (), *, newest_first: bool
) -> Iterator[StoredEvent]:
    """The events from one seq to another, both included, read lazily one by one; only of `types`, if any are given."""
    row = events.c
    query = streamed(select(row.seq, row.type, row.data, row.traceparent))
    query = query.where(row.session_id == session_id, row.seq.between(first, last))
    if types:
        query = query.where(row.type.in_(types))
    with connection.execute(query.order_by(row.seq.desc() if newest_first else row.seq)) as rows:
        for found in rows:
            yield StoredEvent(*found)


_SESSION_TYPES = (
    select(events.c.type, events.c.seq)
    .where(events.c.session_id == bindparam("sid"), events.c.seq >= bindparam("first"), events.c.type.like("session.%"))
    .order_by(events.c.seq)
)
_WITH_SEQS = (
    select(events.c.seq, events.c.type, events.c.data)
    .where(events.c.session_id == bindparam("sid"), events.c.seq.in_(bindparam("seqs", expanding=True)))
    .order_by(events.c.seq)
)


def session_types(connection: Connection, session_id: str, first: int) -> list[tuple[str, int]]:
    """The types and seqs of the `session.*` events from a seq on, oldest first."""
    return [(row[0], row[1]) for row in connection.execute(_SESSION_TYPES, {"sid": session_id, "first": first})]


def with_seqs(connection: Connection, session_id: str, seqs: Collection[int]) -> list[StoredEvent]:
    """The events with these seqs, oldest first."""
    return [StoredEvent(*row) for row in connection.execute(_WITH_SEQS, {"sid": session_id, "seqs": [*seqs]})]


def last_of_type(connection: Connection, session_id: str, type_: str) -> StoredEvent | None:
    """The newest event of a type; searches backward from the end of the log."""
    query = select(events.c.seq, events.c.type, events.c.data).where(events.c.session_id == session_id)
    row = connection.execute(query.where(events.c.type == type_).order_by(events.c.seq.desc()).limit(1)).first()
    return StoredEvent(row[0], row[1], row[2]) if row is not None else None


def heads(connection: Connection, session_ids: Collection[str]) -> dict[str, int]:
    """The seq of the newest event of each session; sessions that are gone are missing."""
    query = select(sessions.c.id, sessions.c.last_seq).where(sessions.c.id.in_(session_ids))
    return {row[0]: row[1] for row in connection.execute(query)}


class Changed(NamedTuple):
    """A session that was changed, and the seq of its newest event."""

    id: str
    last_seq: int
    created_at: datetime
    updated_at: datetime


def changed_sessions(connection: Connection, since: datetime, after_id: str) -> Iterator[Changed]:
    """The sessions that were changed since a time, by id from the one after `after_id`, read lazily one by one. Reads
    all rows of sessions from there on."""
    row = sessions.c
    query = streamed(select(*(row[name] for name in Changed._fields)))
    query = query.where(row.id > after_id, row.updated_at >= since).order_by(row.id)
    with connection.execute(query) as rows:
        for found in rows:
            yield Changed(*found)
