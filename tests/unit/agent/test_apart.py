"""Work off the event loop: where it runs, and the results of a cancel and of an error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from app.agent.conversation import LONG, run_off_loop

FEW, MANY = range(LONG - 1), range(LONG)


async def test_only_long_work_runs_in_a_thread() -> None:
    here = threading.get_ident()
    assert await run_off_loop(FEW, threading.get_ident) == here
    assert await run_off_loop(MANY, threading.get_ident) != here


@pytest.mark.parametrize("messages", [FEW, MANY])
async def test_an_error_of_the_work_is_raised(messages: range) -> None:
    with capture_logs() as logs, pytest.raises(ValueError, match="no number"):
        await run_off_loop(messages, _fails)
    assert logs == []


def _fails() -> None:
    raise ValueError("no number")


async def cancelled(work: Callable[[], object]) -> asyncio.CancelledError:
    """The error of work that is cancelled, twice, while its thread is running."""
    began, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def held() -> object:
        loop.call_soon_threadsafe(began.set)
        go.wait()
        return work()

    task = asyncio.create_task(run_off_loop(MANY, held))
    await began.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    return caught.value


async def test_a_cancel_replaces_the_result() -> None:
    with capture_logs() as logs:
        assert (await cancelled(lambda: 1)).__cause__ is None
    assert logs == []


async def test_an_error_after_a_cancel_is_not_lost() -> None:
    with capture_logs() as logs:
        cause = (await cancelled(_fails)).__cause__
    assert isinstance(cause, ValueError)
    [line] = logs
    assert (line["event"], line["log_level"], line["exc_info"]) == ("work_failed_after_cancel", "error", cause)
