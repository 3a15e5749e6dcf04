"""Requests that made webhooks, by their `Idempotency-Key`: one that is repeated makes no second webhook."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, select

from app.db.dialects import insert_new
from app.db.models import webhook_requests as _table


class StoredRequest(NamedTuple):
    """Digests of the caller with the key, and of the body; `webhook_id` is what it made."""

    key_digest: str
    body_digest: str
    webhook_id: str
    created_at: datetime


_ADD = insert_new(_table, key=("key_digest",))
_ALL = select(*(_table.c[name] for name in StoredRequest._fields))


def claim(connection: Connection, request: StoredRequest) -> StoredRequest:
    """Adds a request, unless there is one with the same key; returns the one that is stored. Its webhook may be added
    later in the transaction. Another transaction with the same key is waited for."""
    connection.execute(_ADD, request._asdict())
    return StoredRequest(*connection.execute(_ALL.where(_table.c.key_digest == request.key_digest)).one())


def forget(connection: Connection, before: datetime) -> None:
    """Removes all requests that are older than this."""
    connection.execute(delete(_table).where(_table.c.created_at < before))
