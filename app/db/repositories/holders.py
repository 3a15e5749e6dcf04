"""Which server holds the database: the most recently started one."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from app.db.models import server

_KEY = "holder"


def take(connection: Connection, holder: str) -> None:
    """Makes a server the holder, replacing any other."""
    written = connection.execute(update(server).where(server.c.key == _KEY).values(value=holder))
    if written.rowcount == 0:
        connection.execute(insert(server).values(key=_KEY, value=holder))


_HOLDER = select(server.c.value).where(server.c.key == _KEY)


def current(connection: Connection) -> str | None:
    """The current holder, None if there never was one."""
    found = connection.execute(_HOLDER).scalar()
    return None if found is None else str(found)
