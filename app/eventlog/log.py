"""The durable events of a session: appended inside a write, replayed from any seq."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import events as rows
from app.db.repositories import queue, sessions
from app.eventlog.missed import news
from app.events import SessionEvent
from app.messages import now
from app.sessions import Session, Status

PAGE = 100
"""Events read from the log at a time."""

PAGE_BYTES = 128 * 1024
"""Their maximum size, which a stalled reader holds in memory. A larger event is read in pieces of this size."""


@dataclass(frozen=True, slots=True)
class StreamItem:
    """One event of a stream: `seq` is None for a live delta; `data` is its JSON. `closes` names the open part that a
    durable event closes, `voids` the message whose parts it closes. Without `data`, readers take a committed event from
    the log. A large event comes in several items, of which the
    first `begins` it and the last `ends` it. `traceparent` is the trace of an event that was committed here."""

    type: str
    seq: int | None
    data: bytes
    closes: str | None = None
    voids: str | None = None
    begins: bool = True
    ends: bool = True
    traceparent: str | None = None

    @property
    def shown(self) -> Iterator[bytes | memoryview]:
        """The data as clients get it, in pieces that share it: a JSON object that begins with the event's type and its
        seq."""
        if self.begins:
            yield _head(self.type, self.seq)
            yield memoryview(self.data)[1:]
        else:
            yield self.data


def _head(type_: str, seq: int | None) -> bytes:
    return b'{"type":"%b",' % type_.encode() if seq is None else b'{"type":"%b","seq":%d,' % (type_.encode(), seq)


def with_type(type_: str, seq: int | None, data: bytes) -> bytes:
    """The JSON object of an event with its type and seq, which are stored next to it."""
    return _head(type_, seq) + data[1:]


def news_item(type_: str, seq: int, data: bytes) -> StreamItem:
    """A durable event for readers of all sessions. Its seq is part of the data, since it is no id of their stream."""
    return StreamItem(type_, None, b'{"seq":%d,%b' % (seq, data[1:]))


def page(items: Sequence[StreamItem]) -> list[StreamItem]:
    """The first items, up to `PAGE_BYTES`, and at least one."""
    sizes = accumulate(len(item.data) for item in items)
    return [
        item for place, (item, size) in enumerate(zip(items, sizes, strict=True)) if not place or size <= PAGE_BYTES
    ]


class Appender:
    """Appends the events of one write transaction to a session's log; the only place that assigns their seqs.

    The session's row stays locked from here to the end of the transaction, so a second appender of the same session
    must not be made before the first is flushed."""

    def __init__(self, connection: Connection, session_id: str, *, epoch: int | None = None) -> None:
        """See `repositories.events.lock` for `epoch` and the errors raised."""
        self._connection = connection
        self._items: list[StreamItem] = []
        self.session_id = session_id
        self.at: datetime = now()
        locked = rows.lock(connection, session_id, self.at, epoch=epoch)
        self.next_seq = locked.last_seq + 1
        """The seq of the next event, for a row that has the same one."""
        self.traceparent = locked.traceparent
        """The trace that the next events belong to: first that of the current run."""
        self.nudges = locked.nudges
        """How often others have changed the session; see `repositories.ownership`."""

    def emit(
        self,
        event: type[SessionEvent],
        source: object = None,
        /,
        *,
        closes: str | None = None,
        voids: str | None = None,
        **fields: Any,
    ) -> int:
        """Appends an event with these fields, and those that it shares with `source`; returns its seq. See `StreamItem`
        for `closes` and `voids`."""
        made = event.of(source, session_id=self.session_id, at=self.at, **fields)
        return self._append(event.type, made.__pydantic_serializer__.to_json(made), closes, voids)

    def copy(self, event: rows.StoredEvent) -> None:
        """Appends an event that was renumbered to be the next one of this log."""
        assert event.seq == self.next_seq, f"event {event.seq} is not the next one, {self.next_seq}"
        self._append(event.type, event.data.encode())

    def _append(self, type_: str, data: bytes, closes: str | None = None, voids: str | None = None) -> int:
        seq = self.next_seq
        self._items.append(StreamItem(type_, seq, data, closes, voids, traceparent=self.traceparent))
        self.next_seq += 1
        return seq

    def session(self) -> Session:
        """The session as the next event shows it: with that event as its newest."""
        stored = sessions.snapshot(self._connection, self.session_id)
        return stored.model_copy(update={"last_seq": self.next_seq})

    def flush(self) -> list[StreamItem]:
        """Writes the events and the session's new last seq; returns the items to publish after the commit."""
        items, self._items = self._items, []
        stored = [rows.StoredEvent(item.seq or 0, item.type, item.data.decode(), item.traceparent) for item in items]
        rows.append(self._connection, self.session_id, stored)
        return items


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a session's log: its last seq, and whether the session is idle: no run, no compaction, and no
    deliverable message."""

    last_seq: int
    quiet: bool


class EventLog:
    """Reads the log of any session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(self, session_id: str, seq: int, limit: int = PAGE, *, offset: int = 0) -> list[StreamItem]:
        """Durable events after a seq, oldest first; the first one without its first `offset` bytes."""
        pieces = await self._database.read(lambda c: rows.after(c, session_id, seq, limit, PAGE_BYTES, offset))
        return [
            StreamItem(piece.type, piece.seq, piece.data, begins=piece.offset == 0, ends=piece.is_last)
            for piece in pieces
        ]

    async def news(self, since: datetime) -> AsyncIterator[list[StreamItem]]:
        """The newest ones of `missed.news`."""
        async for found in news(self._database, since, newest_only=True):
            yield [news_item(event.type, event.seq, event.data.encode()) for _, event in found]

    async def head(self, session_id: str) -> Head:
        """The current head of the log. Raises `NotFoundError` if the session is gone."""
        return await self._database.read(_head_of(session_id))


def _head_of(session_id: str) -> Callable[[Connection], Head]:
    def query(connection: Connection) -> Head:
        row = sessions.row(connection, session_id)
        idle = row.status == Status.IDLE and not row.compaction_in_progress
        deliverable = not row.queue_held and queue.count(connection, session_id) > 0
        return Head(row.last_seq, idle and not deliverable)

    return query
