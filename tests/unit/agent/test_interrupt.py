"""The interrupt: ends the guarded work whenever it is fired, and waits until that has cleaned up."""

from __future__ import annotations

import asyncio

import pytest

from app.agent.interrupt import Interrupt, Stopped, StopReason

REASONS: tuple[StopReason, ...] = ("interrupt", "limit", "cancel", "shutdown")


async def test_uninterrupted_work_gives_its_result_or_error() -> None:
    interrupt = Interrupt()

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    async def fails() -> int:
        raise ValueError("own")

    assert await interrupt.guard(work()) == 7
    with pytest.raises(ValueError, match="own"):
        await interrupt.guard(fails())


async def test_fired_before_the_work_nothing_starts() -> None:
    interrupt = Interrupt()
    interrupt.fire("interrupt")
    started: list[int] = []

    async def work() -> None:
        started.append(1)

    with pytest.raises(Stopped):
        await interrupt.guard(work())
    assert started == []


async def test_fired_during_the_work_cleanup_is_awaited() -> None:
    interrupt = Interrupt()
    begun, clean = asyncio.Event(), asyncio.Event()
    cleaned: list[str] = []

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await clean.wait()
            cleaned.append("clean")

    guarded = asyncio.create_task(interrupt.guard(work()))
    await begun.wait()
    interrupt.fire("interrupt")
    interrupt.fire("cancel")
    await asyncio.sleep(0)
    assert not guarded.done(), "a second reason does not cut the cleanup short"
    clean.set()
    with pytest.raises(Stopped):
        await guarded
    assert cleaned == ["clean"]
    assert interrupt.reason == "cancel"


async def test_fired_after_the_work_the_result_stays_and_the_next_is_stopped() -> None:
    interrupt = Interrupt()

    async def work() -> str:
        return "done"

    assert await interrupt.guard(work()) == "done"
    interrupt.fire("cancel")
    with pytest.raises(Stopped):
        await interrupt.guard(work())


async def test_work_that_finishes_while_being_ended_keeps_its_result() -> None:
    interrupt = Interrupt()

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished anyway"
        return ""

    guarded = asyncio.create_task(interrupt.guard(stubborn()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    interrupt.fire("interrupt")
    assert await guarded == "finished anyway"


async def test_a_stronger_reason_during_the_cleanup_is_not_what_ended_the_work() -> None:
    interrupt, ended = Interrupt(), asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await ended.wait()

    guarded = asyncio.create_task(interrupt.guard(slow()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    interrupt.fire("interrupt")
    interrupt.fire("shutdown")
    ended.set()
    with pytest.raises(Stopped):
        await guarded
    assert (interrupt.stopped_by, interrupt.reason) == ("interrupt", "shutdown")
    with pytest.raises(Stopped):
        await interrupt.guard(slow())
    assert interrupt.stopped_by == "shutdown"


async def test_when_the_guard_is_cancelled_the_work_ends_first() -> None:
    interrupt = Interrupt()
    begun = asyncio.Event()
    cleaned: list[str] = []

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("clean")

    guarded = asyncio.create_task(interrupt.guard(work()))
    await begun.wait()
    guarded.cancel()
    with pytest.raises(asyncio.CancelledError):
        await guarded
    assert cleaned == ["clean"]
    interrupt.fire("cancel")


@pytest.mark.parametrize("first", REASONS)
@pytest.mark.parametrize("second", REASONS)
def test_the_stronger_reason_stays(first: StopReason, second: StopReason) -> None:
    interrupt = Interrupt()
    assert not interrupt.ends_run
    interrupt.fire(first)
    interrupt.fire(second)
    strongest = max(REASONS.index(first), REASONS.index(second))
    assert interrupt.reason == REASONS[strongest]
    assert interrupt.ends_run == (strongest > 0)


@pytest.mark.parametrize("reason", REASONS)
def test_which_reasons_are_forgotten(reason: StopReason) -> None:
    interrupt = Interrupt()
    interrupt.fire(reason)
    interrupt.clear()
    assert interrupt.reason == (None if reason == "interrupt" else reason), "delivering a message forgets its own"
    interrupt.begin_run()
    assert interrupt.reason == ("shutdown" if reason == "shutdown" else None)
