"""Finds sessions with work that nobody works on: their ring was lost, or the engine has forgotten them."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import structlog

from app.cluster.engine import Engine
from app.db.engine import Database
from app.db.repositories import ownership
from app.errors import PalimpsestError
from app.messages import now

SWEEP_S = 30.0
"""Seconds between two sweeps of a node, on average: nodes should not sweep at the same time."""

QUIET = timedelta(seconds=10)
"""Sessions that changed within this time are left out: most of them have an owner."""

MOST = 2000
"""Sessions rung for in one sweep."""

log = structlog.get_logger(__name__)


class Sweep:
    """Asks the engine about each session with work that has been quiet for a while."""

    def __init__(self, database: Database, engine: Engine) -> None:
        self._database = database
        self._engine = engine
        self._ended = False

    def end(self) -> None:
        """No further sweep begins."""
        self._ended = True

    async def run(self) -> None:
        """Sweeps at once and then regularly, until it is cancelled or ended."""
        while not self._ended:
            try:
                await self.sweep()
            except PalimpsestError as error:
                log.warning("sweep_failed", reason=error.detail)
            except Exception:
                log.exception("sweep_crashed")
            await asyncio.sleep(SWEEP_S * random.uniform(0.8, 1.2))  # noqa: S311 - no secret

    async def sweep(self) -> int:
        """Returns how many sessions had no owner. Raises `UnavailableError` if the engine does not answer, and
        `StorageError`."""
        found = await self._database.read(lambda c: ownership.with_work(c, now() - QUIET, MOST))
        lost = [session_id for session_id in found if await self._engine.start_if_absent(session_id)]
        if lost:
            log.info("sessions_found_without_owner", count=len(lost))
        return len(lost)
