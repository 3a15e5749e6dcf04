"""The secrets of sessions: names, times and cipher texts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, select

from app.db.dialects import upsert
from app.db.models import secrets
from app.db.prepared import Prepared
from app.db.repositories import sessions

_PUT = upsert(
    secrets,
    key=("session_id", "name"),
    changed=lambda new: {"value": new["value"], "updated_at": new["updated_at"]},
)
FORKS = 100
"""Sessions of which a fork's line is followed."""
_OF_SESSION = Prepared(select(secrets).where(secrets.c.session_id == bindparam("sid")).order_by(secrets.c.name))


def put(connection: Connection, session_id: str, name: str, value: str, at: datetime) -> None:
    """Stores a cipher text, in place of an earlier one."""
    row = {"session_id": session_id, "name": name, "value": value, "created_at": at, "updated_at": at}
    connection.execute(_PUT, row)


def remove(connection: Connection, session_id: str, name: str) -> bool:
    """Returns whether it existed."""
    which = (secrets.c.session_id == session_id) & (secrets.c.name == name)
    return connection.execute(delete(secrets).where(which)).rowcount > 0


def of_session(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """By name."""
    return _OF_SESSION.all(connection, {"sid": session_id})


def of_line(connection: Connection, session_id: str) -> list[Row[Any]]:
    """Those of a session, then those of the sessions that it is a fork of, whose files it has."""
    found: list[Row[Any]] = []
    next_id: str | None = session_id
    for _ in range(FORKS):
        row = None if next_id is None else sessions.find(connection, next_id)
        if row is None:
            break
        found += of_session(connection, row.id)
        next_id = row.parent_id
    return found


def count_others(connection: Connection, session_id: str, name: str) -> int:
    """How many secrets with other names the session has."""
    query = select(func.count()).where(secrets.c.session_id == session_id, secrets.c.name != name)
    return connection.execute(query).scalar_one()
