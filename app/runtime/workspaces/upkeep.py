"""Maintains the store, and removes what earlier servers on this machine have left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import structlog

from app.db.engine import Database
from app.db.repositories import sessions, workspaces
from app.errors import PalimpsestError, WorkspaceStoreError
from app.runtime.background import in_background
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.values.server import Component
from app.runtime.workspaces.held import RETRY_MOST_S, Place
from app.runtime.workspaces.store import ObjectMissingError
from app.sessions import SandboxSpec

SWEEP_S = 3600.0
"""Seconds between two searches for snapshots of deleted sessions."""
MARKER = "marker"
"""An object that shows whether the store is the one that it was, and not an empty folder where a share is missing."""

log = structlog.get_logger(__name__)


class Upkeep:
    """The checks of one store. `store_again` stores a workspace that is on this machine."""

    def __init__(
        self,
        database: Database,
        sandboxes: Sandboxes,
        place: Place,
        store_again: Callable[[str, SandboxSpec], Awaitable[None]],
    ) -> None:
        self._database = database
        self._sandboxes = sandboxes
        self._place = place
        self._store_again = store_again
        self._marked = False
        self._gone: set[str] = set()
        """Sessions that the last sweep did not find."""

    async def component(self, failing: int) -> Component:
        """The store's state, for `readyz`; `failing` workspaces could not be stored."""
        try:
            await self.check()
        except WorkspaceStoreError as error:
            return Component(ok=False, status="unavailable", detail=error.detail)
        if failing:
            detail = f"The snapshots of {failing} workspaces could not be stored yet."
            return Component(ok=False, status="failing", detail=detail)
        return Component(ok=True, status="ok", detail=f"{self._place.store.describe()}")

    async def check(self) -> None:
        """Raises `WorkspaceStoreError` if the store does not answer, or is not the one it was."""
        store, key = self._place.store, f"{self._place.instance_id}/{MARKER}"
        try:
            await store.get(key)
        except ObjectMissingError:
            if self._marked:
                what = store.describe()
                raise WorkspaceStoreError(f"The workspace store, {what}, is empty; is it the right one?") from None
            await store.put(key, b"Palimpsest")
        self._marked = True

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """While entered, snapshots of deleted sessions are removed, and those are taken that an earlier server on this
        machine has left out. At the end, all that changed is stored."""
        async with in_background(self._look_after(), "workspaces"):
            yield

    async def _look_after(self) -> None:
        left = True
        while True:
            try:
                await self.check()
                if left:
                    await self._store_left()
                    left = False
                await self.sweep()
            except PalimpsestError as error:
                log.warning("workspace_store_failed", reason=error.detail)
                await asyncio.sleep(RETRY_MOST_S)
            except Exception:
                log.exception("workspace_sweep_crashed")
                await asyncio.sleep(SWEEP_S)
            else:
                await asyncio.sleep(SWEEP_S)

    async def _store_left(self) -> None:
        """Stores what an earlier server could not, one after the other."""
        machines = {
            await self._sandboxes.kinds.machine(kind, self._place.data_dir) for kind in self._sandboxes.kinds.names
        }
        for session_id in await self._database.read(lambda c: workspaces.left_unstored(c, machines)):
            specs = await self._database.read(partial(sessions.sandboxes, session_ids={session_id}))
            for spec in specs.values():
                await self._store_again(session_id, spec)

    async def sweep(self) -> None:
        """Removes the snapshots of sessions that are gone. Those of a fork are there before its rows, so a session
        counts as gone at the second look only."""
        store, prefix = self._place.store, f"{self._place.instance_id}/"
        found = set(await store.folders(prefix))
        gone = found - await self._database.read(lambda c: set(sessions.ids(c)))
        for session_id in gone & self._gone:
            await self._place.objects(session_id).delete_all()
        self._gone = gone
        known = await self._database.read(lambda c: set(sessions.ids(c)))
        await asyncio.to_thread(self._place.cache.remove_others, known)
