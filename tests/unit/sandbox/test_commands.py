"""What a command is given and what comes back, in every kind of sandbox."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import InvalidRequestError
from app.sandbox.base import LiveInput, SandboxFactory, Stream
from tests.unit.sandbox.shell import Shell, new_config, sleepers, unique_seconds


async def test_output_streams_are_kept_apart(shell: Shell) -> None:
    ran = await shell.run("echo out; echo err >&2")
    assert (ran.out, ran.err, ran.code) == ("out\n", "err\n", 0)
    assert not ran.result.timed_out


async def test_output_arrives_as_it_is_printed(shell: Shell) -> None:
    """The command waits for a file that is only written when its first line has arrived."""
    arrived: list[bytes] = []
    first = asyncio.Event()

    def listen(_: Stream, data: bytes) -> None:
        arrived.append(data)
        first.set()

    command = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo second"
    running = asyncio.create_task(shell.sandbox.exec(command, timeout_s=30, on_output=listen))
    await first.wait()
    assert b"".join(arrived) == b"first\n"
    await shell.sandbox.write("go", b"")
    assert (await running).exit_code == 0
    assert b"".join(arrived) == b"first\nsecond\n"


async def test_output_keeps_its_order_and_bytes(shell: Shell) -> None:
    ran = await shell.run("i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done; printf '\\377\\000\\001'")
    expected = "".join(f"{number}\n" for number in range(3000)).encode() + b"\xff\x00\x01"
    assert b"".join(data for _, data in ran.pieces) == expected


async def test_a_flood_arrives_whole(shell: Shell) -> None:
    ran = await shell.run("head -c 8000000 /dev/zero | tr '\\000' x; echo end >&2")
    assert len(ran.out) == 8_000_000
    assert ran.err == "end\n"


@pytest.mark.parametrize("code", [0, 1, 42, 255])
async def test_exit_codes(shell: Shell, code: int) -> None:
    assert (await shell.run(f"exit {code}")).code == code


@pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15), ("SEGV", 11)])
async def test_a_signal_is_reported_as_by_a_shell(shell: Shell, name: str, number: int) -> None:
    ran = await shell.run(f"kill -{name} $$; sleep 5")
    assert (ran.code, ran.err) == (128 + number, "")


async def test_a_command_that_kills_its_process_group_ends(shell: Shell) -> None:
    ran = await shell.run("echo before; kill -9 0; sleep 5")
    assert ran.out == "before\n"
    assert ran.code == 137


async def test_an_unknown_program(shell: Shell) -> None:
    ran = await shell.run("no-such-program")
    assert ran.code == 127
    assert "no-such-program" in ran.err


async def test_input_can_be_written_while_the_command_runs(shell: Shell) -> None:
    live, heard, said = LiveInput(), asyncio.Event(), bytearray()

    def hear(_: Stream, data: bytes) -> None:
        said.extend(data)
        heard.set()

    command = 'while read -r line; do echo "got $line"; done; echo over'
    running = asyncio.create_task(shell.sandbox.exec(command, timeout_s=30, on_output=hear, stdin=live))
    for word in ("one", "x" * 100_000):
        await live.send(f"{word}\n".encode())
        while not said.endswith(f"got {word}\n".encode()):
            await heard.wait()
            heard.clear()
    await live.end()
    assert (await running).exit_code == 0
    assert said.endswith(b"over\n")


async def test_the_input_is_empty(shell: Shell) -> None:
    assert (await shell.run("wc -c")).out.strip() == "0"


async def test_commands_start_in_the_workspace(shell: Shell) -> None:
    await shell.sandbox.write("here.txt", b"yes")
    assert (await shell.run("cat here.txt")).out == "yes"


async def test_the_workspace_is_named_in_the_walled_kinds(walled: Shell) -> None:
    assert (await walled.run("pwd; cd /; cd ~ && pwd")).out == "/workspace\n/home/agent\n"


async def test_quoting_and_lines_reach_the_shell_unchanged(shell: Shell) -> None:
    ran = await shell.run("cat <<'EOF'\n'a' \"b\" $HOME `c` \\d é 日本\nEOF\nprintf %s \"it's\"")
    assert ran.out == "'a' \"b\" $HOME `c` \\d é 日本\nit's"


async def test_the_environment_holds_nothing_of_the_server(shell: Shell) -> None:
    ran = await shell.run("env; cat /proc/$PPID/environ /proc/1/environ 2>/dev/null")
    names = {line.split("=")[0] for line in ran.out.replace("\0", "\n").splitlines() if "=" in line}
    assert "OPENAI_API_KEY" not in names or shell.kind == "local-unsafe"
    own = {line.split("=")[0] for line in (await shell.run("env")).out.splitlines()}
    assert "OPENAI_API_KEY" not in own
    shells_own = {"PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"}
    assert own <= {"HOME", "PATH", "LANG", "TERM", "USER", "PALIMPSEST_SESSION"} | shells_own


async def test_descriptors_of_the_server_are_closed(shell: Shell) -> None:
    ran = await shell.run("exec 2>&-; ls /proc/self/fd | wc -l")
    assert int(ran.out) <= 4  # 0, 1, the directory that is being listed, and at most one of the shell's


async def test_two_commands_run_in_parallel(shell: Shell) -> None:
    """Each waits for the other's file."""
    first = shell.run("touch one; while [ ! -e two ]; do sleep 0.02; done; echo done")
    second = shell.run("touch two; while [ ! -e one ]; do sleep 0.02; done; echo done")
    assert [ran.out for ran in await asyncio.gather(first, second)] == ["done\n", "done\n"]


async def test_a_background_process_does_not_delay_the_call(shell: Shell) -> None:
    """It keeps stdout open for longer than the time-out is."""
    seconds = unique_seconds()
    ran = await shell.run(f"sleep {seconds} & echo started", timeout_s=60)
    assert (ran.out, ran.code, ran.result.timed_out) == ("started\n", 0, False)
    assert ran.result.duration_ms < 10_000
    await shell.sandbox.stop()
    assert sleepers(seconds) == 0


@pytest.mark.parametrize("command", ["a\0b", "x" * 200_000])
async def test_a_command_no_shell_accepts_is_refused(shell: Shell, command: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await shell.run(command)
    assert refused.value.code == "invalid_command"


async def test_a_reader_that_fails_ends_the_command(shell: Shell) -> None:
    seconds = unique_seconds()

    def fail(_: Stream, data: bytes) -> None:
        raise ZeroDivisionError(data)

    with pytest.raises(ZeroDivisionError):
        await shell.sandbox.exec(f"echo x; sleep {seconds}; echo y", timeout_s=60, on_output=fail)
    assert sleepers(seconds) == 0


async def test_two_handles_share_a_workspace(factory: SandboxFactory) -> None:
    config = new_config()
    one, other = factory.open(config), factory.open(config)
    await one.write("shared", b"1")
    assert (await Shell(other).run("cat shared")).out == "1"
    await one.remove()


async def test_sessions_do_not_see_each_other(factory: SandboxFactory) -> None:
    one, other = factory.open(new_config()), factory.open(new_config())
    await one.write("mine", b"1")
    assert [info.path for info in await other.list()] == []
    await one.remove()
    await other.remove()
