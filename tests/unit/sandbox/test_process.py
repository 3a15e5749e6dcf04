"""Child processes and clean-ups that a cancellation does not cut short."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from app.sandbox.base import Stream
from app.sandbox.host.process import Commands, OutputPipe, Process, Spawn, finish, until


def ignore(_: Stream, data: bytes) -> None:
    assert data


async def test_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await Process.start(Spawn(["/no/such/program"]), ignore)


async def test_the_environment_is_what_was_given() -> None:
    lines: list[bytes] = []
    process = await Process.start(Spawn(["/usr/bin/env"], env={"A": "1"}), lambda _, data: lines.append(data))
    assert await process.exited == 0
    await process.drain()
    assert b"".join(lines) == b"A=1\n"


class Probed(io.FileIO):
    """A pipe's end that says whether its descriptor was still its own when it was closed."""

    was_open: bool | None = None

    def close(self) -> None:
        if not self.closed:
            try:
                os.fstat(self.fileno())
                self.was_open = True
            except OSError:
                self.was_open = False
        super().close()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_pipe_is_closed_once(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """uvloop's own reading of pipes closes a descriptor twice, and with it what was opened in between."""
    got: list[bytes] = []

    async def read_and_close() -> bool | None:
        reading, writing = os.pipe()
        probed = Probed(reading)
        pipe = OutputPipe("stdout", probed, lambda _, data: got.append(data), asyncio.get_running_loop())
        os.write(writing, b"out")
        os.close(writing)
        await pipe.closed
        taken = os.open("/dev/null", os.O_RDONLY)
        assert taken == reading, "the number is free again, and goes to who asks next"
        pipe.close()
        for _ in range(3):
            await asyncio.sleep(0)
        os.close(taken)  # would fail where it had been closed under us
        return probed.was_open

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(read_and_close())
    assert b"".join(got) == b"out"


async def test_killing_an_ended_process_does_nothing() -> None:
    process = await Process.start(Spawn(["/bin/sh", "-c", "exit 4"]), ignore)
    assert await process.exited == 4
    process.kill()
    await process.drain()


async def test_finish_awaits_the_end_through_cancellations() -> None:
    started, release, done = asyncio.Event(), asyncio.Event(), []

    async def work() -> None:
        started.set()
        await release.wait()
        done.append(True)

    caller = asyncio.create_task(finish(work()))
    await started.wait()
    for _ in range(3):
        caller.cancel()
        await asyncio.sleep(0)
    assert not caller.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done == [True]


async def test_finish_gives_the_result_or_the_error() -> None:
    async def value() -> int:
        return 3

    async def error() -> int:
        raise ZeroDivisionError

    assert await finish(value()) == 3
    with pytest.raises(ZeroDivisionError):
        await finish(error())


async def test_finish_prefers_the_cancellation_to_the_error() -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def error() -> None:
        started.set()
        await release.wait()
        raise ZeroDivisionError

    caller = asyncio.create_task(finish(error()))
    await started.wait()
    caller.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_commands_are_ended_and_awaited() -> None:
    commands, cleaned = Commands(), []

    async def work(ending: asyncio.Event) -> str:
        await ending.wait()
        await asyncio.sleep(0)
        cleaned.append(True)
        return "ended"

    tasks = [asyncio.create_task(commands.run(work)) for _ in range(3)]
    await asyncio.sleep(0)
    await commands.end_all()
    assert cleaned == [True] * 3
    assert await asyncio.gather(*tasks) == ["ended"] * 3
    await commands.end_all()


async def test_until_says_whether_the_time_ran_out() -> None:
    loop = asyncio.get_running_loop()
    done, never = loop.create_future(), loop.create_future()
    done.set_result(None)
    ending = asyncio.Event()
    assert not await until(ending, never, done, timeout_s=10)
    assert await until(ending, never, timeout_s=0.01)
    ending.set()
    assert not await until(ending, never, timeout_s=10)
    assert not never.done()
