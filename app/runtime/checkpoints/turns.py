"""Who works on the repository of a session, one at a time, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from app.runtime.checkpoints.repository import CheckpointError

TURN_S = 5.0
"""Seconds that a checkpoint waits for other work, such as packing: a run waits with it."""


class Turns:
    """The locks of all sessions."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._restoring: set[str] = set()

    def lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    @asynccontextmanager
    async def of_restoration(self, session_id: str) -> AsyncIterator[None]:
        async with self.lock(session_id):
            self._restoring.add(session_id)
            try:
                yield
            finally:
                self._restoring.discard(session_id)

    @asynccontextmanager
    async def of_checkpoint(self, session_id: str) -> AsyncIterator[None]:
        """Waits for a restoration to its end, since the run must not use the workspace before. Raises
        `CheckpointError` if other work takes too long."""
        lock = self.lock(session_id)
        was_restoring = session_id in self._restoring
        while not await _acquired(lock):
            is_restoring = session_id in self._restoring
            # Other work gets its time after a restoration, which may have ended just now.
            if not (was_restoring or is_restoring):
                raise CheckpointError(f"Other work on the checkpoints took more than {TURN_S:.0f} seconds.")
            was_restoring = is_restoring
        try:
            yield
        finally:
            lock.release()


async def _acquired(lock: asyncio.Lock) -> bool:
    try:
        async with asyncio.timeout(TURN_S):
            return await lock.acquire()
    except TimeoutError:
        return False


@asynccontextmanager
async def within(seconds: float, too_long: str) -> AsyncIterator[None]:
    """Raises `CheckpointError` if the body takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as exc:
        raise CheckpointError(too_long) from exc
