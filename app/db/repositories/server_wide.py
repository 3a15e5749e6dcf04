"""Rows that belong to no session: the logins of browsers, which server holds the database, and the ids of sessions that
are being created."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select

from app.db.dialects import lock, share_lock, upsert
from app.db.models import logins, server
from app.db.prepared import Prepared

_KEY = "holder"


class StoredLogin(NamedTuple):
    """`token_digest` is the digest of the browser's token; `key_proof` proves which API key was used to log in."""

    token_digest: str
    key_proof: str
    created_at: datetime
    expires_at: datetime


_ALL = select(logins.c.token_digest, logins.c.key_proof, logins.c.created_at, logins.c.expires_at)
_ONE = _ALL.where(logins.c.token_digest == bindparam("digest"))


def find_login(connection: Connection, token_digest: str) -> StoredLogin | None:
    row = connection.execute(_ONE, {"digest": token_digest}).first()
    return StoredLogin(*row) if row is not None else None


def newest_logins(connection: Connection) -> list[StoredLogin]:
    """All logins."""
    order = _ALL.order_by(logins.c.created_at.desc(), logins.c.token_digest)
    return [StoredLogin(*row) for row in connection.execute(order)]


def add_login(connection: Connection, login: StoredLogin) -> None:
    connection.execute(insert(logins).values(login._asdict()))


def remove_login(connection: Connection, token_digests: Iterable[str]) -> None:
    """Removes the logins with these digests; unknown ones are ignored."""
    for digest in token_digests:
        connection.execute(delete(logins).where(logins.c.token_digest == digest))


def remove_expired_logins(connection: Connection, at: datetime) -> None:
    connection.execute(delete(logins).where(logins.c.expires_at <= at))


_KEY_ID = "secret_key"


def secret_key_id(connection: Connection) -> tuple[str | None, str | None]:
    """The database's id, and the fingerprint of the key of the node that started last, salted with that id."""
    query = select(server.c.key, server.c.value).where(server.c.key.in_(("instance_id", _KEY_ID)))
    found = {row.key: row.value for row in connection.execute(query)}
    return found.get("instance_id"), found.get(_KEY_ID)


def set_secret_key_id(connection: Connection, value: str) -> None:
    connection.execute(_SET_HOLDER, {"key": _KEY_ID, "value": value})


_SET_HOLDER = upsert(server, key=("key",), changed=lambda new: {"value": new["value"]})


def take_hold(connection: Connection, holder: str) -> None:
    """Makes a server the holder, replacing any other."""
    lock(connection, _KEY)
    connection.execute(_SET_HOLDER, {"key": _KEY, "value": holder})


def reserve(connection: Connection, session_id: str, at: datetime, until: datetime) -> bool:
    """Reserves the id of a session for the one that creates it, at most `until`; False if another one has done so."""
    key = f"creating:{session_id}"
    lock(connection, key)
    known = connection.execute(select(server.c.value).where(server.c.key == key)).scalar()
    if known is not None and datetime.fromisoformat(known) > at:
        return False
    connection.execute(_SET_HOLDER, {"key": key, "value": until.isoformat()})
    return True


def release(connection: Connection, session_id: str) -> None:
    """Ends a reservation."""
    connection.execute(delete(server).where(server.c.key == f"creating:{session_id}"))


_HOLDER = Prepared(select(server.c.value).where(server.c.key == _KEY))


def current_holder(connection: Connection) -> str | None:
    """The current holder, None if there never was one. It stays the holder until the transaction ends."""
    share_lock(connection, _KEY)
    found = _HOLDER.value(connection, {})
    return None if found is None else str(found)
