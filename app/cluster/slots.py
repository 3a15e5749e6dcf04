"""How many sessions a worker takes: those that wait for a person need no slot."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from temporalio.worker import (
    CustomSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
)


class RunSlots(CustomSlotSupplier):
    """Lets the worker ask the engine for a session while fewer than `most` are running here. Must be made on the event
    loop."""

    def __init__(self, most: int, resting: Callable[[], int]) -> None:
        """`resting` counts the sessions that are owned here and take no slot, less the sub-agents that take one."""
        self._most = most
        self._resting = resting
        self._rest = 0
        """`resting` as of the last change, for other threads."""
        self._taken = 0
        self._lock = threading.Lock()
        self._waits = False
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def change(self) -> None:
        """There may be a free slot, or one less."""
        self._rest = self._resting()
        self._changed.set()

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """Waits for a free slot."""
        self._waits = True
        try:
            while not self._take():
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._waits = False
        return SlotPermit()

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """A slot for a session that this worker has just decided on: the engine gives it to this worker, which is
        alive, and not to the next one that asked, which may be frozen. None while sessions may wait in line: then this
        worker waits for a slot itself."""
        # Called in a thread of the engine's client.
        return SlotPermit() if not self._waits and self._take() else None

    def _take(self) -> bool:
        with self._lock:
            if self._taken - self._rest >= self._most:
                return False
            self._taken += 1
            return True

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Nothing: it was counted when it was reserved."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        # Called in a thread of the engine's client.
        self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        with self._lock:
            self._taken -= 1
        self.change()
