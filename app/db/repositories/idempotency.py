"""Requests that were sent with an `Idempotency-Key`, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, select, update

from app.db.dialects import insert_new
from app.db.models import idempotent_requests as _table
from app.db.models import sessions as _sessions


class Answer(NamedTuple):
    """What a request was answered with. `body_digest` is that of the request's body; `session_id` names the session
    that it made or changed, with which the answer is deleted."""

    body_digest: str
    session_id: str | None
    status: int
    headers: Mapping[str, str]
    body: bytes


class Claimed(NamedTuple):
    """A request as it is stored; without `answer` it is still being answered by `holder`, or was when that server died.
    `made_id` is the id of what it makes."""

    holder: str
    made_id: str
    created_at: datetime
    answer: Answer | None


_ADD = insert_new(_table, key=("key_digest",))
_FIND = select(
    *(_table.c[name] for name in ("holder", "made_id", "created_at")), *(_table.c[name] for name in Answer._fields)
)
_ANSWER = (
    update(_table)
    .where(_table.c.key_digest == bindparam("key"))
    .values(session_id=select(_sessions.c.id).where(_sessions.c.id == bindparam("session")).scalar_subquery())
)


def claim(connection: Connection, key_digest: str, holder: str, made_id: str, at: datetime) -> Claimed:
    """Adds a request, unless there is one with the same key; returns the one that is stored."""
    values = {"key_digest": key_digest, "holder": holder, "made_id": made_id, "created_at": at}
    connection.execute(_ADD, values)
    row = connection.execute(_FIND.where(_table.c.key_digest == key_digest)).one()
    answer = None if row.status is None else Answer(*(getattr(row, name) for name in Answer._fields))
    return Claimed(row.holder, row.made_id, row.created_at, answer)


def take_over(connection: Connection, key_digest: str, holder: str, at: datetime) -> None:
    """Gives a request to another holder, which answers it again."""
    connection.execute(update(_table).where(_table.c.key_digest == key_digest).values(holder=holder, created_at=at))


def answer(connection: Connection, key_digest: str, given: Answer) -> None:
    """Stores the answer to a request."""
    values = {name: getattr(given, name) for name in ("body_digest", "status", "headers", "body")}
    connection.execute(_ANSWER.values(values), {"key": key_digest, "session": given.session_id})


def release(connection: Connection, key_digest: str) -> None:
    """Forgets a request that has no answer, so that its key can be used again."""
    connection.execute(delete(_table).where(_table.c.key_digest == key_digest, _table.c.status.is_(None)))


def forget(connection: Connection, before: datetime) -> None:
    """Removes all requests that are older than this."""
    connection.execute(delete(_table).where(_table.c.created_at < before))
