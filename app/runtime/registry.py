"""The sessions that run here: one owner task each, created when there is work and gone when it is done.

Their number is bounded. Other sessions wait in line, which costs only an entry; clients see them as running, and their
messages are accepted as usual.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Row
from structlog.contextvars import bind_contextvars

from app.agent.interrupt import StopReason
from app.errors import PalimpsestError, ServerBusyError, StorageError
from app.runtime.owner.session import SessionOwner
from app.runtime.setup import RuntimeSetup

log = structlog.get_logger(__name__)

MAX_CRASHES = 3
"""Consecutive crashes of a session's owners before it is parked."""

RETRY_S = 1.0
"""Seconds after a failed write until a session's next owner starts."""

UNSTORED_QUIET_S = 60.0
"""Seconds without a failed write of a session after which the next one is logged: during an outage, hundreds of
sessions retry every few seconds, and each logs only once."""


@dataclass(frozen=True, slots=True)
class RunBounds:
    """How many sessions run at the same time, and how many may wait for their turn."""

    most: int = 100
    waiting: int = 1000


class Registry:
    """Starts, notifies and stops the owners of sessions."""

    def __init__(self, setup: RuntimeSetup, bounds: RunBounds | None = None) -> None:
        self._setup = setup
        self._bounds = bounds or RunBounds()
        self._line: dict[str, None] = {}
        self._resting: set[str] = set()
        self._admitting = 0
        self.refused = 0
        self._owners: dict[str, SessionOwner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._barred: set[str] = set()
        self._crashes: dict[str, int] = {}
        self._unstored: dict[str, float] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def _busy(self) -> int:
        return len(self._tasks) - len(self._resting)

    @property
    def waiting(self) -> int:
        """Number of sessions that wait for their turn. Thread-safe."""
        return len(self._line)

    @contextmanager
    def admitting(self) -> Iterator[bool]:
        """While entered, a request may start a run if the value is true; the caller wakes that session before leaving.
        Concurrent requests count too, so that the bound is never exceeded."""
        bounds = self._bounds
        room = self._busy + len(self._line) + self._admitting < bounds.most + bounds.waiting
        self._admitting += 1
        try:
            yield room
        finally:
            self._admitting -= 1

    def works_on(self, session_id: str) -> bool:
        """Whether a session is running or waiting for its turn, so that more work for it takes no additional slot."""
        return any(session_id in those for those in (self._owners, self._line, self._retries))

    def no_room(self) -> ServerBusyError:
        """The error for a request that would start a run while too many are waiting."""
        self.refused += 1
        waiting = self._bounds.waiting
        return ServerBusyError(
            f"{waiting:,} runs are already waiting; try again later.", code="too_many_runs", most=waiting
        )

    def wake(self, session_id: str) -> None:
        """There is work for a session: notifies its owner, or creates one. Never waits."""
        if self._closing or session_id in self._barred:
            return
        owner = self._owners.get(session_id)
        if owner is not None:
            # It may be past its last check of the queue; then another owner follows.
            owner.ring()
            self._again.add(session_id)
        elif self._line or self._busy >= self._bounds.most:
            self._line.setdefault(session_id)
        else:
            self._begin(session_id)

    def _begin(self, session_id: str) -> None:
        owner = SessionOwner(self._setup, session_id, partial(self._set_resting, session_id))
        self._owners[session_id] = owner
        task = self._tasks[session_id] = asyncio.create_task(self._run(session_id, owner), name=f"session-{session_id}")
        task.add_done_callback(lambda _: self._after(session_id))

    def model_of(self, session_id: str) -> str | None:
        """The model of a session that runs here, None if unknown."""
        owner = self._owners.get(session_id)
        return owner.model if owner is not None else None

    async def _run(self, session_id: str, owner: SessionOwner) -> None:
        # For everything logged from here on, including by the owner's own tasks.
        bind_contextvars(session_id=session_id)
        try:
            await owner.run()
        except StorageError as error:
            self._log_unstored(session_id, error)
            self._retry_later(session_id)
        except Exception:
            log.exception("session_owner_crashed", session_id=session_id)
            await self._after_crash(session_id)
        else:
            self._crashes.pop(session_id, None)
            self._unstored.pop(session_id, None)

    def _log_unstored(self, session_id: str, error: StorageError) -> None:
        now = time.monotonic()
        last = self._unstored.get(session_id)
        self._unstored[session_id] = now
        if last is None or now - last > UNSTORED_QUIET_S:
            log.error("session_write_failed", session_id=session_id, error=error.detail)

    async def _after_crash(self, session_id: str) -> None:
        """Retries a limited number of times: a session that always crashes its owner would otherwise loop forever."""
        self._crashes[session_id] = self._crashes.get(session_id, 0) + 1
        if self._crashes[session_id] < MAX_CRASHES:
            self._retry_later(session_id)
            return
        try:
            await SessionOwner(self._setup, session_id).give_up()
        except PalimpsestError as error:
            log.error("session_park_failed", session_id=session_id, error=error.detail)
            self._retry_later(session_id)
        else:
            del self._crashes[session_id]

    def _retry_later(self, session_id: str) -> None:
        """The next owner recovers what this one could not write, as after a crash."""
        if not self._closing and session_id not in self._retries:
            self._retries[session_id] = asyncio.get_running_loop().call_later(RETRY_S, self._retry, session_id)

    def _retry(self, session_id: str) -> None:
        self._retries.pop(session_id, None)
        self.wake(session_id)

    def _after(self, session_id: str) -> None:
        del self._owners[session_id], self._tasks[session_id]
        self._resting.discard(session_id)
        if session_id in self._again:
            self._again.discard(session_id)
            self.wake(session_id)
        self._advance()

    def _set_resting(self, session_id: str, rests: bool) -> None:
        """A run that waits for an approval frees its slot; it continues at once after the decision."""
        if rests:
            self._resting.add(session_id)
            self._advance()
        else:
            self._resting.discard(session_id)

    def _advance(self) -> None:
        while self._line and self._busy < self._bounds.most and not self._closing:
            first = next(iter(self._line))
            del self._line[first]
            self._begin(first)

    def ring(self, session_id: str) -> None:
        """A pending message was changed; a current run checks the queue again."""
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.ring()

    def ask_round(self, session_id: str) -> None:
        """A compaction was requested: the owner makes it between steps; an owner is created if there is none."""
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.ask_round()
        self.wake(session_id)

    def take_revert(self, session_id: str) -> None:
        """A compaction was reverted; a current run continues without it."""
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.take_revert()

    def take_decision(self, session_id: str) -> None:
        """A call was approved or denied: notifies the run that waits for it."""
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.take_decision()
        else:
            self.wake(session_id)

    def interrupt(self, session_id: str, reason: StopReason, message_id: str | None = None) -> None:
        """Ends the session's current step; a session that should run but has no owner gets one for that. A cancel does
        not wait in line, since it only takes milliseconds to store."""
        if reason == "cancel" and session_id in self._line and not self._closing:
            del self._line[session_id]
            self._begin(session_id)
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.interrupt(reason, message_id)
        else:
            self.wake(session_id)

    def reconfigure(self, session_id: str, row: Row[Any]) -> None:
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.reconfigure(row)

    @asynccontextmanager
    async def without_owner(self, session_id: str) -> AsyncIterator[None]:
        """Ends a session's owner and prevents another one while the context lasts. If the session still exists
        afterward, it continues."""
        self._barred.add(session_id)
        try:
            await self._stop(session_id)
            yield
        finally:
            self._barred.discard(session_id)
            self.wake(session_id)

    async def _stop(self, session_id: str) -> None:
        self._again.discard(session_id)
        self._line.pop(session_id, None)
        if (timer := self._retries.pop(session_id, None)) is not None:
            timer.cancel()
        task = self._tasks.get(session_id)
        if task is not None:
            self.interrupt(session_id, "shutdown")
            await asyncio.wait({task})

    async def supersede(self) -> None:
        """Stops all runs at once, since another server has taken over, and starts no more."""
        self._line.clear()
        if tasks := self._shut_down():
            await asyncio.wait(tasks)

    async def aclose(self, grace_s: float) -> None:
        """Parks all runs: steps end as interrupted, and the next start continues them. Runs that do not end within the
        grace period are cut off, as in a crash."""
        tasks = self._shut_down()
        if not tasks:
            return
        log.info("runs_parking", count=len(tasks), waiting=len(self._line), grace_s=grace_s)
        self._line.clear()
        parked, late = await asyncio.wait(tasks, timeout=grace_s)
        for task in late:
            task.cancel()
        if late:
            log.warning("runs_cut_off", count=len(late))
            await asyncio.wait(late)
        log.info("runs_parked", count=len(parked))

    def _shut_down(self) -> set[asyncio.Task[None]]:
        """Starts nothing more and stops every run; returns the tasks to wait for."""
        self._closing = True
        for timer in self._retries.values():
            timer.cancel()
        for owner in self._owners.values():
            owner.interrupt("shutdown")
        return set(self._tasks.values())
