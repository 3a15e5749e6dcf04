"""The memory budget of downloads: a total limit, and no session gets all of it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest

from app.api.download_budget import MOST_WAITING, DownloadBudget
from app.errors import ServerBusyError

LONG_S, AT_ONCE_S = 20.0, 0.0


async def held(budget: DownloadBudget, stack: AsyncExitStack, session_id: str, size: int) -> int:
    """Takes shares of `size` until none is free; returns their number."""
    count = 0
    with suppress(ServerBusyError):
        while count < 1_000:
            await stack.enter_async_context(budget.share(session_id, size))
            count += 1
    return count


async def test_each_session_gets_half_of_what_the_others_leave() -> None:
    budget = DownloadBudget(most=64, wait_s=AT_ONCE_S)
    async with AsyncExitStack() as stack:
        assert [await held(budget, stack, name, 1) for name in "abcdefgh"] == [32, 16, 8, 4, 2, 1, 0, 0]
        assert budget.held == 63
    assert budget.held == 0
    async with AsyncExitStack() as stack:
        assert await held(budget, stack, "a", 1) == 32


async def test_a_shrunk_share_frees_memory() -> None:
    budget = DownloadBudget(most=20, wait_s=LONG_S)
    async with budget.share("a", 10) as first:
        second = asyncio.create_task(held_for_a_moment(budget, "a", 4))
        await asyncio.sleep(0)
        assert not second.done()
        first.shrink(6)
        async with asyncio.timeout(LONG_S):
            await second
        first.shrink(8)
        assert (first.size, budget.held) == (6, 6)
    assert budget.held == 0


async def held_for_a_moment(budget: DownloadBudget, session_id: str, size: int) -> None:
    async with budget.share(session_id, size):
        pass


async def test_waiters_are_served_in_order_and_the_session_that_holds_least_first() -> None:
    budget = DownloadBudget(most=16, wait_s=LONG_S)
    served: list[str] = []

    async def download(name: str) -> None:
        async with budget.share(name[0], 4):
            served.append(name)

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        await stack.enter_async_context(budget.share("b", 2))
        await stack.enter_async_context(budget.share("c", 1))
        async with budget.share("a", 6):
            for name in ("b1", "c1", "b2"):
                tasks.create_task(download(name))
            await asyncio.sleep(0)
            assert served == []
    assert served == ["c1", "b1", "b2"]
    assert budget.held == 0


async def test_a_client_that_leaves_blocks_nobody() -> None:
    """At any moment: while it waits, or just when its share is granted."""
    budget = DownloadBudget(most=8, wait_s=LONG_S)
    for turns in range(3):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(budget.share("a", 4))
            leaves, stays = (asyncio.create_task(held_for_a_moment(budget, "a", 4)) for _ in range(2))
            await asyncio.sleep(0)
            if turns == 0:
                leaves.cancel()
            await stack.aclose()
            if turns == 1:
                leaves.cancel()
            async with asyncio.timeout(LONG_S):
                await stays
            if turns == 2:
                leaves.cancel()
        assert budget.held == 0


async def test_timed_out_waiters_leave_no_trace() -> None:
    """They time out in the same moment in which memory is freed."""
    budget = DownloadBudget(most=8, wait_s=AT_ONCE_S)
    for _ in range(20):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(budget.share("a", 4))
            late = [asyncio.create_task(held_for_a_moment(budget, "a", 4)) for _ in range(3)]
            await asyncio.sleep(0)
        for outcome in await asyncio.gather(*late, return_exceptions=True):
            assert outcome is None or isinstance(outcome, ServerBusyError), outcome
        assert budget.held == 0
    await held_for_a_moment(budget, "a", 4)


async def test_a_share_that_can_never_fit_is_refused() -> None:
    budget = DownloadBudget(most=8, wait_s=AT_ONCE_S)
    with pytest.raises(ServerBusyError) as refused:
        await held_for_a_moment(budget, "a", 5)
    assert refused.value.code == "too_many_downloads"
    assert budget.held == 0


async def test_requests_beyond_the_waiting_limit_are_refused_at_once() -> None:
    budget = DownloadBudget(most=8, wait_s=LONG_S)
    async with asyncio.TaskGroup() as tasks, budget.share("a", 4):
        for _ in range(MOST_WAITING):
            tasks.create_task(held_for_a_moment(budget, "a", 4))
        await asyncio.sleep(0)
        with pytest.raises(ServerBusyError):
            await held_for_a_moment(budget, "a", 4)
        async with asyncio.timeout(LONG_S):
            await held_for_a_moment(budget, "b", 1)
    assert budget.held == 0
