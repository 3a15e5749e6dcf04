"""The one writer: writes of many sessions share a commit, each in a savepoint of its own; and what a database's refusal
means as an error of Palimpsest's."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.errors import StorageBusyError, StorageError, StorageFullError

T = TypeVar("T")
Work = Callable[[Connection], T]
"""A write: runs its statements on the connection, in the writer's thread, and returns a value. It must not touch
anything else, since it does not run on the event loop."""
MAX_BATCH = 200
"""Maximum writes per commit, which bounds how long the first of them waits for the last. Not applied after a refusal:
then each commit may wait for another process, and all pending writes go into the next one."""
MAX_BATCH_S = 0.1
"""Seconds after which a batch accepts no more writes: large ones would wait for each other in memory and be published
all at once."""

_KIND = 0xFF
"""The bits of an extended result code that hold the primary one."""
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_FULL = frozenset({sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMOPEN})
"""The WAL index cannot grow; SQLite does not report this as a full disk."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit attempt: its writes, its duration in seconds, and the error that refused it, if any."""

    writes: int
    seconds: float
    refusal: Exception | None


@dataclass(slots=True)
class _Job:
    work: Work[Any]
    on_commit: Callable[[Any], None] | None
    on_error: Callable[[Exception], None] | None
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """Runs submitted writes in order on one connection, in one thread. A whole batch is one thread hop; a driver that
    hops for each statement takes four times as long (`docs/decisions`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="db-writer")
        self._jobs: deque[_Job] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self.commits = 0
        self.writes = 0
        self.observe: Callable[[Commit], None] = lambda _: None
        """Called on the event loop for every commit attempt."""

    @property
    def waiting(self) -> int:
        """Number of writes that are in no commit yet. Thread-safe."""
        return len(self._jobs)

    def submit(
        self,
        work: Work[T],
        on_commit: Callable[[T], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> asyncio.Future[T]:
        """Queues a write. After the commit, the future returns the result of `work`; it raises the error of `work`, or
        `StorageError` if the database refused. One of the callbacks is called just before that, on the event loop and
        before any later write starts. Cancelling the future does not undo a submitted write."""
        if self._closing:
            raise StorageError("The server is shutting down.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # A write may fail with no waiter left; asyncio must not log that as an unhandled error.
        future.add_done_callback(lambda f: f.cancelled() or f.exception())
        self._jobs.append(_Job(work, on_commit, on_error, future))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="db-writer")
        return future

    async def write(self, work: Work[T], on_commit: Callable[[T], None] | None = None) -> T:
        """Submits a write and waits for its commit; cancellation does not undo it."""
        return await asyncio.shield(self.submit(work, on_commit))

    async def aclose(self) -> None:
        """Commits what was submitted and ends."""
        self._closing = True
        while self._task is not None:
            await asyncio.shield(self._task)
        await asyncio.to_thread(self._thread.shutdown)

    async def _drain(self) -> None:
        """Commits batches until the queue is empty; the next submission starts a new drain."""
        loop = asyncio.get_running_loop()
        refused: Exception | None = None
        while self._jobs:
            most, seconds = (MAX_BATCH, MAX_BATCH_S) if refused is None else (len(self._jobs), math.inf)
            batch = [self._jobs.popleft() for _ in range(min(len(self._jobs), most))]
            started = time.monotonic()
            refused, made = await loop.run_in_executor(self._thread, self._commit, batch, seconds)
            self._jobs.extendleft(reversed(batch[made:]))
            del batch[made:]
            if refused is None:
                self.commits += 1
                self.writes += len(batch)
            self.observe(Commit(len(batch), time.monotonic() - started, refused))
            for job in batch:
                _settle(job)
        self._task = None

    def _commit(self, batch: list[_Job], seconds: float) -> tuple[Exception | None, int]:
        """Runs and commits the first writes of a batch, as many as start within `seconds`, in the writer's thread.
        Errors are recorded in the jobs. Returns the error that prevented the whole commit, if any, and the number of
        writes run; if the commit failed, that is all of them."""
        started, made = time.monotonic(), 0
        try:
            with self._engine.begin() as connection:
                for job in batch:
                    _attempt(connection, job)
                    made += 1
                    if time.monotonic() - started > seconds:
                        break
        except Exception as error:
            refused = _translated(error)
            for job in batch:
                job.error = job.error or refused
            return refused, len(batch)
        return None, made


def _attempt(connection: Connection, job: _Job) -> None:
    """Runs one write in its savepoint. Its failure affects no other write, unless the database itself has failed.

    The savepoint is made in SQL, since `begin_nested` costs more than a small write itself.
    """
    connection.exec_driver_sql("SAVEPOINT job")
    try:
        job.result = job.work(connection)
    except DBAPIError as error:
        if not isinstance(error, IntegrityError):
            raise
        job.error = error
    except Exception as error:
        job.error = error
    if job.error is not None:
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT job")
    connection.exec_driver_sql("RELEASE SAVEPOINT job")


def _translated(error: Exception) -> Exception:
    return refusal(error, "The database refused the write") if isinstance(error, DBAPIError) else error


def _settle(job: _Job) -> None:
    """Resolves a write's future. A failing callback fails only its own write, never the writer."""
    try:
        if job.error is None and job.on_commit is not None:
            job.on_commit(job.result)
        elif job.error is not None and job.on_error is not None:
            job.on_error(job.error)
    except Exception as error:
        job.error = job.error or error
    if job.future.cancelled():
        return
    if job.error is not None:
        job.future.set_exception(job.error)
    else:
        job.future.set_result(job.result)


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
