"""The one writer: writes of many sessions share a commit, each in a savepoint of its own.

A write is submitted without waiting and runs in the order of submission. Its future is done, and its `on_commit` has
been called, only after the commit; so whoever waits for it may show what it wrote.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.faults import refusal
from app.errors import StorageError

T = TypeVar("T")
Work = Callable[[Connection], T]
"""A write: runs its statements on the connection, in the writer's thread, and returns a value. It must touch nothing
else, since it is not on the event loop."""

MAX_BATCH = 200
"""Writes per commit at most, which bounds how long the first of them waits for the last. After a refusal there is no
bound: each commit may wait for another process, and who has waited through one is answered by the next."""

MAX_BATCH_S = 0.1
"""Seconds after which a batch takes no further write: large ones would wait for each other in memory, and be published
all at once."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that was tried: its writes, how long it took in seconds, and what refused it, None where it was made."""

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
    """Runs submitted writes in order on one connection, in one thread; a whole batch is one hop to it, where a driver
    that hops for each statement takes four times as long (`docs/decisions`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="db-writer")
        self._jobs: deque[_Job] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self.commits = 0
        self.writes = 0
        self.observe: Callable[[Commit], None] = lambda _: None
        """Hears of every commit that was tried, on the event loop."""

    @property
    def waiting(self) -> int:
        """Writes that no commit has begun with. May be asked from any thread."""
        return len(self._jobs)

    def submit(
        self,
        work: Work[T],
        on_commit: Callable[[T], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> asyncio.Future[T]:
        """Queues a write. The future gives what `work` returned, after the commit; it raises what `work` raised, or
        `StorageError` where the database refused. One of the callbacks is called just before, on the event loop and
        before any later write begins. A cancelled waiter does not undo a submitted write."""
        if self._closing:
            raise StorageError("The server is shutting down.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # A write may fail with nobody left to ask; that is no fault of the event loop's.
        future.add_done_callback(lambda f: f.cancelled() or f.exception())
        self._jobs.append(_Job(work, on_commit, on_error, future))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="db-writer")
        return future

    async def write(self, work: Work[T], on_commit: Callable[[T], None] | None = None) -> T:
        """Submits a write and waits for its commit; being cancelled does not undo it."""
        return await asyncio.shield(self.submit(work, on_commit))

    async def aclose(self) -> None:
        """Commits what was submitted and ends."""
        self._closing = True
        while self._task is not None:
            await asyncio.shield(self._task)
        await asyncio.to_thread(self._thread.shutdown)

    async def _drain(self) -> None:
        """Commits batch after batch until nothing waits; the next submission starts anew."""
        loop = asyncio.get_running_loop()
        refused: Exception | None = None
        while self._jobs:
            most, seconds = (MAX_BATCH, MAX_BATCH_S) if refused is None else (len(self._jobs), math.inf)
            batch = [self._jobs.popleft() for _ in range(min(len(self._jobs), most))]
            begun = time.monotonic()
            refused, made = await loop.run_in_executor(self._thread, self._commit, batch, seconds)
            self._jobs.extendleft(reversed(batch[made:]))
            del batch[made:]
            if refused is None:
                self.commits += 1
                self.writes += len(batch)
            self.observe(Commit(len(batch), time.monotonic() - begun, refused))
            for job in batch:
                _settle(job)
        self._task = None

    def _commit(self, batch: list[_Job], seconds: float) -> tuple[Exception | None, int]:
        """Runs and commits the first writes of a batch, as many as begin within `seconds`, in the writer's thread. What
        goes wrong is left in the jobs. Returns what kept all of it from being committed, and how many were run; where
        it was not committed, that is all of them."""
        begun, made = time.monotonic(), 0
        try:
            with self._engine.begin() as connection:
                for job in batch:
                    _attempt(connection, job)
                    made += 1
                    if time.monotonic() - begun > seconds:
                        break
        except Exception as error:
            refused = _translated(error)
            for job in batch:
                job.error = job.error or refused
            return refused, len(batch)
        return None, made


def _attempt(connection: Connection, job: _Job) -> None:
    """Runs one write in its savepoint. Its failure is its own, unless the database itself has failed.

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
    """Tells of a write's end. A callback that fails fails its own write's waiter, never the writer."""
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
