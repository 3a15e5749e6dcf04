"""The writer: writes of a lane run in order and share a commit, each in its own savepoint. With SQLite all writes share
one lane, with Postgres each session has one."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.db.backends import all_in_use, refusal
from app.db.dialects import begin_write
from app.db.lanes import Lanes
from app.errors import StorageError

log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[Connection], T]
"""A write: runs its statements on the connection, in the writer's thread, and returns a value. It must not touch
anything else, since it does not run on the event loop."""
MAX_BATCH_S = 0.1
"""Seconds after which a batch accepts no more writes: large ones would wait for each other in memory and be published
all at once."""


GATHER_TURNS = 2
"""Iterations of the event loop for which a lane's first commit waits, so that it includes what the next task submits in
reply. They take microseconds."""


UNAWAITED_S = 0.005
"""Seconds after which a write that nobody awaits is committed, unless another one comes earlier. Until then, the task
that submitted it does what others wait for, such as sending a request."""


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


@dataclass(slots=True)
class _Lane:
    """Writes that run one after the other: those of a session, or those without one (`session_id` is None)."""

    session_id: str | None
    jobs: deque[_Job] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None
    is_due: asyncio.Event = field(default_factory=asyncio.Event)


class Writer:
    """Runs submitted writes in threads, those of one lane in order. A whole batch is one thread hop; a driver that hops
    for each statement takes four times as long (`docs/decisions`)."""

    def __init__(self, engine: Engine, lanes: Lanes) -> None:
        self._engine = engine
        self._rules = lanes
        self._threads = ThreadPoolExecutor(lanes.connections, thread_name_prefix="db-writer")
        self._slots = asyncio.Semaphore(lanes.connections)
        self._lanes: dict[str | None, _Lane] = {}
        self._gathered: dict[tuple[Callable[[Connection, list[Any]], None], str | None], list[list[Any]]] = {}
        self._closing = False
        self.commits = 0
        self.writes = 0
        self.observe: Callable[[Commit], None] = lambda _: None
        """Called on the event loop for every commit attempt."""

    @property
    def has_one_lane(self) -> bool:
        """Whether writes of different sessions share commits."""
        return not self._rules.by_session

    @property
    def waiting(self) -> int:
        """Number of writes that are in no commit yet. Thread-safe."""
        return sum(len(lane.jobs) for lane in list(self._lanes.values()))

    def submit(
        self,
        work: Work[T],
        on_commit: Callable[[T], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
        *,
        session_id: str | None = None,
        is_awaited: bool = True,
    ) -> asyncio.Future[T]:
        """Queues a write. After the commit, the future returns the result of `work`; it raises the error of `work`, or
        `StorageError` if the database refused. One of the callbacks is called just before that, on the event loop and
        before any later write of its lane starts. Cancelling the future does not undo a submitted write. One that is
        not awaited may be committed `UNAWAITED_S` later.

        A write that changes one session names it in `session_id`: no other write of that session, of whatever process,
        then runs at the same time."""
        if self._closing:
            raise StorageError("The server is shutting down.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # A write may fail with no waiter left; asyncio must not log that as an unhandled error.
        future.add_done_callback(lambda f: f.cancelled() or f.exception())
        lane = self._lane(session_id)
        lane.jobs.append(_Job(work, on_commit, on_error, future))
        if is_awaited:
            lane.is_due.set()
        if lane.task is None:
            asyncio.get_running_loop().call_later(UNAWAITED_S, lane.is_due.set)
            lane.task = asyncio.create_task(self._drain(lane), name="db-writer")
        return future

    async def write(
        self, work: Work[T], on_commit: Callable[[T], None] | None = None, *, session_id: str | None = None
    ) -> T:
        """Submits a write and waits for its commit; cancellation does not undo it."""
        return await asyncio.shield(self.submit(work, on_commit, session_id=session_id))

    def gather(
        self, work: Callable[[Connection, list[R]], None], rows: list[R], *, session_id: str | None = None
    ) -> None:
        """Queues rows of a session for a write that nobody awaits: `work` gets all rows for it that come in this turn
        of the event loop, with one lane those of all sessions. If it fails, each session's are tried alone."""
        key = (work, session_id if self._rules.by_session else None)
        if (gathered := self._gathered.get(key)) is None:
            gathered = self._gathered[key] = []
            asyncio.get_running_loop().call_soon(lambda: self._submit_gathered(*key, self._gathered.pop(key)))
        gathered.append(rows)

    def _submit_gathered(
        self, work: Callable[[Connection, list[Any]], None], session_id: str | None, gathered: list[list[Any]]
    ) -> None:
        def failed(error: Exception) -> None:
            if len(gathered) == 1 or isinstance(error, StorageError):
                log.warning("gathered_rows_not_stored", error=str(error), sessions=len(gathered))
                return
            for rows in gathered:
                self._submit_gathered(work, session_id, [rows])

        if not self._closing:
            everything = [row for rows in gathered for row in rows]
            self.submit(lambda c: work(c, everything), None, failed, session_id=session_id, is_awaited=False)

    async def aclose(self) -> None:
        """Commits what was submitted and ends."""
        self._closing = True
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            await asyncio.shield(tasks[0])
        await asyncio.to_thread(self._threads.shutdown)

    def _lane(self, session_id: str | None) -> _Lane:
        key = session_id if self._rules.by_session else None
        if (lane := self._lanes.get(key)) is None:
            lane = self._lanes[key] = _Lane(key)
        return lane

    async def _drain(self, lane: _Lane) -> None:
        """Commits batches until the lane is empty; the next submission starts a new drain."""
        loop = asyncio.get_running_loop()
        refused: Exception | None = None
        await lane.is_due.wait()
        for _ in range(GATHER_TURNS):
            await asyncio.sleep(0)
        while lane.jobs:
            # First the slot: writes that are submitted while the lane waits for it share its next commit.
            async with self._slots:
                # After a refusal each commit may wait for another process, so all pending writes go into the next one.
                again = refused is not None
                most, seconds = (len(lane.jobs), math.inf) if again else (self._rules.most_writes, MAX_BATCH_S)
                batch = [lane.jobs.popleft() for _ in range(min(len(lane.jobs), most))]
                started = time.monotonic()
                refused, made = await loop.run_in_executor(self._threads, self._commit, lane.session_id, batch, seconds)
            lane.jobs.extendleft(reversed(batch[made:]))
            del batch[made:]
            if refused is None:
                self.commits += 1
                self.writes += len(batch)
            self.observe(Commit(len(batch), time.monotonic() - started, refused))
            for job in batch:
                _settle(job)
        lane.task = None
        del self._lanes[lane.session_id]

    def _commit(self, session_id: str | None, batch: list[_Job], seconds: float) -> tuple[Exception | None, int]:
        """Runs and commits the first writes of a batch, as many as start within `seconds`, in a writer's thread.
        Errors are recorded in the jobs. Returns the error that prevented the whole commit, if any, and the number of
        writes run; if the commit failed, that is all of them."""
        started, made = time.monotonic(), 0
        try:
            with self._begin(session_id) as connection:
                attempt = _attempt if len(batch) > 1 else _attempt_alone
                for job in batch:
                    attempt(connection, job)
                    made += 1
                    if time.monotonic() - started > seconds:
                        break
        except Exception as error:
            refused = _translated(error)
            for job in batch:
                job.error = job.error or refused
            return refused, len(batch)
        return None, made

    @contextmanager
    def _begin(self, session_id: str | None) -> Iterator[Connection]:
        """A transaction, with the lock of its session."""
        connection = self._connect(session_id)
        with connection:
            yield connection
            connection.commit()

    def _connect(self, session_id: str | None) -> Connection:
        """A connection in a transaction whose first statement has worked. One that ended while it was unused, as at a
        restart of the database's server, is replaced once."""
        for is_last in (False, True):
            connection = self._engine.connect()
            try:
                begin_write(connection, session_id)
            except DBAPIError as error:
                connection.close()
                if is_last or not error.connection_invalidated:
                    raise
            else:
                return connection
        raise AssertionError("unreachable")


def _attempt(connection: Connection, job: _Job) -> None:
    """Runs one write in its savepoint. Its failure affects no other write, unless the database itself has failed.

    The savepoint is made in SQL, since `begin_nested` costs more than a small write itself.
    """
    connection.exec_driver_sql("SAVEPOINT job")
    _run(connection, job)
    if job.error is not None:
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT job")
    connection.exec_driver_sql("RELEASE SAVEPOINT job")


def _attempt_alone(connection: Connection, job: _Job) -> None:
    """Runs the only write of a transaction, which needs no savepoint: with Postgres that would be two round trips."""
    _run(connection, job)
    if job.error is not None:
        connection.rollback()


def _run(connection: Connection, job: _Job) -> None:
    """Runs a write and notes its error. Raises if the database itself has failed."""
    try:
        job.result = job.work(connection)
    except DBAPIError as error:
        if not isinstance(error, IntegrityError):
            raise
        job.error = error
    except Exception as error:
        job.error = error


def _translated(error: Exception) -> Exception:
    if isinstance(error, PoolTimeoutError):
        return all_in_use()
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
