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
    """A request as it is stored. Without `answer` it is still being answered by `holder`, or was when that server died,
    or has ended without one if that is `NOBODY`. `made_id` is the id of what it makes."""

    holder: str
    made_id: str
    created_at: datetime
    answer: Answer | None


NOBODY = ""
"""The holder of a request that was released."""

_ADD = insert_new(_table, key=("key_digest",))
_FIND = select(
    *(_table.c[name] for name in ("holder", "made_id", "created_at")), *(_table.c[name] for name in Answer._fields)
)
_ANSWER = (
    update(_table)
    .where(_table.c.key_digest == bindparam("key"), _table.c.holder == bindparam("by"))
    .values(session_id=select(_sessions.c.id).where(_sessions.c.id == bindparam("session")).scalar_subquery())
)


def claim(connection: Connection, key_digest: str, holder: str, made_id: str, at: datetime) -> Claimed:
    """Adds a request, unless there is one with the same key; returns the one that is stored."""
    values = {"key_digest": key_digest, "holder": holder, "made_id": made_id, "created_at": at}
    connection.execute(_ADD, values)
    found = find(connection, key_digest)
    assert found is not None
    return found


def find(connection: Connection, key_digest: str) -> Claimed | None:
    row = connection.execute(_FIND.where(_table.c.key_digest == key_digest)).first()
    if row is None:
        return None
    answer = None if row.status is None else Answer(*(getattr(row, name) for name in Answer._fields))
    return Claimed(row.holder, row.made_id, row.created_at, answer)


def take_over(connection: Connection, key_digest: str, before: str, holder: str, at: datetime) -> bool:
    """Gives a request to another holder than `before`, which answers it again; returns False if another one was
    faster."""
    held = update(_table).where(_table.c.key_digest == key_digest, _table.c.holder == before)
    return connection.execute(held.values(holder=holder, created_at=at)).rowcount == 1


def answer(connection: Connection, key_digest: str, holder: str, given: Answer) -> None:
    """Stores the answer to a request, unless another holder has taken it over."""
    values = {name: getattr(given, name) for name in ("body_digest", "status", "headers", "body")}
    connection.execute(_ANSWER.values(values), {"key": key_digest, "by": holder, "session": given.session_id})


def release(connection: Connection, key_digest: str, holder: str) -> None:
    """Lets a request without an answer be carried out again, with the same id."""
    held = _table.c.key_digest == key_digest, _table.c.holder == holder, _table.c.status.is_(None)
    connection.execute(update(_table).where(*held).values(holder=NOBODY))


def forget(connection: Connection, before: datetime) -> None:
    """Removes all requests that are older than this."""
    connection.execute(delete(_table).where(_table.c.created_at < before))
