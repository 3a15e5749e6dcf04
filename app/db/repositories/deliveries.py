"""What webhooks still have to get: the next event of each session, and deliveries that wait to be sent again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, case, delete, func, or_, select, update

from app.db.dialects import insert_new, upsert
from app.db.models import sessions, webhook_cursors, webhooks
from app.db.models import webhook_deliveries as _table
from app.db.repositories import events
from app.db.repositories.events import StoredEvent
from app.db.repositories.webhooks import ACTIVE, DELIVERED, PENDING, StoredDelivery, StoredWebhook, disable

SCANNED = 2_000
"""Events of a session among which the next one for a webhook is searched at a time."""

KEPT = 1_000
"""Finished deliveries of a webhook that are listed."""

Lane = str | None
"""Whose deliveries are in one order: a session's, or (None) the tests of a webhook."""


@dataclass(frozen=True, slots=True)
class Next:
    """What a webhook's lane needs: an event (`type`, `seq`, `data`, its JSON), with its delivery if that is stored
    already; else, a time to wait for. `scanned` is the event of the session up to which nothing is left for the
    webhook. `traceparent` is the event's trace."""

    webhook: StoredWebhook
    seq: int | None = None
    type: str = ""
    data: str | None = None
    stored: StoredDelivery | None = None
    wait_until: datetime | None = None
    scanned: int = 0
    traceparent: str | None = None


_sent = _table.c
_COLUMNS = [_sent[name] for name in StoredDelivery._fields]
_ADD = insert_new(_table, key=("id",))


def backlog(connection: Connection, webhook: StoredWebhook) -> list[str]:
    """The sessions with events after the webhook's cursor. Reads all rows of sessions."""
    mine = (webhook_cursors.c.session_id == sessions.c.id) & (webhook_cursors.c.webhook_id == webhook.id)
    query = select(sessions.c.id).outerjoin(webhook_cursors, mine)
    query = query.where(sessions.c.last_seq > func.coalesce(webhook_cursors.c.seq, 0))
    if webhook.session_id is not None:
        query = query.where(sessions.c.id == webhook.session_id)
    return list(connection.execute(query.order_by(sessions.c.updated_at)).scalars())


def changed(connection: Connection, since: datetime) -> dict[str, int]:
    """The sessions that were changed since a time, with the seq of their newest events. Reads all rows of sessions."""
    query = select(sessions.c.id, sessions.c.last_seq).where(sessions.c.updated_at >= since)
    return {row[0]: row[1] for row in connection.execute(query)}


def due(connection: Connection, at: datetime) -> list[tuple[str, Lane]]:
    """The webhooks and lanes with deliveries that wait to be sent, and should be by now."""
    query = select(_sent.webhook_id, _sent.session_id).distinct()
    query = query.where(_sent.status == PENDING, _sent.next_attempt_at <= at)
    return [(row[0], row[1]) for row in connection.execute(query)]


def find_next(
    connection: Connection, webhook: StoredWebhook, lane: Lane, types: Collection[str], scanned: int, at: datetime
) -> Next:
    """What to deliver next in a lane, of events with these types (all, if empty) after the webhook's cursor and after
    `scanned`. Requests by hand come first; then what failed before, which the events after it wait for."""
    found = _pending(connection, webhook, lane)
    if found is not None:
        if found.next_attempt_at is not None and found.next_attempt_at > at:
            return Next(webhook, wait_until=found.next_attempt_at)
        if found.data is not None:
            return Next(webhook, found.seq, found.type, found.data, found)
        logged = _logged(connection, found)
        if logged is None:
            return Next(webhook, found.seq, found.type, None, found)
        return Next(webhook, found.seq, found.type, logged.data, found, traceparent=logged.traceparent)
    if lane is None or webhook.status != ACTIVE:
        return Next(webhook)
    return _in_log(connection, webhook, lane, types, scanned)


def _pending(connection: Connection, webhook: StoredWebhook, lane: Lane) -> StoredDelivery | None:
    query = select(*_COLUMNS).where(_sent.webhook_id == webhook.id, _sent.status == PENDING)
    query = query.where(_sent.session_id.is_(None) if lane is None else _sent.session_id == lane)
    if webhook.status != ACTIVE:
        query = query.where(_sent.once)
    row = connection.execute(query.order_by(_sent.once.desc(), _sent.seq, _sent.created_at).limit(1)).first()
    return None if row is None else StoredDelivery(*row)


def _logged(connection: Connection, delivery: StoredDelivery) -> StoredEvent | None:
    assert delivery.session_id is not None
    assert delivery.seq is not None
    found = events.between(connection, delivery.session_id, delivery.seq, delivery.seq, newest_first=False)
    return next(found, None)


def _in_log(
    connection: Connection, webhook: StoredWebhook, session_id: str, types: Collection[str], scanned: int
) -> Next:
    head = events.heads(connection, [session_id]).get(session_id)
    if head is None:
        return Next(webhook)
    cursor = webhook_cursors.c
    stored = select(cursor.seq).where(cursor.session_id == session_id, cursor.webhook_id == webhook.id)
    after = max(connection.execute(stored).scalar() or 0, scanned)
    while after < head:
        last = min(head, after + SCANNED)
        for event in events.between(connection, session_id, after + 1, last, types, newest_first=False):
            return Next(
                webhook, event.seq, event.type, event.data, scanned=event.seq - 1, traceparent=event.traceparent
            )
        after = last
    return Next(webhook, scanned=after)


# Results


_STORE = upsert(
    _table,
    key=("id",),
    changed=lambda new: {
        name: new[name]
        for name in (
            *("status", "once", "attempts", "response_status", "error", "duration_ms", "attempted_at"),
            *("next_attempt_at", "expires_at"),
        )
    },
)


def record(connection: Connection, delivery: StoredDelivery, disabled_because: str | None, node: str | None) -> bool:
    """Stores the result of an attempt: the delivery as it is now. Once an event is delivered, the webhook's cursor is
    after it. With a reason, the webhook is disabled. False, and nothing is stored, if the webhook or the session is
    gone, or in a cluster if another node than this one delivers now."""
    # Of the row, only the key is locked: other deliveries to the same webhook are stored meanwhile.
    locked = select(webhooks.c.session_id, webhooks.c.lease_node).where(webhooks.c.id == delivery.webhook_id)
    webhook = connection.execute(locked.with_for_update(read=True, key_share=True)).first()
    if webhook is None or (node is not None and webhook.lease_node != node):
        return False
    if delivery.data is None and not _exists(connection, delivery.session_id):
        return False
    connection.execute(_STORE, delivery._asdict())
    if delivery.status == DELIVERED and delivery.data is None and not delivery.once:
        assert delivery.session_id is not None
        assert delivery.seq is not None
        advance(connection, delivery.webhook_id, {delivery.session_id: delivery.seq})
    if disabled_because is not None:
        assert delivery.attempted_at is not None
        disable(connection, delivery.webhook_id, disabled_because, delivery.attempted_at)
    if delivery.status == DELIVERED and delivery.seq is not None and webhook.session_id is not None and delivery.data:
        # Its only session has been deleted, and the receiver knows.
        connection.execute(delete(webhooks).where(webhooks.c.id == delivery.webhook_id))
    return True


def _exists(connection: Connection, session_id: str | None) -> bool:
    return connection.execute(select(sessions.c.id).where(sessions.c.id == session_id)).first() is not None


_ADVANCE = upsert(
    webhook_cursors,
    key=("session_id", "webhook_id"),
    changed=lambda new: {"seq": case((new["seq"] > webhook_cursors.c.seq, new["seq"]), else_=webhook_cursors.c.seq)},
)


def advance(connection: Connection, webhook_id: str, seqs: Mapping[str, int]) -> None:
    """Moves a webhook's cursors to these events, by session; those that are further stay, as do sessions that are
    gone."""
    present = select(sessions.c.id).where(sessions.c.id.in_(seqs)).order_by(sessions.c.id)
    for session_id in connection.execute(present.with_for_update(read=True, key_share=True)).scalars().all():
        values = {"session_id": session_id, "webhook_id": webhook_id, "seq": seqs[session_id]}
        connection.execute(_ADVANCE, values)


def skip(connection: Connection, webhook_id: str, seqs: Mapping[str, int]) -> None:
    """Like `advance`, for a webhook that may be gone."""
    present = select(webhooks.c.id).where(webhooks.c.id == webhook_id)
    if connection.execute(present.with_for_update(read=True, key_share=True)).first() is not None:
        advance(connection, webhook_id, seqs)


def add(connection: Connection, delivery: StoredDelivery) -> None:
    """Adds a delivery that waits to be sent, unless there is one with its id."""
    connection.execute(_ADD, delivery._asdict())


def send_pending(connection: Connection, webhook_id: str, at: datetime) -> None:
    """Makes failed deliveries that would be retried later due now."""
    waiting = update(_table).where(_sent.webhook_id == webhook_id, _sent.status == PENDING, _sent.next_attempt_at > at)
    connection.execute(waiting.values(next_attempt_at=at))


def send_again(connection: Connection, delivery: StoredDelivery, at: datetime) -> None:
    """Has a delivery sent now: one that is pending, in its session's order; any other, once."""
    values = {"status": PENDING, "next_attempt_at": at, "once": delivery.once or delivery.status != PENDING}
    connection.execute(update(_table).where(_sent.id == delivery.id).values(**values))


def of_deleted_session(connection: Connection, session_id: str) -> Sequence[tuple[str, str | None, list[str] | None]]:
    """Removes what was sent of a session that is being deleted. Returns the webhooks that could get its last event: id,
    its only session if it has one, and events."""
    row = webhooks.c
    query = select(row.id, row.session_id, row.events)
    query = query.where(or_(row.session_id.is_(None), row.session_id == session_id)).order_by(row.id)
    found = connection.execute(query.with_for_update(read=True, key_share=True)).all()
    connection.execute(delete(_table).where(_sent.session_id == session_id))
    return [(each.id, each.session_id, each.events) for each in found]


def trim(connection: Connection, webhook_id: str) -> None:
    """Removes the oldest finished deliveries of a webhook beyond `KEPT`."""
    finished = (_sent.webhook_id == webhook_id) & (_sent.status != PENDING)
    oldest = select(_sent.created_at).where(finished).order_by(_sent.created_at.desc()).offset(KEPT).limit(1)
    connection.execute(delete(_table).where(finished, _sent.created_at <= oldest.scalar_subquery()))
