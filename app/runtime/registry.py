"""Which sessions run here: one owner task each, made when there is work and gone when it is done.

Their number is bounded. A session whose turn has not come waits in line, which costs an entry; for its clients it is
running, and its messages are accepted as ever.
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
from app.runtime.session import SessionOwner
from app.runtime.setup import RuntimeSetup

log = structlog.get_logger(__name__)

MAX_CRASHES = 3
"""Owners of a session that crash in a row before it is parked."""

RETRY_S = 1.0
"""How long after a failed write a session is taken up again."""

UNSTORED_QUIET_S = 60.0
"""How long ago a session's last failed write has to be, in seconds, for the next one to be logged: an outage is tried
through every few seconds, by hundreds of sessions, and is one line of each."""


@dataclass(frozen=True, slots=True)
class RunBounds:
    """How many sessions are worked on at the same time, and how many may wait for that."""

    most: int = 100
    waiting: int = 1000


class Registry:
    """Starts, rings and stops the owners of sessions."""

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
        """Sessions that wait for their turn. May be asked from any thread."""
        return len(self._line)

    @contextmanager
    def admitting(self) -> Iterator[bool]:
        """While entered, a request may begin a run if the value is true; what it has begun is woken before it leaves.
        Those that are looked at in the same moment count too, so that none slips through."""
        bounds = self._bounds
        room = self._busy + len(self._line) + self._admitting < bounds.most + bounds.waiting
        self._admitting += 1
        try:
            yield room
        finally:
            self._admitting -= 1

    def works_on(self, session_id: str) -> bool:
        """Whether a session is worked on, or waits for that, so that more work for it takes no further place."""
        return any(session_id in those for those in (self._owners, self._line, self._retries))

    def no_room(self) -> ServerBusyError:
        """What a request is told that would begin a run where none may wait any more."""
        self.refused += 1
        waiting = self._bounds.waiting
        return ServerBusyError(
            f"{waiting:,} runs are waiting already; try again when some have begun.", code="too_many_runs", most=waiting
        )

    def wake(self, session_id: str) -> None:
        """There is work for a session: its owner hears of it, or gets made. Never waits."""
        if self._closing or session_id in self._barred:
            return
        owner = self._owners.get(session_id)
        if owner is not None:
            # It may be past its last look at the queue; then another owner follows.
            owner.ring()
            self._again.add(session_id)
        elif self._line or self._busy >= self._bounds.most:
            self._line.setdefault(session_id)
        else:
            self._begin(session_id)

    def _begin(self, session_id: str) -> None:
        owner = SessionOwner(self._setup, session_id, partial(self._rests, session_id))
        self._owners[session_id] = owner
        task = self._tasks[session_id] = asyncio.create_task(self._run(session_id, owner), name=f"session-{session_id}")
        task.add_done_callback(lambda _: self._after(session_id))

    def model_of(self, session_id: str) -> str | None:
        """The model of a session that runs here, None where it is not known."""
        owner = self._owners.get(session_id)
        return owner.model if owner is not None else None

    async def _run(self, session_id: str, owner: SessionOwner) -> None:
        # For all that is logged from here on, by the owner's own tasks too.
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
            log.error("session_not_stored", session_id=session_id, error=error.detail)

    async def _after_crash(self, session_id: str) -> None:
        """Tries again, some times: what crashes an owner at once each time would else do so for ever."""
        self._crashes[session_id] = self._crashes.get(session_id, 0) + 1
        if self._crashes[session_id] < MAX_CRASHES:
            self._retry_later(session_id)
            return
        try:
            await SessionOwner(self._setup, session_id).give_up()
        except PalimpsestError as error:
            log.error("session_not_parked", session_id=session_id, error=error.detail)
            self._retry_later(session_id)
        else:
            del self._crashes[session_id]

    def _retry_later(self, session_id: str) -> None:
        """What the owner could not write is put right by the next one, as after a crash."""
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

    def _rests(self, session_id: str, rests: bool) -> None:
        """A run that waits for a person leaves its place to another; it goes on at once when there is a decision."""
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
        """A pending message was changed; a run under way looks at the queue again."""
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.ring()

    def ask_round(self, session_id: str) -> None:
        """A compaction was asked for: the owner makes it between steps, or one is made for it."""
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.ask_round()
        self.wake(session_id)

    def take_revert(self, session_id: str) -> None:
        """A compaction was reverted; a run under way goes on without it."""
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.take_revert()

    def take_decision(self, session_id: str) -> None:
        """A call was approved or denied: the run that waits for it looks."""
        owner = self._owners.get(session_id)
        if owner is not None:
            owner.take_decision()
        else:
            self.wake(session_id)

    def interrupt(self, session_id: str, reason: StopReason, message_id: str | None = None) -> None:
        """Ends the session's step under way; a session that should run and has no owner gets one, which sees to it. A
        cancel does not wait in line: what it takes is written down within milliseconds."""
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
        """Ends a session's owner and keeps another from being made while the context lasts. A session that is still
        there afterwards goes on."""
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
        """Ends all runs where they stand, since another server has the sessions now, and begins no more."""
        self._line.clear()
        if tasks := self._shut_down():
            await asyncio.wait(tasks)

    async def aclose(self, grace_s: float) -> None:
        """Parks all runs: steps end as interrupted, and the next start goes on with them. What does not end within the
        grace period is cut off, as a crash would."""
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
        """Begins nothing more and has every run end where it stands; gives the tasks that end with that."""
        self._closing = True
        for timer in self._retries.values():
            timer.cancel()
        for owner in self._owners.values():
            owner.interrupt("shutdown")
        return set(self._tasks.values())
