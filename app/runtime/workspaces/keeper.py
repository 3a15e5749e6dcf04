"""Keeps the workspaces of this machine's sessions in the store, and brings those here that other machines had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import workspaces
from app.db.repositories.workspaces import StoredWorkspace
from app.errors import (
    PalimpsestError,
    SandboxError,
    SandboxUnavailableError,
    StaleOwnerError,
    WorkspaceStoreError,
)
from app.messages import now
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.sandboxes.slots import Lease
from app.runtime.values.server import Component
from app.runtime.workspaces import claims, copies
from app.runtime.workspaces.claims import Helper
from app.runtime.workspaces.copies import RESTORES
from app.runtime.workspaces.fenced import FencedSandbox
from app.runtime.workspaces.held import FINAL_WAIT_S, Held, Place, Storing, until_either
from app.runtime.workspaces.reading import archive, load
from app.runtime.workspaces.store import ObjectMissingError
from app.runtime.workspaces.taking import MAX_ENTRIES, Snapshot
from app.runtime.workspaces.tree import Tree, with_seen
from app.runtime.workspaces.upkeep import Upkeep
from app.runtime.workspaces.view import SnapshotView
from app.sandbox.base import MovableSandbox, Sandbox
from app.sessions import SandboxSpec

OWNER = 1000
"""The uid that commands run as in every kind of sandbox, as seen from inside."""
LATE_WAIT_S = 600.0
"""Seconds that it waits while the store is away: a request on another machine would not see the last changes."""
log = structlog.get_logger(__name__)


class Workspaces:
    """The workspaces of sessions that may move between machines. `bring` comes first, then `using` around everything
    that changes files; `between_steps` and `settle` take snapshots."""

    def __init__(self, database: Database, sandboxes: Sandboxes, place: Place) -> None:
        self._database = database
        self._sandboxes = sandboxes
        self.place = place
        self.upkeep = Upkeep(database, sandboxes, place, self._store_again)
        self.storing = Storing(database, sandboxes, self.upkeep.check)
        self._held: dict[str, Held] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.storing.released = self._drop_unneeded
        self.on_restore: Callable[[str], Awaitable[None]] = _nothing
        """Awaited with the id of a session whose workspace was restored here: it may be older than it was elsewhere."""
        sandboxes.on_removal.append(self._forget)

    async def _machine(self, kind: str) -> str:
        """The id that is in the row of each workspace of this kind that is here. Raises `SandboxUnavailableError`."""
        return await self._sandboxes.kinds.machine(kind, self.place.data_dir)

    async def _is_here(self, row: StoredWorkspace, kind: str) -> bool:
        """Whether a workspace is on this machine; it is not if nothing here can tell."""
        try:
            return row.machine == await self._machine(kind)
        except SandboxUnavailableError:
            return False

    async def _row(self, session_id: str) -> StoredWorkspace | None:
        return await claims.find(self._database, session_id)

    # Where a workspace is

    async def bring(
        self, session_id: str, spec: SandboxSpec, epoch: int | None = None, *, helper: Helper | None = None
    ) -> None:
        """Makes sure that a session's workspace is here: restores its newest snapshot if another machine had it, which
        the session's log says as of its next run. `epoch` is an owner's, for the fence; a sub-agent is a `helper`.

        Raises `WorkspaceStoreError` if the store does not answer, `StaleOwnerError`, and what the sandbox raises.
        """
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with lock:
            held = self._held.get(session_id)
            if held is not None and await self._is_current(held, epoch):
                held.epoch = epoch or held.epoch
                return
            row = await self._row(session_id)
            lease = self._sandboxes.lease(session_id, spec)
            try:
                await self._bring(lease, session_id, spec, row, epoch, helper)
            finally:
                lease.release()

    async def _bring_here(self, session_id: str, spec: SandboxSpec) -> bool:
        """Like `bring`, but takes nothing from other machines, and restores nothing. Whether the workspace is here."""
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            held = self._held.get(session_id)
            if held is not None:
                return await self._is_current(held, None)
            row = await self._row(session_id)
            if row is None or not await self._has(row, spec):
                return False
            found = await claims.acquire(self._database, session_id, row, row.machine, None, self.place.node)
            if found is not None:
                await self._hold(Held(session_id, spec, self.place.objects(session_id), *found, row.machine), row)
            return found is not None

    async def _hold(self, held: Held, row: StoredWorkspace | None) -> None:
        self._held[held.session_id] = held
        await self._clean(held.session_id, held.tenure, row)

    async def _is_current(self, held: Held, epoch: int | None) -> bool:
        """Whether the workspace is still here. An owner asks at its first use: only another owner takes it away. Raises
        `StaleOwnerError` if that has happened in the middle of a run, whose files must not be replaced."""
        if epoch is not None and held.epoch == epoch:
            if held.lost:
                raise StaleOwnerError(f"Another machine has taken over the workspace of session {held.session_id}.")
            return True
        row = (
            await self._row(held.session_id)
            if epoch is None
            else await claims.find_owned(self._database, held.session_id, epoch)
        )
        if row is None or (row.tenure, row.machine) != (held.tenure, held.machine):
            held.lost = True
            self.storing.forget(held.session_id)
            await held.end()
        return not held.lost

    async def _bring(
        self,
        lease: Lease,
        session_id: str,
        spec: SandboxSpec,
        row: StoredWorkspace | None,
        epoch: int | None,
        helper: Helper | None,
    ) -> None:
        machine = await self._machine(spec.kind)
        for _ in range(RESTORES):
            restored = row is not None and await _is_lost(lease.sandbox, row, machine)
            if restored:
                assert row is not None
                if row.machine == machine:
                    # A restoration that does not end must not look like a workspace that is here.
                    row = await claims.disown(self._database, row)
                    continue
                try:
                    await self._restore(lease, row)
                except ObjectMissingError:
                    row = await self._row(session_id)
                    continue
            found = await claims.acquire(
                self._database, session_id, row, machine, epoch, self.place.node, helper=helper, is_restored=restored
            )
            if found is not None:
                if epoch is not None:
                    # Another server on this machine may have had it, and be dead or frozen.
                    await lease.sandbox.end_left()
                held = Held(session_id, spec, self.place.objects(session_id), *found, machine, epoch=epoch)
                await self._hold(held, row)
                return
            row = await self._row(session_id)
        raise SandboxError("The workspace cannot be restored: its snapshots are being replaced.")

    async def _restore(self, lease: Lease, row: StoredWorkspace) -> None:
        sandbox = lease.sandbox
        assert isinstance(sandbox, MovableSandbox)
        objects = self.place.objects(row.session_id)
        snapshot = await load(objects, row.snapshot_id) if row.snapshot_id is not None else Snapshot()
        log.info("workspace_restoring", session_id=row.session_id, files=len(snapshot.tree.entries))
        await sandbox.restore(archive(objects, snapshot.tree, owner=OWNER))
        await lease.start()
        scan = await sandbox.scan(MAX_ENTRIES)
        # Nothing has run since, so what was restored is what the scan sees.
        known = await asyncio.to_thread(with_seen, snapshot.tree.entries, scan.entries)
        found = Snapshot(snapshot.id, Tree(known, snapshot.tree.lists), snapshot.packs)
        await asyncio.to_thread(self.place.cache.save, row.session_id, found)
        await self.on_restore(row.session_id)

    async def _clean(self, session_id: str, tenure: int, row: StoredWorkspace | None) -> None:
        """Notes packs that an earlier holder has left unfinished, to be removed with the next snapshot. Its later ones
        are never recorded, so that only packs of earlier tenures can be unused."""
        if row is None or row.snapshot_id is None:
            return
        objects = self.place.objects(session_id)
        with suppress(WorkspaceStoreError):
            names = [key.rpartition("/")[2] for key in await objects.store.list(objects.pack(""))]
            self._held[session_id].litter.update(name for name in names if name < f"{tenure:08d}-")

    async def is_elsewhere(self, session_id: str, kind: str) -> bool:
        """Whether another machine has the workspace."""
        row = await self._row(session_id)
        return row is not None and row.machine != "" and not await self._is_here(row, kind)

    async def _has(self, row: StoredWorkspace, spec: SandboxSpec) -> bool:
        """Whether a workspace can be used here as it is: it is on this machine, and was not removed."""
        if not await self._is_here(row, spec.kind):
            return False
        if row.snapshot_id is None:
            return True
        lease = self._sandboxes.lease(row.session_id, spec)
        try:
            return await lease.sandbox.has_workspace()
        finally:
            lease.release()

    async def view(self, session_id: str, spec: SandboxSpec) -> SnapshotView | None:
        """The workspace as its newest snapshot has it, if it is on another machine; None if it is here. Raises
        `WorkspaceStoreError`."""
        for _ in range(RESTORES):
            row = await self._row(session_id)
            if row is None or await self._has(row, spec):
                return None
            objects = self.place.objects(session_id)
            with suppress(ObjectMissingError):
                found = await load(objects, row.snapshot_id) if row.snapshot_id is not None else Snapshot()
                return SnapshotView(objects, found, row.as_of)
        raise SandboxError("The workspace cannot be read: its snapshots are being replaced.")

    # Changes

    def fenced(self, session_id: str, sandbox: Sandbox) -> Sandbox:
        """The sandbox, whose commands and writes wait for a snapshot that is reading the workspace."""
        return FencedSandbox(sandbox, lambda: self.using(session_id))

    @asynccontextmanager
    async def using(self, session_id: str) -> AsyncIterator[None]:
        """While entered, files may change, and no snapshot is begun."""
        held = self._held.get(session_id)
        if held is None:
            yield
            return
        await held.enter()
        try:
            yield
        finally:
            held.leave()

    def between_steps(self, session_id: str) -> None:
        """The session or one of its sub-agents is between two steps: begins a snapshot if no command runs, files may
        have changed, and the last one is old enough."""
        held = self._held.get(session_id)
        if held is not None and held.is_due and not held.users:
            self.storing.begin(held, self.place)

    def is_owned(self, session_id: str) -> bool:
        """Whether the owner of a session is here, which stores its workspace."""
        held = self._held.get(session_id)
        return held is not None and held.epoch is not None

    async def settle(self, session_id: str, until: asyncio.Event) -> bool:
        """The session's work has ended: takes a snapshot if there were changes, and waits for it, at most until the
        event, since the session may have new work. False if it has failed and will be tried again."""
        held = self._held.get(session_id)
        if held is None:
            return True
        if held.dirty:
            self.storing.begin(held, self.place)
        if held.task is not None:
            await until_either(self.storing.until_taken(held), until, FINAL_WAIT_S)
        return held.timer is None

    async def settle_late(self, session_id: str, until: asyncio.Event) -> None:
        """Waits for a snapshot that is tried again, as after `settle`."""
        if (held := self._held.get(session_id)) is not None:
            await until_either(self.storing.until_stored(held), until, LATE_WAIT_S)

    def leave(self, session_id: str) -> None:
        """The session has no owner here any more."""
        held = self._held.get(session_id)
        if held is not None:
            held.epoch = None
            if held.dirty and not held.lost and held.task is None and held.timer is None:
                # A run that was taken over has not settled. What is found to be elsewhere is then forgotten here.
                self.storing.begin(held, self.place)
            self._drop_unneeded(held)

    async def check_before_change(self, session_id: str) -> None:
        """Raises `WorkspaceStoreError` if what a request changes could not be stored now. A run stores its own."""
        held = self._held.get(session_id)
        if held is None or held.epoch is None:
            await self.upkeep.check()

    def store_later(self, session_id: str) -> None:
        """Files may have been changed outside of a run: takes a snapshot soon, unless a run is about to."""
        held = self._held.get(session_id)
        if held is not None and held.users == 0:
            self.storing.begin(held, self.place)

    async def store_now(self, session_id: str) -> None:
        """Files were changed by a request: returns once they are in a snapshot; see `Storing.finish`."""
        held = self._held.get(session_id)
        if held is not None:
            await self.storing.finish(held, self.place)

    def _drop_unneeded(self, held: Held) -> None:
        if held.is_clean and self._held.get(held.session_id) is held:
            del self._held[held.session_id]

    # Forks and deletions

    async def fork(
        self, source_id: str, own: SandboxSpec, target_id: str, spec: SandboxSpec
    ) -> Callable[[Connection], None]:
        """Gives a fork its parent's workspace: a copy if that is here, else a copy of its snapshot in the store, to be
        restored where the fork runs. Returns what has to be stored with the fork's rows."""
        row = await self._row(source_id)
        await self.upkeep.check()
        if row is None or await self._has(row, own):
            machine = await self._machine(spec.kind)
            await self._sandboxes.copy_workspace(source_id, own, target_id, spec)
            return lambda c: workspaces.add(c, target_id, machine, now())
        found = await copies.copy(self._database, self.place, row, target_id)
        return lambda c: workspaces.add(c, target_id, "", found.as_of, snapshot_id=found.snapshot_id)

    async def begin(self, session_id: str, spec: SandboxSpec) -> Callable[[Connection], None]:
        """For a new session whose workspace is made here: what has to be stored with its rows. Raises
        `WorkspaceStoreError` if the workspace could not be stored."""
        await self.upkeep.check()
        machine = await self._machine(spec.kind)
        return lambda c: workspaces.add(c, session_id, machine, now())

    async def store_fork(self, session_id: str, spec: SandboxSpec) -> None:
        """Takes the first snapshot of a workspace that was made here before its session. If that fails, it is tried
        again in the background: the session has been made."""
        try:
            if await self._bring_here(session_id, spec):
                self._mark(session_id)
                await self.store_now(session_id)
        except PalimpsestError as error:
            log.warning("workspace_not_stored", session_id=session_id, reason=error.detail)

    def _mark(self, session_id: str) -> None:
        held = self._held.get(session_id)
        if held is not None:
            held.change()
            self.storing.begin(held, self.place)

    async def _forget(self, session_id: str) -> None:
        """Removes what a deleted session has in the store. If that does not answer, `sweep` does it later."""
        held = self._held.pop(session_id, None)
        if held is not None:
            await held.end()
        self.storing.forget(session_id)
        await asyncio.to_thread(self.place.cache.remove, session_id)
        try:
            await self.place.objects(session_id).delete_all()
        except WorkspaceStoreError as error:
            log.warning("snapshots_left_behind", session_id=session_id, reason=error.detail)

    # This server

    async def component(self) -> Component:
        """The store's state, for `readyz`."""
        return await self.upkeep.component(self.storing.failing)

    async def _store_again(self, session_id: str, spec: SandboxSpec) -> None:
        """Stores a workspace that an earlier server here has left, unless it is elsewhere now."""
        with suppress(PalimpsestError):
            if await self._bring_here(session_id, spec):
                self._mark(session_id)
        held = self._held.get(session_id)
        if held is not None and held.task is not None:
            await asyncio.wait({held.task})

    async def aclose(self, grace_s: float) -> None:
        """Takes the last snapshots, and waits for them within the grace period."""
        for held in self._held.values():
            if held.dirty:
                self.storing.begin(held, self.place)
        if self._held:
            tasks = [asyncio.create_task(self.storing.until_taken(held)) for held in self._held.values()]
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            if late:
                log.warning("snapshots_cut_off", count=len(late))
            for task in late:
                task.cancel()
        for held in list(self._held.values()):
            await held.end()
        self._held.clear()


async def _nothing(_: str) -> None: ...


async def _is_lost(sandbox: Sandbox, row: StoredWorkspace, machine: str) -> bool:
    """Whether a workspace is not on this machine any more, or has never been."""
    if row.machine != machine:
        return True
    # Its volume or directory may have been removed.
    return row.snapshot_id is not None and not await sandbox.has_workspace()
