"""Webhooks: what they are, who delivers to them, and the list of their deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, func, insert, literal, or_, select, tuple_, update

from app.db.dialects import database_time
from app.db.models import sessions, webhook_cursors, webhook_deliveries, webhooks
from app.db.prepared import Prepared
from app.errors import NotFoundError

ACTIVE, DISABLED = "active", "disabled"
PENDING, DELIVERED, FAILED = "pending", "delivered", "failed"


class StoredWebhook(NamedTuple):
    """A webhook. `events` are names and prefixes, null for all; `failing_since` is when the oldest delivery that keeps
    failing was first tried."""

    id: str
    url: str
    events: list[str] | None
    session_id: str | None
    metadata: dict[str, Any]
    secret: str
    status: str
    disabled_at: datetime | None
    disabled_reason: str | None
    created_at: datetime
    updated_at: datetime
    failing_since: datetime | None = None


class StoredDelivery(NamedTuple):
    """A delivery. `data` is the event's JSON if it is in no log, such as that of a test, which has no session."""

    id: str
    webhook_id: str
    session_id: str | None
    seq: int | None
    type: str
    data: str | None
    status: str
    once: bool
    attempts: int
    response_status: int | None
    error: str | None
    duration_ms: int | None
    created_at: datetime
    attempted_at: datetime | None
    next_attempt_at: datetime | None
    expires_at: datetime | None

    @classmethod
    def first(
        cls,
        key: str,
        webhook_id: str,
        type_: str,
        at: datetime,
        *,
        session_id: str | None = None,
        seq: int | None = None,
        data: str | None = None,
    ) -> StoredDelivery:
        """A delivery that is due now and was not attempted yet. One without a session is attempted once."""
        before = (PENDING, session_id is None, 0, None, None, None)
        return cls(key, webhook_id, session_id, seq, type_, data, *before, at, None, at, None)


Place = tuple[datetime, str]
"""Where a page of a list begins: after the row that was made at this time and has this id."""

_sent = webhook_deliveries.c
_FAILING_SINCE = (
    select(func.min(_sent.created_at))
    .where(
        _sent.webhook_id == webhooks.c.id,
        _sent.status.in_((PENDING, FAILED)),
        _sent.attempts > 0,
        _sent.once.is_(False),
    )
    .scalar_subquery()
)
_PLAIN = select(*(webhooks.c[name] for name in StoredWebhook._fields[:-1]))
_ALL = _PLAIN.add_columns(_FAILING_SINCE)
_DELIVERIES = select(*(webhook_deliveries.c[name] for name in StoredDelivery._fields))


def webhook_not_found() -> NotFoundError:
    return NotFoundError("There is no webhook with this id.", code="webhook_not_found")


def find(connection: Connection, webhook_id: str) -> StoredWebhook:
    """Raises `NotFoundError`."""
    row = connection.execute(_ALL.where(webhooks.c.id == webhook_id)).first()
    if row is None:
        raise webhook_not_found()
    return StoredWebhook(*row)


def page(connection: Connection, before: Place | None, limit: int) -> tuple[list[StoredWebhook], bool]:
    """Webhooks, newest first, and whether there are more."""
    query = _page(_ALL, webhooks.c.created_at, webhooks.c.id, before, limit)
    found = [StoredWebhook(*row) for row in connection.execute(query)]
    return found[:limit], len(found) > limit


def deliveries(
    connection: Connection, webhook_id: str, status: str | None, before: Place | None, limit: int
) -> tuple[list[StoredDelivery], bool]:
    """A webhook's deliveries, newest first, and whether there are more. Raises `NotFoundError`."""
    find(connection, webhook_id)
    query = _page(_DELIVERIES.where(_sent.webhook_id == webhook_id), _sent.created_at, _sent.id, before, limit)
    if status is not None:
        query = query.where(_sent.status == status)
    found = [StoredDelivery(*row) for row in connection.execute(query)]
    return found[:limit], len(found) > limit


def _page(query: Select[Any], made: Any, key: Any, before: Place | None, limit: int) -> Select[Any]:
    if before is not None:
        place = tuple_(literal(before[0], made.type), literal(before[1], key.type))
        query = query.where(tuple_(made, key) < place)
    return query.order_by(made.desc(), key.desc()).limit(limit + 1)


def find_delivery(connection: Connection, webhook_id: str, delivery_id: str) -> StoredDelivery:
    """Raises `NotFoundError`."""
    find(connection, webhook_id)
    query = _DELIVERIES.where(_sent.id == delivery_id, _sent.webhook_id == webhook_id)
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError("The webhook has no delivery with this id.", code="delivery_not_found")
    return StoredDelivery(*row)


def count(connection: Connection, status: str | None = None) -> int:
    """Number of webhooks, or of those with a status."""
    query = select(func.count()).select_from(webhooks)
    return connection.execute(query if status is None else query.where(webhooks.c.status == status)).scalar_one()


def count_failing(connection: Connection) -> int:
    """Number of webhooks with a delivery that has failed and is tried again."""
    query = select(func.count(_sent.webhook_id.distinct()))
    return connection.execute(query.where(_sent.status == PENDING, _sent.attempts > 0)).scalar_one()


def add(connection: Connection, webhook: StoredWebhook) -> None:
    """Adds a webhook, which gets the events from now on: those that its sessions have already are left out."""
    connection.execute(insert(webhooks).values({name: getattr(webhook, name) for name in StoredWebhook._fields[:-1]}))
    present = select(sessions.c.id, literal(webhook.id), sessions.c.last_seq)
    if webhook.session_id is not None:
        present = present.where(sessions.c.id == webhook.session_id)
    # Locked, so that none is deleted before its cursor is stored.
    present = present.with_for_update(read=True, key_share=True)
    connection.execute(insert(webhook_cursors).from_select(["session_id", "webhook_id", "seq"], present))


def change(connection: Connection, webhook_id: str, values: Mapping[str, Any], at: datetime) -> None:
    """Raises `NotFoundError`."""
    changed = update(webhooks).where(webhooks.c.id == webhook_id).values(**values, updated_at=at)
    if connection.execute(changed).rowcount == 0:
        raise webhook_not_found()


def seal(connection: Connection, webhook_id: str, known: str, secret: str) -> None:
    """Replaces a webhook's secret by its encrypted text."""
    changed = update(webhooks).where(webhooks.c.id == webhook_id, webhooks.c.secret == known)
    connection.execute(changed.values(secret=secret))


def disable(connection: Connection, webhook_id: str, reason: str, at: datetime) -> None:
    """Stops a webhook that is active."""
    changed = update(webhooks).where(webhooks.c.id == webhook_id, webhooks.c.status == ACTIVE)
    connection.execute(changed.values(status=DISABLED, disabled_reason=reason, disabled_at=at, updated_at=at))


def enable(connection: Connection, webhook_id: str, at: datetime, expires_at: datetime) -> None:
    """Has a webhook continue where it stopped: what had failed for good is due now, until `expires_at`."""
    change(connection, webhook_id, {"status": ACTIVE, "disabled_at": None, "disabled_reason": None}, at)
    again = update(webhook_deliveries).where(_sent.webhook_id == webhook_id, _sent.once.is_(False))
    connection.execute(
        again.where(_sent.status.in_((PENDING, FAILED))).values(
            status=PENDING, next_attempt_at=at, expires_at=expires_at
        )
    )


def remove(connection: Connection, webhook_id: str) -> None:
    """Removes a webhook with its cursors and deliveries. Raises `NotFoundError`."""
    if connection.execute(delete(webhooks).where(webhooks.c.id == webhook_id)).rowcount == 0:
        raise webhook_not_found()


_BY_HAND = select(_sent.webhook_id).where(_sent.status == PENDING, _sent.once)
_TO_DELIVER = Prepared(
    _PLAIN.where(or_(webhooks.c.status == ACTIVE, webhooks.c.id.in_(_BY_HAND))).order_by(webhooks.c.id)
)


def to_deliver(connection: Connection) -> list[StoredWebhook]:
    """The webhooks to which something may have to be delivered, without `failing_since`: those that are active, and
    those with a test or a retry by hand."""
    return [StoredWebhook(**row._mapping) for row in _TO_DELIVER.all(connection, {})]


# Who delivers, in a cluster


def lease(connection: Connection, node: str, lasts: timedelta) -> frozenset[str]:
    """Has a node hold all webhooks that no other node holds, and renews its leases: for `lasts` from now. Returns the
    webhooks that it holds."""
    at = database_time(connection)
    row = webhooks.c
    free = or_(row.lease_node.is_(None), row.lease_node == node, row.lease_until < at)
    connection.execute(update(webhooks).where(free).values(lease_node=node, lease_until=at + lasts))
    return frozenset(connection.execute(select(row.id).where(row.lease_node == node)).scalars())


def release(connection: Connection, node: str) -> None:
    """Ends all leases of a node, so that another one takes over at once."""
    connection.execute(update(webhooks).where(webhooks.c.lease_node == node).values(lease_node=None))
