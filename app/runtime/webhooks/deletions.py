"""What webhooks get of a session that is being deleted: its last event, which is in no log."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from app.db.repositories import deliveries, webhooks
from app.db.repositories.webhooks import StoredDelivery
from app.runtime.webhooks.filter import types_of
from app.runtime.webhooks.signing import delivery_id


def session_deleted(connection: Connection, session_id: str, type_: str, seq: int, data: str, at: datetime) -> None:
    """In the transaction that deletes a session: its last event waits to be delivered; what it had not delivered yet is
    deleted with it. Webhooks of this session alone that do not want the event are removed."""
    if webhooks.count(connection) == 0:
        return
    for webhook_id, only_session, patterns in deliveries.of_deleted_session(connection, session_id):
        if type_ in types_of(patterns):
            key = delivery_id(webhook_id, session_id, seq)
            delivery = StoredDelivery.first(key, webhook_id, type_, at, session_id=session_id, seq=seq, data=data)
            deliveries.add(connection, delivery)
        elif only_session is not None:
            webhooks.remove(connection, webhook_id)
