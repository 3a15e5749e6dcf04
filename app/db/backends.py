"""The kinds of databases, and the one that a URL names."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from app.db import postgres, sqlite
from app.db.errors import reason
from app.db.lanes import Lanes
from app.db.postgres import PostgresServer
from app.db.sqlite import SqliteFile
from app.errors import StorageBusyError, StorageError


class Backend(Protocol):
    """A database of some kind; as text, its place, without secrets. `folder` is the directory of its files, None if
    they are another server's; `reads_again` says whether a read is worth a second attempt on a new connection."""

    @property
    def lanes(self) -> Lanes: ...
    @property
    def folder(self) -> Path | None: ...
    @property
    def reads_again(self) -> bool: ...
    def writing(self) -> Engine: ...
    def reading(self, connections: int) -> Engine: ...
    def migrating(self) -> Engine: ...
    def refuse_unusable(self, connection: Connection) -> None: ...
    def migration(self, connection: Connection) -> AbstractContextManager[None]: ...
    def create(self) -> None: ...
    def exists(self) -> bool: ...
    def check(self) -> None: ...


def backend_of(url: str) -> SqliteFile | PostgresServer:
    """The database at a SQLAlchemy URL. Raises `StorageError` for an invalid one, or for another kind."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Without the cause, whose text may contain a password.
        raise StorageError("PALIMPSEST_DATABASE_URL is not a valid database URL.") from None
    match parsed.get_backend_name():
        case "sqlite":
            return SqliteFile(parsed)
        case "postgresql":
            return PostgresServer(parsed)
    raise StorageError(f"Data is stored in a SQLite file or a Postgres database; {parsed.drivername} cannot be used.")


def password_of(url: str) -> str | None:
    """The password in a database URL, to keep it out of logs; None without one."""
    try:
        return make_url(url).password
    except (ArgumentError, ValueError):
        return None


def refusal(error: DBAPIError, what: str) -> StorageError:
    """The error shown to a client; its text starts with `what`."""
    original = error.orig
    if isinstance(original, sqlite3.Error):
        kind = sqlite.error_kind(original)
    else:
        kind = postgres.error_kind(getattr(original, "sqlstate", None))
    refused = kind(f"{what}: {reason(error)}.")
    refused.__cause__ = error
    return refused


def all_in_use() -> StorageBusyError:
    """The error if no connection has become free in time."""
    return StorageBusyError("All connections to the database are in use.")
