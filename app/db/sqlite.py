"""SQLite: a file in WAL mode with one writing connection; and what its errors mean."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from app.db.lanes import ONE_LANE
from app.errors import StorageBusyError, StorageError, StorageFullError

WRITER_CACHE_KIB, READER_CACHE_KIB = 8_192, 2_048
"""SQLite's page caches, one for each connection. A reader's is of little use, since any write invalidates it."""

BUSY_TIMEOUT_MS = 5_000
"""How long SQLite waits for another process that holds the write lock, such as a migration or a backup."""

_KIND = 0xFF
"""The bits of an extended result code that hold the primary one."""
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_FULL = frozenset({sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMOPEN})
"""The WAL index cannot grow; SQLite does not report this as a full disk."""


def error_kind(error: sqlite3.Error) -> type[StorageError]:
    """What a refusal of SQLite's means."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & _KIND in _BUSY:
        return StorageBusyError
    if code is not None and (code & _KIND == sqlite3.SQLITE_FULL or code in _FULL):
        return StorageFullError
    return StorageError


class SqliteFile:
    """A database in a file. A URL may name any of SQLAlchemy's SQLite drivers, but the synchronous one is always used:
    transactions run in Palimpsest's own threads, one thread hop each."""

    lanes = ONE_LANE
    reads_again = False

    def __init__(self, url: URL) -> None:
        """Raises `StorageError` if the URL names no file."""
        if not url.database or url.database == ":memory:":
            raise StorageError("A SQLite database needs a file: sqlite:///path/of/the/file.db.")
        self.path = Path(url.database)
        self._url = f"sqlite+pysqlite:///{self.path}"
        self._opened: tuple[int, int] | None = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def folder(self) -> Path:
        """The directory of the file."""
        return self.path.parent

    def writing(self) -> Engine:
        """One connection. BEGIN IMMEDIATE takes the write lock at once, so that no write fails halfway because another
        process was faster. NORMAL survives a killed process; only a power cut may lose the newest commits, never the
        database."""
        engine = self._engine(connections=1)
        wal = ("journal_mode=WAL", "synchronous=NORMAL")
        _configure(engine, begin="BEGIN IMMEDIATE", cache_kib=WRITER_CACHE_KIB, pragmas=wal)
        event.listen(engine, "connect", self._note_file)
        return engine

    def reading(self, connections: int) -> Engine:
        """Connections that cannot write. In WAL mode they never wait for the writer."""
        engine = self._engine(connections)
        _configure(engine, begin="BEGIN", cache_kib=READER_CACHE_KIB, pragmas=("query_only=ON",))
        return engine

    def migrating(self) -> Engine:
        return create_engine(self._url, poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})

    def refuse_unusable(self, connection: Connection) -> None:
        """Nothing: this process is the server."""

    @contextmanager
    def migration(self, connection: Connection) -> Iterator[None]:
        """Waits for other processes that migrate the database: SQLite locks the file for each statement only."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def create(self) -> None:
        """Creates the directory of the file. Raises `OSError`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.is_file()

    def check(self) -> None:
        """Raises `StorageError` if the open file is no longer at its path. Blocks."""
        if self._opened is not None and self._identity() != self._opened:
            raise StorageError(
                f"The database file is gone from {self.path}; new writes will be lost at the next start. Stop the"
                " server, restore the newest copy there and start it again."
            )

    def _engine(self, connections: int) -> Engine:
        return create_engine(
            self._url,
            connect_args={"check_same_thread": False},
            pool_size=connections,
            max_overflow=0,
            # A statement's values are user data, which must not appear in error texts.
            hide_parameters=True,
        )

    def _note_file(self, *_: object) -> None:
        self._opened = self._opened or self._identity()

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _configure(engine: Engine, *, begin: str, cache_kib: int, pragmas: tuple[str, ...]) -> None:
    """Sets the pragmas of each connection and disables the driver's transaction control, which would begin late and
    commit implicitly around savepoints."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "foreign_keys=ON", f"cache_size=-{cache_kib}", *pragmas):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)
