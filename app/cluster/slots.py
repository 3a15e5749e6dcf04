"""How many sessions a worker takes: those that wait for a person need no slot."""

from __future__ import annotations

import asyncio
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
        self._taken = 0
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def change(self) -> None:
        """There may be a free slot."""
        self._changed.set()

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """Waits for a free slot."""
        while self._taken - self._resting() >= self._most:
            self._changed.clear()
            await self._changed.wait()
        self._taken += 1
        return SlotPermit()

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """Refuses: what a worker starts for itself is left to the next free one."""
        return None

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Nothing: it was counted when it was reserved."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        # Called in a thread of the engine's client.
        self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._taken -= 1
        self._changed.set()
