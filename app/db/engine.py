"""Access to a database: a writer and a few readers, each in its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.db.backends import Backend, all_in_use, backend_of, refusal
from app.db.writer import Writer

T = TypeVar("T")

READERS = 4
"""Reading threads, each with a connection. Readers never wait for writes."""


class Database:
    """Access to the tables: `writer` for all writes, `read()` for consistent snapshots."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # One more for `read_here`.
        self._read_engine = backend.reading(READERS + 1)
        write_engine = backend.writing()
        self._engines = (write_engine, self._read_engine)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="db-reader")
        self.writer = Writer(write_engine, backend.lanes)

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Runs `query` in a reader's thread; all its statements see the same state. It must have no other effect, since
        it runs once more if the connection had ended. Raises `StorageError` if the database cannot be read."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, query)

    def read_here(self, query: Callable[[Connection], T]) -> T:
        """As `read`, in the calling thread, which must not be the event loop's."""
        return self._read(query)

    def _read(self, query: Callable[[Connection], T]) -> T:
        try:
            try:
                return self._read_once(query)
            except DBAPIError as error:
                if not (error.connection_invalidated and self._backend.reads_again):
                    raise
                return self._read_once(query)
        except DBAPIError as error:
            raise refusal(error, "The database cannot be read") from error
        except PoolTimeoutError as error:
            raise all_in_use() from error

    def _read_once(self, query: Callable[[Connection], T]) -> T:
        with self.connect() as connection:
            return query(connection)

    def connect(self) -> Connection:
        """A connection for reading; its context returns it to the pool. Raises SQLAlchemy's errors. Blocks."""
        return self._read_engine.connect()

    def check_file(self) -> None:
        """Raises `StorageError` if the file of an open SQLite database is no longer at its path. Blocks."""
        self._backend.check()

    async def aclose(self) -> None:
        """Commits what was submitted, then closes all connections."""
        await self.writer.aclose()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.shutdown()
        for engine in self._engines:
            engine.dispose()


def open_database(url: str) -> Database:
    """The database at a SQLAlchemy URL; connections are opened on first use. Raises `StorageError` if the URL names
    none."""
    return Database(backend_of(url))
