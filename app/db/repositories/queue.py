"""The durable queue of user messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, case, func, insert, select, tuple_, update

from app.db.models import queue
from app.db.prepared import Prepared
from app.sessions import QueueMode

PENDING, DELIVERED, WITHDRAWN = "pending", "delivered", "withdrawn"

_FOLLOW_UPS_LAST = case((queue.c.mode == QueueMode.FOLLOW_UP, 1), else_=0)
"""Steers and interrupts are delivered in order of acceptance; follow-ups come after them."""


_ADD = Prepared(insert(queue))
_FIRST = Prepared(select(queue.c.id).where(queue.c.session_id == bindparam("sid")).order_by(queue.c.ordinal).limit(1))
_SET_STATUS = Prepared(
    update(queue)
    .where(queue.c.session_id == bindparam("sid"), queue.c.id == bindparam("mid"))
    .values(status=bindparam("new_status"))
)
_IS_PENDING = (queue.c.session_id == bindparam("sid")) & (queue.c.status == PENDING)
_PENDING = Prepared(select(queue).where(_IS_PENDING).order_by(_FOLLOW_UPS_LAST, queue.c.ordinal))
_COUNT = select(func.count()).select_from(queue).where(_IS_PENDING)
_COUNT_PENDING = Prepared(_COUNT)
_SIZE = Prepared(
    select(
        func.count(),
        func.coalesce(func.sum(func.length(queue.c.content)), 0),
        func.coalesce(func.sum(queue.c.image_bytes), 0),
    ).where(_IS_PENDING)
)
_PLACE = Prepared(
    select(_FOLLOW_UPS_LAST.label("late"), queue.c.ordinal).where(_IS_PENDING, queue.c.id == bindparam("mid"))
)
_COUNT_UP_TO = Prepared(
    _COUNT.where(tuple_(_FOLLOW_UPS_LAST, queue.c.ordinal) <= tuple_(bindparam("late"), bindparam("place")))
)


class Accepted(NamedTuple):
    """A message as it is accepted. `ordinal`, the seq of its event, is its place in the order of acceptance;
    `fingerprint` distinguishes a retry from another message with the same id; `output_format` is what the run has to
    submit. `parts` are those of a message that is not only a text, and `image_bytes` the bytes of their images.
    `traceparent` is the trace of the request."""

    id: str
    ordinal: int
    mode: QueueMode
    content: str
    fingerprint: str
    created_at: datetime
    output_format: dict[str, Any] | None = None
    parts: list[dict[str, Any]] | None = None
    image_bytes: int = 0
    traceparent: str | None = None


class Size(NamedTuple):
    """Pending messages of a session: their number, the characters of their texts, the bytes of their images."""

    messages: int
    chars: int
    image_bytes: int


def add(connection: Connection, session_id: str, message: Accepted) -> None:
    _ADD.run(connection, {"session_id": session_id, "status": PENDING, **message._asdict()})


def get(connection: Connection, session_id: str, message_id: str) -> Row[Any] | None:
    query = select(queue).where(queue.c.session_id == session_id, queue.c.id == message_id)
    return connection.execute(query).first()


def has_any(connection: Connection, session_id: str) -> bool:
    """Whether there was a message, pending or not."""
    found = select(queue.c.id).where(queue.c.session_id == session_id).limit(1)
    return connection.execute(found).first() is not None


def first_id(connection: Connection, session_id: str) -> str | None:
    """The id of the message that was accepted first, in whatever state it is now; None without one."""
    id: str | None = _FIRST.value(connection, {"sid": session_id})
    return id


def pending(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """Pending messages in delivery order."""
    return _PENDING.all(connection, {"sid": session_id})


def due(rows: Sequence[Row[Any]], *, first: bool) -> list[Row[Any]]:
    """Of pending messages, those that a run takes next: all steers and interrupts; if there are none at its `first`
    delivery, one follow-up."""
    steers = [row for row in rows if row.mode != QueueMode.FOLLOW_UP]
    return steers or list(rows[:1] if first else ())


def trace_of(rows: Iterable[Row[Any]]) -> str | None:
    """The trace of the newest message that has one."""
    return next((row.traceparent for row in reversed([*rows]) if row.traceparent is not None), None)


def count(connection: Connection, session_id: str) -> int:
    return int(_COUNT_PENDING.value(connection, {"sid": session_id}))


def size(connection: Connection, session_id: str) -> Size:
    """How much is pending."""
    return Size(*map(int, _SIZE.all(connection, {"sid": session_id})[0]))


def count_all(connection: Connection) -> int:
    """The number of pending messages of all sessions; scans the whole index."""
    return connection.execute(select(func.count()).select_from(queue).where(queue.c.status == PENDING)).scalar_one()


_COUNTS = (
    select(queue.c.session_id, func.count())
    .where(queue.c.session_id.in_(bindparam("ids", expanding=True)), queue.c.status == PENDING)
    .group_by(queue.c.session_id)
)


def counts(connection: Connection, session_ids: Sequence[str]) -> dict[str, int]:
    """The number of pending messages by session, for sessions that have any."""
    return {row[0]: row[1] for row in connection.execute(_COUNTS, {"ids": session_ids})}


def position(connection: Connection, session_id: str, message_id: str) -> int:
    """A message's place in delivery order, counted from 1; 0 if it is not pending."""
    found = _PLACE.first(connection, {"sid": session_id, "mid": message_id})
    if found is None:
        return 0
    return int(_COUNT_UP_TO.value(connection, {"sid": session_id, "late": found.late, "place": found.ordinal}))


def set_status(connection: Connection, session_id: str, ids: Sequence[str], status: str) -> None:
    if ids:
        _SET_STATUS.run_all(connection, [{"sid": session_id, "mid": id, "new_status": status} for id in ids])


def edit(connection: Connection, session_id: str, message_id: str, **columns: Any) -> None:
    """Changes columns of a message."""
    found = update(queue).where(queue.c.session_id == session_id, queue.c.id == message_id)
    connection.execute(found.values(**columns))
