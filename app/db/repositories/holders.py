"""Which server holds the database: the one that started last."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from app.db.models import server

_KEY = "holder"


def take(connection: Connection, holder: str) -> None:
    """Makes a server the holder, whoever was it before."""
    written = connection.execute(update(server).where(server.c.key == _KEY).values(value=holder))
    if written.rowcount == 0:
        connection.execute(insert(server).values(key=_KEY, value=holder))


_HOLDER = select(server.c.value).where(server.c.key == _KEY)


def current(connection: Connection) -> str | None:
    """The holder, None before the first one."""
    found = connection.execute(_HOLDER).scalar()
    return None if found is None else str(found)
