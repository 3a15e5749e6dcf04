"""Translates database errors into Palimpsest's errors; their texts contain no user data."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError

from app.errors import StorageBusyError, StorageError, StorageFullError

_KIND = 0xFF
"""The bits of an extended result code that hold the primary one."""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_FULL = frozenset({sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMOPEN})
"""The WAL index cannot grow; SQLite does not report this as a full disk."""


def refusal(error: DBAPIError, what: str) -> StorageError:
    """The error shown to a client; its text starts with `what`."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    kind = StorageError
    if code is not None and code & _KIND in _BUSY:
        kind = StorageBusyError
    elif code is not None and (code & _KIND == sqlite3.SQLITE_FULL or code in _FULL):
        kind = StorageFullError
    refused = kind(f"{what}: {error.orig}.")
    refused.__cause__ = error
    return refused
