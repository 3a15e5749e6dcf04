"""The dispatch of a cluster's node: what was committed is in the database, so that a nudge without content is enough;
and whatever needs an owner is rung for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from app.agent.interrupt import StopReason
from app.cluster.engine import Engine
from app.cluster.membership import Membership
from app.cluster.tenures import Tenures
from app.db.repositories import ownership, sessions
from app.errors import PalimpsestError, StorageError, TooManyRunsError, UnavailableError
from app.messages import new_id
from app.runtime.background import in_background
from app.runtime.dispatch import Started
from app.runtime.registry import too_many_runs
from app.runtime.setup import RuntimeSetup
from app.sessions import Status

LEAVE_S = 6.0
"""How long an owner may take to leave a session that is to be deleted; after that it is fenced off, since it is dead or
frozen. Twice the time after which the engine gives up a worker."""

LOOK_S = 0.05
"""How often it is checked whether an owner has left."""

RENEW_S = 0.5
"""How often an operation that keeps owners from a session renews that."""

RENEWED_S = 3.0
"""After how many seconds without having renewed it an operation gives up, since another one may have replaced it."""

DEAD_S = 4.0
"""After how many seconds without a renewal, by this node's clock, another operation counts as dead. More than
`RENEWED_S`, so that two never work on a session at the same time."""

CANCEL_S = 1.0
"""How long a canceled session may have no owner before this node stores the cancel itself: it may be waiting for a
worker."""

CANCEL_OWNED_S = 1.2
"""How long a canceled session's owner may take to store the cancel before this node does so and fences it off: it may
be dead or frozen, which the engine would notice too late for the two seconds that a cancel may take. An owner looks at
its row twice a second."""

COUNT_S = 1.0
"""How often waiting sessions are counted."""

log = structlog.get_logger(__name__)


class ClusterDispatch:
    """See `Dispatch`. `most_waiting` bounds the sessions of the whole cluster that wait for a worker. Transactions that
    commit at the same instant do not see each other, so it may be exceeded by as many."""

    def __init__(
        self,
        setup: RuntimeSetup,
        engine: Engine,
        tenures: Tenures,
        most_waiting: int,
        membership: Membership,
    ) -> None:
        self._setup = setup
        self._engine = engine
        self._tenures = tenures
        self._most_waiting = most_waiting
        self._membership = membership
        self._canceling: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._tenures)

    @property
    def waiting(self) -> int:
        """Number of sessions of the cluster that wait for a worker, as counted last."""
        return self._waiting

    async def count(self) -> None:
        """Counts the waiting sessions until it is cancelled."""
        while True:
            await asyncio.sleep(COUNT_S)  # at its start, a node has enough to read
            try:
                self._waiting = await self._setup.database.read(ownership.waiting)
            except PalimpsestError as error:
                log.debug("waiting_sessions_not_counted", reason=error.detail)

    @contextmanager
    def admitting(self) -> Iterator[bool]:
        """See `Dispatch.admitting`. False only if far too many waited when they were counted last: a flood of requests
        costs no transactions. `check_room` decides on all others."""
        yield self._waiting <= self._most_waiting

    def check_room(self, connection: Connection) -> None:
        """See `Dispatch.check_room`."""
        slots = self._membership.slots
        if slots is not None and ownership.running(connection) >= slots + self._most_waiting:
            raise self.no_room()

    def works_on(self, session_id: str) -> bool:
        """True: which sessions other nodes work on is not known here, and a compaction is never refused for it."""
        return True

    def no_room(self) -> TooManyRunsError:
        """See `Dispatch.no_room`."""
        self.refused += 1
        return too_many_runs(self._most_waiting)

    def model_of(self, session_id: str) -> str | None:
        """See `Dispatch.model_of`."""
        return self._tenures.model_of(session_id)

    def _nudge(self, session_id: str) -> None:
        """Reaches the node that owns the session, if it can."""
        self._setup.bus.nudge(session_id)

    def starts_at_once(self, session_id: str) -> bool:
        """Never: a worker starts it."""
        return False

    def wake(self, session_id: str, key: str | None = None, started: Started | None = None) -> None:
        """See `Dispatch.wake`."""
        self._nudge(session_id)
        self._engine.ring(session_id, key)

    def ring(self, session_id: str) -> None:
        """See `Dispatch.ring`."""
        self._nudge(session_id)

    def ask_round(self, session_id: str) -> None:
        """See `Dispatch.ask_round`."""
        self.wake(session_id)

    def take_revert(self, session_id: str) -> None:
        """See `Dispatch.take_revert`."""
        self._nudge(session_id)

    def take_decision(self, session_id: str) -> None:
        """See `Dispatch.take_decision`. A session that waits for a decision has an owner, or gets one soon."""
        self._nudge(session_id)

    def take_secrets(self, session_id: str) -> None:
        """See `Dispatch.take_secrets`."""
        self._nudge(session_id)

    def interrupt(self, session_id: str, reason: StopReason, message_id: str | None = None) -> None:
        """See `Dispatch.interrupt`. A cancel does not wait for a worker, since it only takes milliseconds to store."""
        self.wake(session_id)
        if reason == "cancel":
            task = asyncio.create_task(self._cancel(session_id), name=f"cancel-{session_id}")
            self._canceling.add(task)
            task.add_done_callback(self._canceling.discard)

    async def _cancel(self, session_id: str) -> None:
        """Stores a cancel that the session's owner, if it has one, does not store in time."""
        await asyncio.sleep(CANCEL_S)
        try:
            row = await self._uncanceled(session_id)
            if row is not None and row.owner is not None:
                await asyncio.sleep(CANCEL_OWNED_S - CANCEL_S)
                later = await self._uncanceled(session_id)
                row = None if later is None or later.epoch != row.epoch else later
            if row is None:
                return
            if row.owner is not None:
                log.warning("owner_fenced_off", session_id=session_id)
            if await self._tenures.hold(session_id, steps=False):
                self._engine.ring(session_id)
        except PalimpsestError as error:
            # Its next owner finds the cancel in the row.
            log.warning("cancel_not_stored", session_id=session_id, reason=error.detail)

    async def _uncanceled(self, session_id: str) -> Row[Any] | None:
        """The row of a session whose cancel has not been stored; None if there is no such cancel."""
        row = await self._setup.database.read(lambda c: sessions.find(c, session_id))
        return None if row is None or row.status == Status.IDLE or not row.cancel_requested else row

    async def aclose(self) -> None:
        """Gives up what is still under way; the sessions' next owners find it in their rows."""
        for task in self._canceling:
            task.cancel()
        if self._canceling:
            await asyncio.wait(self._canceling)

    def reconfigure(self, session_id: str, row: Row[Any]) -> None:
        """See `Dispatch.reconfigure`."""
        self._nudge(session_id)

    @asynccontextmanager
    async def without_owner(self, session_id: str) -> AsyncIterator[Callable[[Connection], None]]:
        """See `Dispatch.without_owner`. Raises `UnavailableError` if another operation has replaced this one, since
        this node was frozen or cut off from the database."""
        operation = new_id()
        try:
            await self._bar(session_id, operation)
            async with self._barring(session_id, operation):
                self._nudge(session_id)
                await self._until_left(session_id)
                epoch = await self._setup.database.read(lambda c: _barred_epoch(c, session_id, operation))
                yield lambda connection: _check_bar(connection, session_id, operation, epoch)
        finally:
            await self._write(session_id, lambda c: ownership.unbar(c, session_id, operation))
            if await self._setup.database.read(lambda c: _has_work(c, session_id)):
                self._engine.ring(session_id)

    async def _bar(self, session_id: str, operation: str) -> None:
        """Waits for another operation on the session, or for its bar to be no longer renewed. The two clocks are not
        compared: this node sees for itself how long the bar stays the same."""
        loop = asyncio.get_running_loop()
        other: ownership.Bar | None = None
        since = loop.time()
        while True:
            dead = other if loop.time() - since > DEAD_S else None
            found = await self._write(session_id, partial(_bar, session_id=session_id, operation=operation, dead=dead))
            if found is None:
                return
            if found != other:
                other, since = found, loop.time()
            await asyncio.sleep(LOOK_S)

    @asynccontextmanager
    async def _barring(self, session_id: str, operation: str) -> AsyncIterator[None]:
        """Renews the bar while the context lasts, and ends the context's work once it is lost."""
        try:
            async with (
                asyncio.timeout(None) as work,
                in_background(self._renew(session_id, operation, work), f"bar-{session_id}"),
            ):
                yield
        except TimeoutError as error:
            if not work.expired():
                raise
            raise _cut_off() from error

    async def _renew(self, session_id: str, operation: str, work: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while loop.time() - renewed < RENEWED_S:
            await asyncio.sleep(RENEW_S)
            begun = loop.time()
            try:
                async with asyncio.timeout(RENEWED_S):
                    if not await self._write(session_id, lambda c: ownership.renew_bar(c, session_id, operation)):
                        break
                renewed = begun
            except (StorageError, TimeoutError) as error:
                log.debug("bar_not_renewed", session_id=session_id, reason=str(error))
        # A deletion that has just removed the row is at its end: its context is left before this takes effect.
        if await self._is_gone(session_id):
            return
        log.warning("operation_replaced", session_id=session_id)
        work.reschedule(loop.time())

    async def _is_gone(self, session_id: str) -> bool:
        try:
            return await self._setup.database.read(lambda c: sessions.find(c, session_id)) is None
        except StorageError:
            return False

    @asynccontextmanager
    async def while_unowned(self, session_id: str) -> AsyncIterator[bool]:
        """True if no other node owns a session; then none begins to while the context lasts."""
        operation = new_id()
        barred = await self._write(session_id, lambda c: _bar_unowned(c, session_id, self._setup.node, operation))
        if not barred:
            yield False
            return
        try:
            async with self._barring(session_id, operation):
                yield True
        finally:
            await self._write(session_id, lambda c: ownership.unbar(c, session_id, operation))
            if await self._setup.database.read(lambda c: _has_work(c, session_id)):
                self._engine.ring(session_id)

    async def _until_left(self, session_id: str) -> None:
        try:
            async with asyncio.timeout(LEAVE_S):
                while await self._owner_of(session_id) is not None:  # noqa: ASYNC110 - it is another process's
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            log.warning("owner_fenced_off", session_id=session_id)
            await self._write(session_id, lambda c: ownership.take_over(c, session_id))
            # That owner has its sub-agents too.
            for child in await self._setup.database.read(lambda c: sessions.working_children(c, session_id)):
                await self._write(child.id, partial(ownership.take_over, session_id=child.id))

    async def _owner_of(self, session_id: str) -> str | None:
        return await self._setup.database.read(lambda c: ownership.owner_of(c, session_id))

    async def _write(self, session_id: str, work: Callable[[Connection], Any]) -> Any:
        return await self._setup.database.writer.write(work, session_id=session_id)


def _bar(connection: Connection, session_id: str, operation: str, dead: ownership.Bar | None) -> ownership.Bar | None:
    """Raises `NotFoundError` if the session was deleted meanwhile."""
    return ownership.bar(connection, sessions.row(connection, session_id), operation, dead)


def _barred_epoch(connection: Connection, session_id: str, operation: str) -> int:
    """The epoch of a session that an operation has barred. Raises as `_check_bar`, and `NotFoundError`."""
    row = sessions.row(connection, session_id)
    _check_bar(connection, session_id, operation, row.epoch)
    return int(row.epoch)


def _check_bar(connection: Connection, session_id: str, operation: str, epoch: int) -> None:
    """Raises `UnavailableError` if an operation has the session no longer: another one has replaced it, or the bar had
    expired and a node has claimed the session."""
    row = sessions.find(connection, session_id)
    if row is not None and (row.barred_by, row.epoch) != (operation, epoch):
        raise _cut_off()


def _cut_off() -> UnavailableError:
    return UnavailableError("This node was cut off for too long; try again.")


def _bar_unowned(connection: Connection, session_id: str, node: str | None, operation: str) -> bool:
    """Like `_bar`, unless another node than this one owns the session. True for a session that is gone."""
    row = sessions.find(connection, session_id)
    return row is None or (row.owner in (None, node) and ownership.bar(connection, row, operation) is None)


def _has_work(connection: Connection, session_id: str) -> bool:
    row = sessions.find(connection, session_id)
    return row is not None and ownership.has_work(row)
