"""Connections: one writer and a few readers on SQLite in WAL mode, each in its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError

from app.db.writer import Writer, refusal
from app.errors import StorageError

T = TypeVar("T")

READERS = 4
"""Reading threads, each with a connection. In WAL mode readers never wait for the writer."""

WRITER_CACHE_KIB, READER_CACHE_KIB = 8_192, 2_048
"""SQLite's page caches, one for each connection. A reader's is of little use, since any write invalidates it."""

BUSY_TIMEOUT_MS = 5_000
"""How long SQLite waits for another process that holds the write lock, such as a migration or a backup."""


class Database:
    """Access to the tables: `writer` for all writes, `read()` for consistent snapshots."""

    def __init__(self, write_engine: Engine, read_engine: Engine, path: Path) -> None:
        self._path = path
        self._opened: tuple[int, int] | None = None
        event.listen(write_engine, "connect", self._note_file)
        self._engines = (write_engine, read_engine)
        self._read_engine = read_engine
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="db-reader")
        self.writer = Writer(write_engine)

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Runs `query` in a reader's thread; all its statements see the same state.
        Raises `StorageError` if the database cannot be read."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, query)

    def read_here(self, query: Callable[[Connection], T]) -> T:
        """As `read`, in the calling thread, which must not be the event loop's."""
        return self._read(query)

    def _read(self, query: Callable[[Connection], T]) -> T:
        try:
            with self._read_engine.connect() as connection:
                return query(connection)
        except DBAPIError as error:
            raise refusal(error, "The database cannot be read") from error

    def check_file(self) -> None:
        """Raises `StorageError` if the open database file is no longer at its path. Blocks."""
        if self._opened is not None and _identity(self._path) != self._opened:
            raise StorageError(
                f"The database file is gone from {self._path}; new writes will be lost at the next start. Stop the"
                " server, restore the newest copy there and start it again."
            )

    def _note_file(self, *_: object) -> None:
        self._opened = self._opened or _identity(self._path)

    async def aclose(self) -> None:
        """Commits what was submitted, then closes all connections."""
        await self.writer.aclose()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.shutdown()
        for engine in self._engines:
            engine.dispose()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _configure_sqlite(engine: Engine, *, begin: str, cache_kib: int, pragmas: tuple[str, ...]) -> None:
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


def sqlite_path(url: str) -> Path:
    """The file of a SQLite URL. Raises `StorageError` for other databases, which are not supported."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise StorageError(f"This version stores its data in a SQLite file; {parsed.drivername} cannot be used.")
    return Path(parsed.database)


def open_database(url: str) -> Database:
    """The database at a SQLAlchemy URL; connections are opened on first use.

    The URL may name any of SQLAlchemy's SQLite drivers, but the synchronous one is always used: transactions run in
    Palimpsest's own threads, one thread hop each.
    """
    path = sqlite_path(url)
    plain = f"sqlite+pysqlite:///{path}"
    # A statement's values are user data, which must not appear in error texts.
    arguments: dict[str, Any] = {
        "connect_args": {"check_same_thread": False},
        "max_overflow": 0,
        "hide_parameters": True,
    }
    write_engine = create_engine(plain, pool_size=1, **arguments)
    # One more for `read_here`.
    read_engine = create_engine(plain, pool_size=READERS + 1, **arguments)
    # IMMEDIATE takes the write lock at once, so that no write fails halfway because another process was faster.
    # NORMAL survives a killed process; only a power cut may lose the newest commits, never the database.
    wal = ("journal_mode=WAL", "synchronous=NORMAL")
    _configure_sqlite(write_engine, begin="BEGIN IMMEDIATE", cache_kib=WRITER_CACHE_KIB, pragmas=wal)
    _configure_sqlite(read_engine, begin="BEGIN", cache_kib=READER_CACHE_KIB, pragmas=("query_only=ON",))
    return Database(write_engine, read_engine, path)
