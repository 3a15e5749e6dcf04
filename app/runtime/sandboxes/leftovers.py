"""Removes what this machine still has of sessions that were deleted while it was away, or whose workspace is on another
machine now, and stops sandboxes whose server has died."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import NamedTuple

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import sessions, workspaces
from app.errors import PalimpsestError
from app.runtime.background import in_background
from app.runtime.sandboxes.pool import Sandboxes
from app.sandbox.base import Present

SWEEP_S = 600.0
"""Seconds between two sweeps."""
GRACE_S = 600.0
"""Seconds for which nothing is removed that was made or changed: a fork has its files before its rows, and a workspace
is restored before its row says so."""
MOST = 200
"""Sessions removed or stopped in one sweep; the next one continues."""

log = structlog.get_logger(__name__)


class _Known(NamedTuple):
    """What the database says of a session: where its workspace is, None without a store; who owns it; and when it was
    changed last, in seconds since the epoch."""

    machine: str | None
    owner: str | None
    changed: float


class Leftovers:
    """Those of one server. `data_dir` is the id of its data directory."""

    def __init__(self, database: Database, sandboxes: Sandboxes, data_dir: str, *, grace_s: float = GRACE_S) -> None:
        self._database = database
        self._sandboxes = sandboxes
        self._data_dir = data_dir
        self._grace_s = grace_s

    @asynccontextmanager
    async def swept(self) -> AsyncIterator[None]:
        """Sweeps now and then while the context lasts."""
        async with in_background(self._sweep_regularly(), "leftovers"):
            yield

    async def _sweep_regularly(self) -> None:
        while True:
            try:
                await self.sweep()
            except PalimpsestError as error:
                log.warning("leftovers_not_removed", reason=error.detail)
            except Exception:
                log.exception("leftovers_sweep_crashed")
            await asyncio.sleep(SWEEP_S)

    async def sweep(self) -> None:
        """Raises what the sandboxes and the database raise."""
        for kind in self._sandboxes.kinds.names:
            machine = await self._sandboxes.kinds.machine(kind, self._data_dir)
            latest = time.time() - self._grace_s
            found = [each for each in await self._sandboxes.kinds.present(kind) if each.touched < latest]
            known = await self._known([each.session_id for each in found]) if found else {}
            due = [each for each in found if self._is_due(each, known.get(each.session_id), machine)]
            for each in due[:MOST]:
                await self._end(each, machine)

    async def _known(self, session_ids: Collection[str]) -> dict[str, _Known]:
        def read(connection: Connection) -> dict[str, _Known]:
            found: dict[str, _Known] = {}
            for session_id in session_ids:
                if (row := sessions.find(connection, session_id)) is not None:
                    place = workspaces.find(connection, session_id)
                    machine = None if place is None else place.machine
                    found[session_id] = _Known(machine, row.owner, row.updated_at.timestamp())
            return found

        return await self._database.read(read)

    def _is_due(self, each: Present, known: _Known | None, machine: str) -> bool:
        """Whether there is something to remove or to stop."""
        if self._sandboxes.uses(each.session_id):
            return False
        return _is_left(known, machine) or (known is not None and self._runs_for_nobody(each, known))

    def _runs_for_nobody(self, each: Present, known: _Known) -> bool:
        """A server stops its sandboxes when they are idle, unless it has died."""
        return each.runs and known.owner is None and known.changed < time.time() - self._sandboxes.idle_s

    async def _end(self, each: Present, machine: str) -> None:
        """Looks again while no other node can begin to use it."""
        async with self._sandboxes.unused(each.session_id) as unused:
            known = (await self._known([each.session_id])).get(each.session_id)
            if not unused or not self._is_due(each, known, machine):
                return
            left = _is_left(known, machine)
            await (each.remove if left else each.stop)()
        log.info("leftover_removed" if left else "leftover_stopped", session_id=each.session_id)


def _is_left(known: _Known | None, machine: str) -> bool:
    return known is None or (known.machine is not None and known.machine not in ("", machine))
