"""The sessions that run here: one owner task each, created when there is work and gone when it is done.

Their number is bounded. Other sessions wait in line, which costs only an entry; clients see them as running, and their
messages are accepted as usual.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection, Row
from structlog.contextvars import bind_contextvars, unbind_contextvars

from app.agent.interrupt import StopReason
from app.agent.step import LOGGED
from app.errors import PalimpsestError, StorageError, TooManyRunsError
from app.runtime.dispatch import Started
from app.runtime.line import Entry, FairLine, State
from app.runtime.owner.owning import give_up, own
from app.runtime.owner.session import SessionOwner
from app.runtime.setup import RuntimeSetup
from app.sessions import SessionKind

log = structlog.get_logger(__name__)

MAX_CRASHES = 3
"""Consecutive crashes of a session's owners before it is parked."""

RETRY_S = 1.0
"""Seconds after a failed write until a session's next owner starts."""

UNSTORED_QUIET_S = 60.0
"""Seconds without a failed write of a session after which the next one is logged: during an outage, hundreds of
sessions retry every few seconds, and each logs only once."""


def too_many_runs(most: int) -> TooManyRunsError:
    """The error for a request that would start a run while `most` others are waiting."""
    return TooManyRunsError(f"{most:,} runs are already waiting; try again later.", most=most)


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
        self._entries: dict[str, Entry] = {}
        self._line = FairLine()
        self._count: Counter[State] = Counter()
        """Entries by state, except idle ones."""
        self._admitting = 0
        self.refused = 0
        self._closing = False
        # Nothing resumes sub-agents: after a restart they are woken like all sessions that should run.
        setup.subagents.wake = lambda _, child_id, key: self.wake(child_id, key)
        setup.subagents.cancel = lambda _, child_id: self.interrupt(child_id, "cancel")

    def __len__(self) -> int:
        return self._busy + self._count[State.RESTING]

    @property
    def _busy(self) -> int:
        return self._count[State.RUNNING]

    @property
    def waiting(self) -> int:
        """Number of sessions that wait for their turn. Thread-safe."""
        return len(self._line)

    def _entry(self, session_id: str) -> Entry:
        entry = self._entries.get(session_id)
        if entry is None:
            entry = self._entries[session_id] = Entry(session_id)
        return entry

    def _call(self, session_id: str, method: Callable[[SessionOwner], None]) -> bool:
        """Calls a session's owner; returns whether it has one, or soon will."""
        entry = self._entries.get(session_id)
        if entry is None or entry.task is None:
            return False
        entry.call(method)
        return True

    def _move(self, entry: Entry, state: State) -> None:
        """The only place that changes a state, since the line and the counts follow from it."""
        if entry.state is State.WAITING:
            self._line.remove(entry)
        if state is State.WAITING:
            self._line.add(entry)
        self._count[entry.state] -= 1
        self._count[state] += 1
        entry.state = state
        self._forget_unneeded(entry)

    def _forget_unneeded(self, entry: Entry) -> None:
        # It may have been forgotten before, and the session have a new one.
        if not entry.is_needed and self._entries.get(entry.session_id) is entry:
            del self._entries[entry.session_id]

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
        entry = self._entries.get(session_id)
        return entry is not None and entry.state is not State.IDLE

    def no_room(self) -> TooManyRunsError:
        """The error for a request that would start a run while too many are waiting."""
        self.refused += 1
        return too_many_runs(self._bounds.waiting)

    def check_room(self, connection: Connection) -> None:
        """Nothing: `admitting` is exact, since all runs are here."""

    def starts_at_once(self, session_id: str) -> bool:
        """See `Dispatch.starts_at_once`."""
        has_slot = not (self._closing or self._line) and self._busy < self._bounds.most
        return has_slot and session_id not in self._entries

    def wake(self, session_id: str, key: str | None = None, started: Started | None = None) -> None:
        """There is work for a session: notifies its owner, or creates one. Never waits."""
        if self._closing:
            return
        entry = self._entry(session_id)
        entry.key = key or entry.key
        if entry.barred or entry.state is State.WAITING:
            return
        if entry.task is not None:
            # Its owner may be past its last check of the queue; then another one follows.
            entry.call(SessionOwner.ring)
            entry.again = True
        elif self._line or self._busy >= self._bounds.most:
            self._move(entry, State.WAITING)
        else:
            self._begin(entry, started)

    def _begin(self, entry: Entry, started: Started | None = None) -> None:
        self._move(entry, State.RUNNING)
        entry.task = asyncio.create_task(self._run(entry, started), name=f"session-{entry.session_id}")
        entry.task.add_done_callback(lambda _: self._after(entry))

    def model_of(self, session_id: str) -> str | None:
        """The model of a session that runs here, None if unknown."""
        entry = self._entries.get(session_id)
        return entry.owner.model if entry is not None and entry.owner is not None else None

    async def _run(self, entry: Entry, started: Started | None) -> None:
        # A sub-agent is begun by a step of its parent.
        unbind_contextvars(*LOGGED)
        # For everything logged from here on, including by the owner's own tasks.
        bind_contextvars(session_id=entry.session_id)
        try:
            resting = partial(self._set_resting, entry)
            leaves_round = await own(self._setup, entry.session_id, resting, entry.take_owner, started=started)
        except StorageError as error:
            self._log_unstored(entry, error)
            self._retry_later(entry)
        except Exception:
            log.exception("session_owner_crashed", session_id=entry.session_id)
            await self._after_crash(entry)
        else:
            entry.crashes, entry.unstored_at = 0, None
            # A run that ended before its first step has not made the round.
            entry.again = entry.again or leaves_round

    def _log_unstored(self, entry: Entry, error: StorageError) -> None:
        now = time.monotonic()
        last, entry.unstored_at = entry.unstored_at, now
        if last is None or now - last > UNSTORED_QUIET_S:
            log.error("session_write_failed", session_id=entry.session_id, error=error.detail)

    async def _after_crash(self, entry: Entry) -> None:
        """Retries a limited number of times: a session that always crashes its owner would otherwise loop forever."""
        entry.crashes += 1
        if entry.crashes < MAX_CRASHES:
            self._retry_later(entry)
            return
        try:
            await give_up(self._setup, entry.session_id)
        except PalimpsestError as error:
            log.error("session_park_failed", session_id=entry.session_id, error=error.detail)
            self._retry_later(entry)
        else:
            entry.crashes = 0

    def _retry_later(self, entry: Entry) -> None:
        """The next owner recovers what this one could not write, as after a crash."""
        if not self._closing and entry.retry is None:
            entry.retry = asyncio.get_running_loop().call_later(RETRY_S, self._retry, entry)

    def _retry(self, entry: Entry) -> None:
        entry.retry = None
        if entry.state is State.RETRYING:
            self._move(entry, State.IDLE)
        self.wake(entry.session_id)

    def _after(self, entry: Entry) -> None:
        self._ring_parent(entry)
        # Breaks a reference cycle too, through the owner's callback.
        entry.task = entry.owner = None
        entry.early.clear()
        again, entry.again = entry.again, False
        self._move(entry, State.IDLE if entry.retry is None else State.RETRYING)
        if again:
            self.wake(entry.session_id)
        self._advance()

    def _set_resting(self, entry: Entry, rests: bool) -> None:
        """A run that waits for an approval frees its slot; it continues at once after the decision."""
        self._move(entry, State.RESTING if rests else State.RUNNING)
        self._advance()
        self._ring_parent(entry)

    def _ring_parent(self, entry: Entry) -> None:
        """A sub-agent has ended, or waits or no longer waits for approval: its parent checks it."""
        if entry.owner is not None and entry.owner.claimed.kind == SessionKind.SUBAGENT:
            self._call(entry.owner.claimed.parent_id, SessionOwner.take_decision)

    def _advance(self) -> None:
        while self._line and self._busy < self._bounds.most and not self._closing:
            self._begin(self._line.next())

    def ring(self, session_id: str) -> None:
        """A pending message was changed; a current run checks the queue again."""
        self._call(session_id, SessionOwner.ring)

    def ask_round(self, session_id: str) -> None:
        """A compaction was requested: the owner makes it between steps; an owner is created if there is none."""
        self._call(session_id, SessionOwner.ask_round)
        self.wake(session_id)

    def take_revert(self, session_id: str) -> None:
        """A compaction was reverted; a current run continues without it."""
        self._call(session_id, SessionOwner.take_revert)

    def take_decision(self, session_id: str) -> None:
        """A call was approved or denied: notifies the run that waits for it."""
        if not self._call(session_id, SessionOwner.take_decision):
            self.wake(session_id)

    def take_secrets(self, session_id: str) -> None:
        """A secret was set or removed: a current run reads them again before its next step."""
        self._call(session_id, SessionOwner.take_secrets)

    def interrupt(self, session_id: str, reason: StopReason, message_id: str | None = None) -> None:
        """Ends the session's current step; a session that should run but has no owner gets one for that. A cancel does
        not wait in line, since it only takes milliseconds to store."""
        waiting = self._line.find(session_id)
        if reason == "cancel" and waiting is not None and not self._closing:
            self._begin(waiting)
        if not self._call(session_id, lambda owner: owner.interrupt(reason, message_id)):
            self.wake(session_id)

    def reconfigure(self, session_id: str, row: Row[Any]) -> None:
        self._call(session_id, lambda owner: owner.reconfigure(row))

    @asynccontextmanager
    async def without_owner(self, session_id: str) -> AsyncIterator[Callable[[Connection], None]]:
        """See `Dispatch.without_owner`."""
        entry = self._entry(session_id)
        entry.barred = True
        try:
            await self._stop(entry)
            # A server on its own shares its sessions with nobody.
            yield lambda _: None
        finally:
            entry.barred = False
            self._forget_unneeded(entry)
            self.wake(session_id)

    async def _stop(self, entry: Entry) -> None:
        entry.again = False
        if entry.retry is not None:
            entry.retry.cancel()
            entry.retry = None
        if entry.task is None:
            self._move(entry, State.IDLE)
        else:
            self.interrupt(entry.session_id, "shutdown")
            await asyncio.wait({entry.task})

    async def supersede(self) -> None:
        """Stops all runs at once, since another server has taken over, and starts no more."""
        if tasks := self._shut_down():
            await asyncio.wait(tasks)

    async def aclose(self, grace_s: float) -> None:
        """Parks all runs: steps end as interrupted, and the next start continues them. Runs that do not end within the
        grace period are cut off, as in a crash."""
        waiting = self.waiting
        tasks = self._shut_down()
        if not tasks:
            return
        log.info("runs_parking", count=len(tasks), waiting=waiting, grace_s=grace_s)
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
        for entry in list(self._line):
            self._move(entry, State.IDLE)
        for entry in self._entries.values():
            if entry.retry is not None:
                entry.retry.cancel()
            if entry.task is not None:
                entry.call(lambda owner: owner.interrupt("shutdown"))
        return {entry.task for entry in self._entries.values() if entry.task is not None}
