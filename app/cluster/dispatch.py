"""The dispatch of a cluster's node: what was committed is in the database, so that a nudge without content is enough;
and whatever needs an owner is rung for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from app.agent.interrupt import StopReason
from app.cluster.engine import Engine
from app.cluster.tenures import Tenures
from app.db.repositories import ownership, sessions
from app.errors import PalimpsestError, ServerBusyError
from app.messages import new_id
from app.runtime.registry import too_many_runs
from app.runtime.setup import RuntimeSetup
from app.sessions import Status

LEAVE_S = 6.0
"""How long an owner may take to leave a session that is to be deleted; after that it is fenced off, since it is dead or
frozen. Twice the time after which the engine gives up a worker."""

LOOK_S = 0.05
"""How often it is checked whether an owner has left."""

CANCEL_S = 1.0
"""How long a canceled session may have no owner before this node stores the cancel itself: it may be waiting for a
worker."""

COUNT_S = 1.0
"""How often waiting sessions are counted."""

log = structlog.get_logger(__name__)


class ClusterDispatch:
    """See `Dispatch`. `most_waiting` bounds the sessions of the whole cluster that wait for a worker; since the nodes
    count them once a second, they may exceed it for a moment."""

    def __init__(
        self,
        setup: RuntimeSetup,
        engine: Engine,
        tenures: Tenures,
        most_waiting: int,
    ) -> None:
        self._setup = setup
        self._engine = engine
        self._tenures = tenures
        self._most_waiting = most_waiting
        self._canceling: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._admitting = 0
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
            try:
                self._waiting = await self._setup.database.read(ownership.waiting)
            except PalimpsestError as error:
                log.debug("waiting_sessions_not_counted", reason=error.detail)
            await asyncio.sleep(COUNT_S)

    @contextmanager
    def admitting(self) -> Iterator[bool]:
        """See `Dispatch.admitting`."""
        room = self._waiting + self._admitting <= self._most_waiting
        self._admitting += 1
        try:
            yield room
        finally:
            self._admitting -= 1

    def works_on(self, session_id: str) -> bool:
        """True: which sessions other nodes work on is not known here, and a compaction is never refused for it."""
        return True

    def no_room(self) -> ServerBusyError:
        """See `Dispatch.no_room`."""
        self.refused += 1
        return too_many_runs(self._most_waiting)

    def model_of(self, session_id: str) -> str | None:
        """See `Dispatch.model_of`."""
        return self._tenures.model_of(session_id)

    def _nudge(self, session_id: str) -> None:
        """Reaches the node that owns the session, if it can."""
        self._setup.bus.nudge(session_id)

    def wake(self, session_id: str) -> None:
        """See `Dispatch.wake`."""
        self._nudge(session_id)
        self._engine.ring(session_id)

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

    def interrupt(self, session_id: str, reason: StopReason, message_id: str | None = None) -> None:
        """See `Dispatch.interrupt`. A cancel does not wait for a worker, since it only takes milliseconds to store."""
        self.wake(session_id)
        if reason == "cancel":
            task = asyncio.create_task(self._cancel_unowned(session_id), name=f"cancel-{session_id}")
            self._canceling.add(task)
            task.add_done_callback(self._canceling.discard)

    async def _cancel_unowned(self, session_id: str) -> None:
        await asyncio.sleep(CANCEL_S)
        try:
            row = await self._setup.database.read(lambda c: sessions.find(c, session_id))
            if row is None or row.status == Status.IDLE or not row.cancel_requested or row.owner is not None:
                return
            if await self._tenures.hold(session_id, steps=False):
                self._engine.ring(session_id)
        except PalimpsestError as error:
            # Its next owner finds the cancel in the row.
            log.warning("cancel_not_stored", session_id=session_id, reason=error.detail)

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
    async def without_owner(self, session_id: str) -> AsyncIterator[None]:
        """See `Dispatch.without_owner`."""
        operation = new_id()
        try:
            while not await self._write(session_id, lambda c: _bar(c, session_id, operation)):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
            self._nudge(session_id)
            await self._until_left(session_id)
            yield
        finally:
            await self._write(session_id, lambda c: ownership.unbar(c, session_id, operation))
            if await self._setup.database.read(lambda c: _has_work(c, session_id)):
                self._engine.ring(session_id)

    @asynccontextmanager
    async def while_unowned(self, session_id: str) -> AsyncIterator[bool]:
        """True if no other node owns a session; then none begins to while the context lasts."""
        operation = new_id()
        barred = await self._write(session_id, lambda c: _bar_unowned(c, session_id, self._setup.node, operation))
        try:
            yield barred
        finally:
            if barred:
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

    async def _owner_of(self, session_id: str) -> str | None:
        return await self._setup.database.read(lambda c: ownership.owner_of(c, session_id))

    async def _write(self, session_id: str, work: Callable[[Connection], Any]) -> Any:
        return await self._setup.database.writer.write(work, session_id=session_id)


def _bar(connection: Connection, session_id: str, operation: str) -> bool:
    """Raises `NotFoundError` if the session was deleted meanwhile."""
    return ownership.bar(connection, sessions.row(connection, session_id), operation)


def _bar_unowned(connection: Connection, session_id: str, node: str | None, operation: str) -> bool:
    """Like `_bar`, unless another node than this one owns the session. True for a session that is gone."""
    row = sessions.find(connection, session_id)
    return row is None or (row.owner in (None, node) and ownership.bar(connection, row, operation))


def _has_work(connection: Connection, session_id: str) -> bool:
    row = sessions.find(connection, session_id)
    return row is not None and ownership.has_work(row)
