"""Threads for files: never more calls at once than there may be, and each session has its turn."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.sandbox.host.threads import Lane

TIMEOUT_S = 20


class Calls:
    """Calls that note how they begin, and last until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.most: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._end = threading.Event()

    def hold(self, session_id: str) -> str:
        with self._changed:
            self.begun.append(session_id)
            self._running[session_id] += 1
            self.most[session_id] = max(self.most[session_id], self._running[session_id])
            self._changed.notify_all()
        assert self._end.wait(TIMEOUT_S)
        with self._changed:
            self._running[session_id] -= 1
        return session_id

    def await_begun(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, TIMEOUT_S)

    def let_go(self) -> None:
        self._end.set()


@contextmanager
def held_calls() -> Iterator[Calls]:
    calls = Calls()
    try:
        yield calls
    finally:
        calls.let_go()


def start(lane: Lane, calls: Calls, session_id: str) -> asyncio.Task[str]:
    return asyncio.create_task(lane.run(session_id, lambda: calls.hold(session_id)))


async def test_a_session_with_many_calls_does_not_starve_others() -> None:
    lane = Lane("test", workers=3, per_session=2)
    with held_calls() as calls:
        many = [start(lane, calls, "greedy") for _ in range(40)]
        async with asyncio.timeout(TIMEOUT_S):
            assert await lane.run("modest", lambda: "answered") == "answered"
        await asyncio.to_thread(calls.await_begun, 2)
        calls.let_go()
        await asyncio.gather(*many)
    assert calls.most == {"greedy": 2}


async def test_sessions_take_turns() -> None:
    lane = Lane("test", workers=1, per_session=1)
    with held_calls() as calls:
        tasks = [start(lane, calls, name) for name in ("a", "a", "a", "b", "b", "c")]
        await asyncio.sleep(0)
        calls.let_go()
        await asyncio.gather(*tasks)
    assert calls.begun == ["a", "a", "b", "c", "a", "b"], "the first call met no line, so the second one heads it"


async def test_a_call_keeps_its_thread_when_its_caller_is_cancelled() -> None:
    """A client that leaves and comes back gets no second thread for it."""
    lane = Lane("test", workers=2, per_session=1)
    with held_calls() as calls:
        for _ in range(5):
            task = start(lane, calls, "a")
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        last = start(lane, calls, "a")
        assert await lane.run("b", lambda: "answered") == "answered"
        assert calls.begun == ["a"]
        calls.let_go()
        assert await last == "a"
    assert calls.begun == ["a", "a"]


async def test_a_turn_that_comes_when_its_caller_leaves_goes_to_the_next() -> None:
    lane = Lane("test", workers=1, per_session=1)
    with held_calls() as calls:
        calls.let_go()
        first, leaves, stays = (start(lane, calls, "a") for _ in range(3))
        first.add_done_callback(lambda _: leaves.cancel())
        async with asyncio.timeout(TIMEOUT_S):
            await stays
    assert len(calls.begun) in (2, 3)


async def test_an_error_is_the_callers_and_frees_the_thread() -> None:
    lane = Lane("test", workers=1, per_session=1)

    def fails() -> None:
        raise OSError("no such luck")

    for _ in range(3):
        with pytest.raises(OSError, match="no such luck"):
            await lane.run("a", fails)
    assert await lane.run("a", lambda: 1) == 1
