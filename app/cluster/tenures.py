"""The sessions that this node owns, each from its claim until it is idle or another node continues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Row
from structlog.contextvars import bind_contextvars, unbind_contextvars

from app.agent.step import LOGGED
from app.cluster.requests import Look, look
from app.cluster.tenure import Tenure, always
from app.db.repositories import ownership, sessions
from app.db.repositories.ownership import RowVersion
from app.errors import PalimpsestError, StaleOwnerError, StorageError, UnavailableError
from app.messages import now
from app.runtime.background import in_background
from app.runtime.owner.owning import give_up, own
from app.runtime.owner.session import SessionOwner
from app.runtime.setup import RuntimeSetup
from app.sessions import SessionKind

MAX_CRASHES = 3
"""Consecutive crashes of a session's owners on this node before the session is parked."""

CRASH_WAIT_S = 1.0
"""Seconds until the next owner after a crash."""

WATCH_S = 0.5
"""How often owners look for changes that others have made, in seconds: a cancel whose nudge was lost must still end its
step within two. All sessions of a node share one query."""

log = structlog.get_logger(__name__)


class DrainingError(UnavailableError):
    """This node is about to stop: another one should own the session."""


class UnconfirmedError(UnavailableError):
    """The engine did not answer whether this node is to own a session."""


class Tenures:
    """Owns sessions for the engine, and with them their sub-agents, which take one of the node's `most` slots each."""

    def __init__(self, setup: RuntimeSetup, most: int | None = None) -> None:
        self._setup = setup
        self._most = most
        self._held: dict[str, Tenure] = {}
        self._nudged = asyncio.Event()
        self._drains = False
        self.on_change: Callable[[], None] = lambda: None
        """Called when a session needs a slot less, or one more."""
        self._slot_change = asyncio.Event()
        reach = setup.subagents
        reach.wake = lambda session_id, child_id, _: self._start_child(session_id, child_id)
        reach.resume, reach.cancel = self._start_child, self._cancel_child

    def __len__(self) -> int:
        return len(self._held)

    @property
    def draining(self) -> bool:
        """Whether this node takes no more sessions."""
        return self._drains

    @property
    def busy(self) -> int:
        """Number of sessions that take a slot: all but those that wait for a person, a client or sub-agents."""
        return sum(not tenure.rests for tenure in self._held.values())

    @property
    def resting(self) -> int:
        """Number of the engine's sessions that take no slot, less that of the sub-agents that take one."""
        return sum(tenure.parent is None for tenure in self._held.values()) - self.busy

    def model_of(self, session_id: str) -> str | None:
        """The model of a session that is owned here, None if unknown."""
        tenure = self._held.get(session_id)
        return tenure.owner.model if tenure is not None and tenure.owner is not None else None

    def holds(self, session_id: str) -> bool:
        return session_id in self._held

    async def hold(
        self, session_id: str, *, steps: bool = True, is_wanted: Callable[[], Awaitable[bool]] = always
    ) -> bool:
        """Owns a session until it is idle, or stopped here; returns whether it still has work. Without `steps`, it
        makes none: it only stores how a canceled run ends. It is not claimed if it is not `is_wanted`, which is asked
        first and may raise `UnavailableError`, or if another node has claimed it since. Cancellation stops it and waits
        for its end.

        Raises `StorageError`, `UnconfirmedError`, and `DrainingError` if this node takes no more sessions."""
        while (former := self._held.get(session_id)) is not None:
            # The engine has given up this node's former tenure, which is still ending.
            await former.ended.wait()
        if self._drains:
            raise DrainingError("This node takes no more sessions.")
        tenure = self._held[session_id] = Tenure(session_id, is_wanted, self._changed, drains=not steps)
        task = asyncio.create_task(self._run(tenure), name=f"session-{session_id}")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            tenure.stop()
            await asyncio.wait({task})
            if not task.cancelled():
                # Its error is in the log; one that nobody takes would be logged again, with a traceback.
                task.exception()
            raise

    async def _run(self, tenure: Tenure) -> bool:
        # For everything logged from here on, including by the owner's own tasks.
        bind_contextvars(session_id=tenure.session_id)
        try:
            for _ in range(MAX_CRASHES):
                try:
                    return await self._own(tenure)
                except UnconfirmedError as error:
                    log.warning("session_not_claimed", reason=error.detail)
                    raise
                except StorageError as error:
                    log.error("session_write_failed", error=error.detail)
                    raise
                except Exception:
                    log.exception("session_owner_crashed")
                await asyncio.sleep(CRASH_WAIT_S)
            await self._give_up(tenure.session_id)
            return False
        finally:
            del self._held[tenure.session_id]
            tenure.ended.set()
            self._changed()

    def _changed(self) -> None:
        self._slot_change.set()
        self.on_change()

    async def _own(self, tenure: Tenure) -> bool:
        """Owns a session; returns whether it still has work."""
        row = await self._setup.database.read(lambda c: sessions.find(c, tenure.session_id))
        if row is None or not await _is_wanted(tenure) or await self._has_other_owner(tenure, row):
            return False
        if not ownership.has_work(row) or ownership.is_barred(row, now()):
            if row.owner is not None and row.has_commands:
                # A later owner does this itself.
                with suppress(StaleOwnerError):
                    await self._setup.commands.recover(self._setup, tenure.session_id, row.epoch)
            if row.owner == self._setup.node:
                # Left by a tenure whose last write failed.
                await self._release(tenure.session_id)
            elif (former := row.owner) is not None:
                # As above, on a node that died then, or got no second try: the engine has given up its tenure.
                await self._setup.database.writer.write(
                    lambda c: ownership.free_idle(c, tenure.session_id, former), session_id=tenure.session_id
                )
            return False

        def take_owner(owner: SessionOwner) -> None:
            tenure.take_owner(owner)
            owner.catch_up = partial(self._catch_up, tenure)

        def rest(rests: bool) -> None:
            tenure.rest(rests)
            self._changed()
            if tenure.parent is not None:
                # It waits for an approval, or no longer does.
                tenure.parent.notify()

        try:
            with self._setup.bus.on_nudge(tenure.session_id, self._nudged.set):
                await own(self._setup, tenure.session_id, rest, take_owner, row.epoch)
        finally:
            tenure.owner, tenure.requests, tenure.rests = None, None, False
            self._changed()
            await self._end_children(tenure)
        # Also without an owner: the claim may have found the session idle.
        has_work = await self._release(tenure.session_id)
        if row.kind == SessionKind.SUBAGENT and tenure.parent is None:
            # Its cancel was stored here; the session's owner has its call answered.
            await self._nudge(row.parent_id)
        return has_work

    async def _nudge(self, session_id: str) -> None:
        await self._setup.database.writer.write(lambda c: ownership.nudge(c, session_id), session_id=session_id)
        self._setup.bus.nudge(session_id)

    async def _release(self, session_id: str) -> bool:
        """Ends this node's claim; returns whether the session still has work that this node was to do."""
        row = await self._setup.database.writer.write(
            lambda c: ownership.release(c, session_id, self._setup.node), session_id=session_id
        )
        return row is not None and ownership.has_work(row) and not ownership.is_barred(row, now())

    async def _give_up(self, session_id: str) -> None:
        try:
            await give_up(self._setup, session_id)
            await self._release(session_id)
        except PalimpsestError as error:
            log.error("session_park_failed", session_id=session_id, error=error.detail)
            raise

    # Sub-agents

    def _start_child(self, session_id: str, child_id: str) -> None:
        """Owns a sub-agent of a session that is owned here, unless that is done already. If the session is about to
        leave, its next owner does so."""
        tenure = self._held.get(session_id)
        if tenure is not None and child_id not in tenure.children and not tenure.leaves:
            self._begin_child(tenure, child_id)

    def _cancel_child(self, session_id: str, child_id: str) -> None:
        """Ends a sub-agent's run, whose call no longer waits; one without an owner is canceled by its claim."""
        tenure = self._held.get(session_id)
        if tenure is not None:
            (tenure.children.get(child_id) or self._begin_child(tenure, child_id)).cancel()

    def _begin_child(self, tenure: Tenure, child_id: str) -> Tenure:
        child = Tenure(child_id, parent=tenure, changed=self._changed, drains=tenure.drains, stops=tenure.stops)
        tenure.children[child_id] = child
        child.task = asyncio.create_task(self._run_child(tenure, child), name=f"session-{child_id}")
        return child

    async def _run_child(self, tenure: Tenure, child: Tenure) -> None:
        # It is begun by a step of its session.
        unbind_contextvars(*LOGGED)
        try:
            await self._until_slot(child)
            await self._run(child)
        except PalimpsestError:
            # It is in the log. Once this has ended, the session has the sub-agent continue.
            if not child.leaves:
                await asyncio.sleep(CRASH_WAIT_S)
        finally:
            tenure.child_ended(child)

    async def _until_slot(self, child: Tenure) -> None:
        """Waits for a free slot, and for a tenure that the engine has offered meanwhile; takes it into those that are
        owned here."""
        while True:
            if (other := self._held.get(child.session_id)) is not None:
                await other.ended.wait()
            elif self._most is not None and self.busy >= self._most and not child.leaves:
                self._slot_change.clear()
                await self._slot_change.wait()
            else:
                self._held[child.session_id] = child
                self.on_change()
                return

    async def _end_children(self, tenure: Tenure) -> None:
        """Waits for the end of a session's sub-agents, and stops those that were not canceled: the session is owned by
        another node, or its owner has failed."""
        for child in tenure.children.values():
            child.stop()
        while tenure.children:
            await asyncio.wait([child.task for child in tenure.children.values() if child.task is not None])

    async def _has_other_owner(self, tenure: Tenure, row: Row[Any]) -> bool:
        """Whether it is a sub-agent that the engine was asked for, such as by a cancel, while its session's owner has
        it."""
        if row.kind != SessionKind.SUBAGENT or tenure.parent is not None or tenure.drains:
            return False
        return await self._setup.database.read(lambda c: ownership.works_for_another(c, tenure.session_id))

    # What others change

    async def watch(self) -> None:
        """Looks for changes until it is cancelled."""
        async with in_background(self._look_regularly(), "tenures-watch"):
            await asyncio.Event().wait()

    async def _look_regularly(self) -> None:
        failing = False
        while True:
            try:
                await self.look()
                failing = False
            except PalimpsestError as error:
                if not failing:
                    log.warning("watch_failed", reason=error.detail)
                failing = True
            except Exception:
                log.exception("watch_crashed")
            try:
                async with asyncio.timeout(WATCH_S):
                    await self._nudged.wait()
            except TimeoutError:
                pass
            self._nudged.clear()

    async def _catch_up(self, tenure: Tenure, nudges: int | None) -> None:
        """What was changed during a step applies to the next one, even if the nudge was lost. The commit of the step's
        results, which has just asserted the epoch, shows most times that nothing was, so that the model does not wait
        for another look at the row."""
        if tenure.version is not None and nudges == tenure.version.nudges:
            return
        try:
            await self._look_at([tenure])
        except StorageError as error:
            log.warning("watch_failed", session_id=tenure.session_id, reason=error.detail)
            if tenure.owner is not None:
                # It looks for messages itself. If the error lasts, this ends the run.
                tenure.owner.ring()

    async def look(self) -> None:
        """Has the owners act on what others have changed, and stops those that own their session no longer."""
        await self._look_at([tenure for tenure in self._held.values() if tenure.owner is not None])

    async def _look_at(self, tenures: Sequence[Tenure]) -> None:
        if not tenures:
            return
        owners = {tenure.session_id: (tenure, tenure.owner) for tenure in tenures}
        versions = await self._setup.database.read(lambda c: ownership.versions(c, owners.keys()))
        for session_id, (tenure, owner) in owners.items():
            # Another look may be acting on the same change, and this one has to return after that.
            async with tenure.looking:
                if owner is not None and owner is tenure.owner:
                    await self._compare(tenure, owner, versions.get(session_id))

    async def _compare(self, tenure: Tenure, owner: SessionOwner, version: RowVersion | None) -> None:
        if version is None or version.epoch != owner.claimed.epoch:
            # Deleted, or claimed by another node while this one was frozen or cut off.
            self._lose(tenure, is_deleted=version is None)
        elif version != tenure.version and await self._answer(tenure, owner):
            # Not before: after an error, the next look tries again.
            tenure.version = version

    @staticmethod
    def _lose(tenure: Tenure, *, is_deleted: bool) -> None:
        # Others look while it ends.
        if not (is_deleted or tenure.stops):
            log.warning("session_claimed_elsewhere", session_id=tenure.session_id)
        tenure.stop()

    async def _answer(self, tenure: Tenure, owner: SessionOwner) -> bool:
        """Has the owner act on what was changed; returns whether it is still the session's."""
        found: Look | None = await self._setup.database.read(lambda c: look(c, tenure.session_id))
        if tenure.owner is not owner or tenure.requests is None:
            return False
        if found is None or found.row.epoch != owner.claimed.epoch:
            self._lose(tenure, is_deleted=found is None)
            return False
        if ownership.is_barred(found.row, now()):
            tenure.stop()
            return False
        tenure.requests.answer(found)
        return True

    def drain(self) -> None:
        """Takes no more sessions, and has those that are owned end with their current steps."""
        self._drains = True
        for tenure in self._held.values():
            tenure.drain()

    async def until_ended(self, seconds: float) -> None:
        """Waits at most some seconds for the end of all tenures, then stops those that are left; does not wait for
        that."""
        if not await self._ended(seconds):
            log.warning("steps_interrupted", count=len(self._held))
            for tenure in self._held.values():
                tenure.stop()

    async def _ended(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self._held:
                    await next(iter(self._held.values())).ended.wait()
        except TimeoutError:
            return False
        return True


async def _is_wanted(tenure: Tenure) -> bool:
    try:
        wanted = await tenure.is_wanted()
    except UnavailableError as error:
        raise UnconfirmedError(error.detail) from error
    if not wanted:
        log.info("tenure_outdated")
    return wanted
