"""Slots: never more than the bound, and fair."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runtime.sandboxes.slots import Slots

LONG_S, AT_ONCE_S = 10.0, 0.0


async def test_the_longest_waiter_is_first() -> None:
    slots = Slots(1)
    await slots.take(AT_ONCE_S)
    came: list[int] = []

    async def come(number: int) -> None:
        await slots.take(LONG_S)
        came.append(number)
        slots.give_back()

    async with asyncio.TaskGroup() as tasks:
        for number in range(5):
            tasks.create_task(come(number))
        await asyncio.sleep(0)
        assert slots.waiting == 5
        slots.give_back()
    assert came == [0, 1, 2, 3, 4]
    assert (slots.taken, slots.waiting) == (0, 0)


async def test_a_waiter_that_times_out_is_counted_and_blocks_nobody() -> None:
    slots = Slots(1)
    await slots.take(AT_ONCE_S)
    with pytest.raises(TimeoutError):
        await slots.take(AT_ONCE_S)
    assert (slots.refused, slots.waiting) == (1, 0)
    slots.give_back()
    await slots.take(AT_ONCE_S)


async def test_a_slot_granted_to_a_leaving_waiter_goes_to_the_next() -> None:
    slots = Slots(1)
    await slots.take(AT_ONCE_S)
    leaves, stays = (asyncio.create_task(slots.take(LONG_S)) for _ in range(2))
    await asyncio.sleep(0)
    slots.give_back()
    leaves.cancel()
    async with asyncio.timeout(LONG_S):
        await stays
    assert leaves.cancelled()
    assert slots.taken == 1


async def test_a_waiter_may_leave_at_the_moment_a_slot_becomes_free() -> None:
    slots = Slots(1)
    await slots.take(AT_ONCE_S)
    leaves, stays = (asyncio.create_task(slots.take(LONG_S)) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    slots.give_back()
    async with asyncio.timeout(LONG_S):
        await stays
    with pytest.raises(asyncio.CancelledError):
        await leaves
    assert (slots.taken, slots.waiting) == (1, 0)


async def test_room_is_made_when_a_waiter_arrives() -> None:
    slots = Slots(1, lambda: slots.give_back())
    await slots.take(AT_ONCE_S)
    await slots.take(LONG_S)
    assert slots.taken == 1


async def test_existing_users_count_even_beyond_the_bound() -> None:
    slots = Slots(1)
    slots.force()
    slots.force()
    waiter = asyncio.create_task(slots.take(LONG_S))
    await asyncio.sleep(0)
    slots.give_back()
    assert slots.waiting == 1, "one more than the bound is still in use"
    slots.give_back()
    await waiter


@given(st.integers(1, 4), st.lists(st.sampled_from(["take", "leave", "give"]), max_size=40))
def test_never_more_are_taken_than_there_are(most: int, acts: list[str]) -> None:
    async def play() -> None:
        slots, tasks = Slots(most), list[asyncio.Task[None]]()
        for act in acts:
            if act == "take":
                tasks.append(asyncio.create_task(slots.take(LONG_S)))
            elif act == "leave" and (waiting := [task for task in tasks if not task.done()]):
                waiting[0].cancel()
                tasks.remove(waiting[0])
            elif act == "give" and (held := [task for task in tasks if task.done()]):
                tasks.remove(held[0])
                slots.give_back()
            for _ in range(3):
                await asyncio.sleep(0)
            assert slots.taken == sum(task.done() for task in tasks) <= most
            assert slots.waiting == sum(not task.done() for task in tasks)
            assert slots.waiting == 0 or slots.taken == most
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(play())
