"""How commands are ended: by time-out, by cancellation, by a stop; whatever they did to get away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio

from app.errors import SandboxError
from app.sandbox.base import SandboxFactory, Stream
from app.sandbox.docker import command as docker_command
from tests.unit.sandbox.conftest import Place, new_place
from tests.unit.sandbox.shell import Shell, new_config, sleepers, unique_seconds, until_gone, until_sleeping

ESCAPES = {
    "child": "sleep {n} & sleep {n}",
    "own session": "setsid sleep {n} & sleep {n}",
    "double fork": "(sleep {n} &) ; (setsid sh -c 'sleep {n} & exit') ; sleep {n}",
    "empty environment": "(env -i setsid sh -c 'sleep {n} & sleep {n}' &) ; sleep {n}",
    "deaf to signals": "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM HUP; sleep {n}' &); sleep {n}",
    "shell gone": "(setsid sleep {n} &) ; exec sleep {n}",
    "output closed": "(setsid sleep {n} >/dev/null 2>&1 </dev/null &) ; exec >/dev/null 2>&1; sleep {n}",
}


@pytest_asyncio.fixture
async def place() -> AsyncIterator[Place]:
    """A new container for each test: what one leaves running, or breaks, must not reach the next."""
    async with new_place() as place:
        yield place


@pytest.fixture(params=list(ESCAPES.values()), ids=list(ESCAPES))
def escape(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A command with processes that detach themselves, and what their sleep is known by."""
    seconds = unique_seconds()
    return str(request.param).format(n=seconds), seconds


async def begin(shell: Shell, command: str, timeout_s: float = 60) -> asyncio.Task[object]:
    """Starts a command and waits until it has said so."""
    begun = asyncio.Event()

    def listen(_: Stream, data: bytes) -> None:
        if b"begun" in data:
            begun.set()

    task: asyncio.Task[object] = asyncio.create_task(
        shell.sandbox.exec(f"echo begun; {command}", timeout_s=timeout_s, on_output=listen)
    )
    await begun.wait()
    return task


async def test_a_timeout_leaves_no_process(shell: Shell, escape: tuple[str, str]) -> None:
    command, seconds = escape
    ran = await shell.run(f"echo partial; {command}", timeout_s=0.7)
    assert sleepers(seconds) == 0
    assert (ran.result.timed_out, ran.code, ran.out) == (True, None, "partial\n")
    assert 700 <= ran.result.duration_ms < 5000


async def test_cancelling_many_commands_spares_earlier_background_processes(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container, ends that took each other for something to end would in the end take all of it with them."""
    if shell.kind == "bubblewrap":
        pytest.skip("a command's namespace ends with it")
    # On a busy machine it takes longer, which also ends everything.
    monkeypatch.setattr(docker_command, "KILL_TIMEOUT_S", 50.0)
    monkeypatch.setattr(docker_command, "END_S", 55.0)
    left, seconds = unique_seconds(), unique_seconds()
    await shell.run(f"sleep {left} >/dev/null 2>&1 &")
    await until_sleeping(left)
    running = [await begin(shell, f"sleep {seconds}") for _ in range(6)]
    await until_sleeping(seconds, 6)
    for task in running:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*running)
    await asyncio.wait(running)
    assert (sleepers(seconds), sleepers(left)) == (0, 1)
    assert (await shell.run("echo fine")).out == "fine\n"


async def test_a_cancellation_leaves_no_process_within_two_seconds(shell: Shell, escape: tuple[str, str]) -> None:
    command, seconds = escape
    running = await begin(shell, command)
    cancelled_at = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until_gone(seconds)
    assert time.monotonic() - cancelled_at < 2


async def test_an_immediate_cancellation(shell: Shell) -> None:
    """It comes while the command is still being started."""
    seconds = unique_seconds()
    await shell.sandbox.start()
    running = asyncio.create_task(shell.run(f"sleep {seconds}"))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sleepers(seconds) == 0


async def test_a_second_cancellation_does_not_cut_the_first_one_short(shell: Shell) -> None:
    seconds = unique_seconds()
    running = await begin(shell, f"setsid sleep {seconds} & sleep {seconds}")
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sleepers(seconds) == 0


async def test_stopping_ends_running_commands(shell: Shell) -> None:
    seconds = unique_seconds()
    running = await begin(shell, f"setsid sleep {seconds} & sleep {seconds}")
    await shell.sandbox.stop()
    assert sleepers(seconds) == 0
    await asyncio.wait([running], timeout=60)
    assert running.done()
    running.exception()


async def test_what_was_printed_before_the_end_is_kept(shell: Shell) -> None:
    ran = await shell.run("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; sleep 60", timeout_s=1)
    assert ran.out.splitlines()[-1] == "line 499"


async def test_the_next_command_runs_after_a_timeout(shell: Shell) -> None:
    await shell.run("echo kept > file; sleep 60", timeout_s=0.7)
    assert (await shell.run("cat file")).out == "kept\n"


@pytest.mark.parametrize("first", ["doomed", "spared"])
async def test_ending_one_command_spares_another(shell: Shell, first: str) -> None:
    """Both have children in sessions of their own; the one that goes on was started before the other, or after it."""
    seconds = {"doomed": unique_seconds(), "spared": unique_seconds()}
    commands = {
        "doomed": "setsid sleep {n} & sleep {n}",
        "spared": "sh -c 'sleep {n} & wait' & while [ ! -e go ]; do sleep 0.02; done",
    }
    tasks = {}
    for name in (first, ({"doomed", "spared"} - {first}).pop()):
        tasks[name] = await begin(shell, commands[name].format(n=seconds[name]))
        await until_sleeping(seconds[name])
    tasks["doomed"].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks["doomed"]
    assert sleepers(seconds["doomed"]) == 0
    assert sleepers(seconds["spared"]) == 1
    await shell.sandbox.write("go", b"")
    assert getattr(await tasks["spared"], "exit_code", None) == 0


async def test_background_processes_of_an_earlier_command_continue(shell: Shell) -> None:
    """A server started by one command is there for the next, a time-out in between notwithstanding."""
    if shell.kind == "bubblewrap":
        pytest.skip("a command's namespace ends with it")
    seconds = unique_seconds()
    await shell.run(f"sleep {seconds} >/dev/null 2>&1 &")
    await until_sleeping(seconds)
    await shell.run("sleep 60", timeout_s=0.5)
    assert sleepers(seconds) == 1
    await shell.sandbox.stop()
    assert sleepers(seconds) == 0


async def test_no_process_outlives_a_command_in_bubblewrap(shell: Shell) -> None:
    if shell.kind != "bubblewrap":
        pytest.skip("background processes go on in this kind")
    seconds = unique_seconds()
    await shell.run(f"(setsid sleep {seconds} &) ; (env -i setsid sleep {seconds} &)")
    assert sleepers(seconds) == 0


async def test_a_fork_bomb_is_contained(walled: Shell) -> None:
    """It fills its own number of processes, ends in time, and the sandbox can be used afterwards. The shell that waits
    forks but once, since one that may not fork gives up."""
    started = time.monotonic()
    ran = await walled.run("bomb() { bomb | bomb & }; bomb & while :; do :; done", timeout_s=1)
    assert ran.result.timed_out
    assert time.monotonic() - started < 6
    assert (await walled.run("echo alive")).out == "alive\n"


async def test_a_fork_bomb_left_behind_does_not_lock_the_sandbox(walled: Shell) -> None:
    """The command that left it has ended; at the latest the second one after it runs."""
    await walled.run("bomb() { bomb | bomb & }; bomb; exit 0", timeout_s=5)
    with suppress(SandboxError):
        await walled.run("echo alive", timeout_s=2)
    assert (await walled.run("echo alive")).out == "alive\n"


async def test_the_number_of_processes_is_limited(walled: Shell) -> None:
    seconds = unique_seconds()
    command = f"i=0; while [ $i -lt 200 ]; do sleep {seconds} & i=$((i+1)); done; wait"
    running = asyncio.create_task(walled.run(command, timeout_s=1.5))
    most = 0
    while not running.done():
        most = max(most, await asyncio.to_thread(sleepers, seconds))
    assert 30 <= max(most, sleepers(seconds)) <= 64
    await walled.sandbox.stop()
    assert sleepers(seconds) == 0


async def test_orphaned_sessions_are_removed_and_live_ones_kept(factory: SandboxFactory) -> None:
    live, gone = new_config(), new_config()
    for config in (live, gone):
        await factory.open(config).write("file", b"x")
    removed = await factory.remove_orphans({live.session_id})
    assert removed
    assert all(gone.session_id in name for name in removed)
    assert await factory.open(live).read("file") == b"x"
    assert [info.path for info in await factory.open(gone).list()] == []
    assert await factory.remove_orphans({live.session_id, gone.session_id}) == []
