"""Processes that are started ahead of their command: used once, by the command that they fit, and never left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from app.sandbox.base import ExecRequest, ExecResult
from app.sandbox.docker.container import container_name
from app.sandbox.docker.engine import Engine
from app.sandbox.host.process import Commands, until
from app.sandbox.ready import ProcessLostError, ReadyCommands, Room
from tests.unit.sandbox.conftest import Place, new_place
from tests.unit.sandbox.shell import Shell, sleepers, unique_seconds, until_sleeping

AT_REST = 3
"""Processes of a container without commands: docker-init, a shell and its `sleep`."""


class Work:
    """Starts nothing, and notes what it would have."""

    def __init__(self) -> None:
        self.started: list[Mapping[str, str]] = []
        self.ran: list[int] = []
        self.ended: list[int] = []
        self.lost: set[int] = set()

    async def run(
        self, request: asyncio.Future[ExecRequest], env: Mapping[str, str], ending: asyncio.Event
    ) -> ExecResult:
        number = len(self.started)
        self.started.append(env)
        await until(ending, request)
        if number in self.lost:
            raise ProcessLostError("killed")
        (self.ran if request.done() else self.ended).append(number)
        return ExecResult(0, False, 0)


@pytest.fixture
def work() -> Work:
    return Work()


REQUEST = ExecRequest(b"true", 1, lambda _, __: None)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_each_process_runs_one_command(work: Work) -> None:
    ready = ReadyCommands(Commands(), Room())
    ready.keep({}, work.run)
    for _ in range(3):
        await ready.run(REQUEST, {}, work.run)
    await settled()
    assert (len(work.started), work.ran) == (4, [0, 1, 2])
    ready.rest()
    await settled()
    assert work.ended == [3]
    await ready.run(REQUEST, {}, work.run)
    await settled()
    assert len(work.started) == 5, "none is started ahead after `rest`"


async def test_only_the_command_that_it_fits_gets_a_process(work: Work) -> None:
    place = [1]
    ready = ReadyCommands(Commands(), Room(), lambda: place[0])
    ready.keep({}, work.run)
    await settled()
    await ready.run(REQUEST, {"TOKEN": "changed"}, work.run)
    await settled()
    assert (work.ended, work.ran) == ([0], [1])
    place[0] = 2  # the workspace was replaced
    await ready.run(REQUEST, {"TOKEN": "changed"}, work.run)
    await settled()
    assert (work.ended, work.ran) == ([0, 2], [1, 3])
    assert [bool(env) for env in work.started] == [False, True, True, True, True]


async def test_a_command_whose_process_was_killed_starts_its_own(work: Work) -> None:
    work.lost = {0}
    ready = ReadyCommands(Commands(), Room())
    ready.keep({}, work.run)
    await settled()
    assert (await ready.run(REQUEST, {}, work.run)).exit_code == 0
    assert work.ran == [1]
    work.lost = {3}
    ready.rest()
    with pytest.raises(ProcessLostError):
        await ready.run(REQUEST, {}, work.run)


async def test_the_processes_of_all_sessions_are_bounded(work: Work) -> None:
    room = Room(most=2)
    sandboxes = [ReadyCommands(Commands(), room) for _ in range(3)]
    for ready in sandboxes:
        ready.keep({}, work.run)
    await settled()
    assert (len(work.started), room.taken) == (2, 2)
    await sandboxes[2].run(REQUEST, {}, work.run)
    sandboxes[0].rest()
    await settled()
    assert room.taken == 1
    await sandboxes[2].run(REQUEST, {}, work.run)
    assert room.taken == 2
    for ready in sandboxes:
        ready.rest()
    assert room.taken == 0


async def test_a_process_that_cannot_start_ahead_is_no_error(work: Work) -> None:
    async def fail(*_: object) -> ExecResult:
        raise OSError("no process left")

    room = Room()
    ready = ReadyCommands(Commands(), room)
    ready.keep({}, fail)
    await settled()
    assert room.taken == 0
    await ready.run(REQUEST, {}, work.run)
    assert work.ran == [0]


@pytest_asyncio.fixture
async def place() -> AsyncIterator[Place]:
    async with new_place() as place:
        yield place


async def processes(shell: Shell, place: Place) -> list[int]:
    """The processes of the sandbox, without those that a container has at rest; youngest last."""
    if shell.kind == "docker":
        engine = Engine()
        found = await engine.processes(container_name(place.config.session_id))
        await engine.aclose()
        return [process.pid for process in found][AT_REST:]
    return sorted(_named(place.config.session_id.encode()))


def _named(session: bytes) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if session in (path / "cmdline").read_bytes():
                yield int(path.name)


async def until_waiting(shell: Shell, place: Place) -> list[int]:
    """The processes of the one that waits for the next command."""
    async with asyncio.timeout(60):
        while not (found := await processes(shell, place)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # nothing tells of a start
    return found


async def until_none(shell: Shell, place: Place) -> None:
    """Waits until none waits and none is about to end."""
    async with asyncio.timeout(60):
        while await processes(shell, place):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # nor of an end


async def test_a_process_waits_until_the_sandbox_rests(walled: Shell, place: Place) -> None:
    await until_waiting(walled, place)
    assert (await walled.run("echo one; exit 3")).code == 3
    await until_waiting(walled, place)
    walled.sandbox.rest()
    await until_none(walled, place)
    assert (await walled.run("echo two")).out == "two\n"
    await until_none(walled, place)


async def test_a_process_that_was_killed_while_it_waited_is_replaced(walled: Shell, place: Place) -> None:
    found = await until_waiting(walled, place)
    os.kill(found[-1], signal.SIGKILL)
    assert (await walled.run("echo alive")).out == "alive\n"


async def test_the_time_of_a_command_begins_with_it(walled: Shell, place: Place) -> None:
    await until_waiting(walled, place)
    await asyncio.sleep(1)  # the process gets older than its command may
    ran = await walled.run("sleep 0.1; echo done", timeout_s=1)
    assert (ran.out, ran.result.timed_out) == ("done\n", False)
    assert 100 <= ran.result.duration_ms < 1_000


async def test_a_long_command_of_many_lines_arrives_whole(walled: Shell, place: Place) -> None:
    """More than a pipe holds."""
    await until_waiting(walled, place)
    text = "".join(f"{number} 'a' \"b\" $c \\d é\t\n" for number in range(4_000))
    ran = await walled.run(f"cat <<'END'\n{text}END")
    assert ran.out == text


async def test_an_end_of_the_sandbox_ends_what_waits(walled: Shell, place: Place) -> None:
    await until_waiting(walled, place)
    seconds = unique_seconds()
    running = asyncio.create_task(walled.run(f"sleep {seconds}"))
    await until_sleeping(seconds)
    await walled.sandbox.stop()
    await asyncio.wait({running})
    running.cancelled() or running.exception()
    assert sleepers(seconds) == 0
    if walled.kind == "bubblewrap":
        assert await processes(walled, place) == []
