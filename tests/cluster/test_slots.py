"""A worker's slots: what it asks the engine for, and what it gets for a session that it has decided on."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from app.cluster.slots import RunSlots

ANY = cast(Any, None)
"""What the slots do not look at."""


async def test_a_decided_session_gets_a_slot_that_no_waiting_one_has_been_promised() -> None:
    resting = 0
    slots = RunSlots(2, lambda: resting)
    await slots.reserve_slot(ANY)
    assert slots.try_reserve_slot(ANY) is not None
    assert slots.try_reserve_slot(ANY) is None, "both are taken"

    polling = asyncio.create_task(slots.reserve_slot(ANY))
    await asyncio.sleep(0)
    slots.release_slot(ANY)
    # Runs when the slot is free, and before the one that waits for it.
    meanwhile: list[object] = []
    asyncio.get_running_loop().call_soon(lambda: meanwhile.append(slots.try_reserve_slot(ANY)))
    async with asyncio.timeout(60):
        await polling
    assert meanwhile == [None], "sessions may be waiting in line"

    slots.release_slot(ANY)
    await asyncio.sleep(0)
    assert slots.try_reserve_slot(ANY) is not None
    resting = 1
    assert slots.try_reserve_slot(ANY) is None, "it is asked for in another thread"
    slots.change()
    assert slots.try_reserve_slot(ANY) is not None, "a session that waits for a person needs none"
