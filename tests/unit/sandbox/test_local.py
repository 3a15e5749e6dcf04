"""What is `local-unsafe`'s own: the tree of a command's processes, and the search for what is left of a session."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sandbox.host import reaper
from app.sandbox.host.local import LocalFactory, descendants, environment
from tests.unit.sandbox.shell import Shell, new_config, sleepers, unique_seconds, until_sleeping


@given(st.dictionaries(st.integers(1, 30), st.integers(0, 30), max_size=30), st.integers(0, 30))
def test_descendants_are_all_that_lead_to_the_root(parents: dict[int, int], root: int) -> None:
    def leads(pid: int) -> bool:
        seen: set[int] = set()
        while pid in parents and pid not in seen:
            seen.add(pid)
            pid = parents[pid]
            if pid == root:
                return True
        return False

    assert descendants(root, parents) == {pid for pid in parents if leads(pid)}


def test_the_environment_is_the_search_path_and_little_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/somewhere/bin")
    assert environment("/w") == {
        "HOME": "/w",
        "PATH": "/somewhere/bin",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PALIMPSEST_SESSION": "/w",
    }


async def test_what_a_killed_server_left_is_ended_at_start(data_dir: Path) -> None:
    seconds, config = unique_seconds(), new_config()
    factory = LocalFactory(data_dir)
    await Shell(factory.open(config)).run(f"setsid sleep {seconds} >/dev/null 2>&1 &")
    await until_sleeping(seconds)
    assert await LocalFactory(data_dir).remove_orphans({config.session_id}) == []
    assert sleepers(seconds) == 0
    assert await LocalFactory(data_dir).remove_orphans(set()) == [f"workspace {config.session_id}"]


async def test_stopping_one_session_spares_another(data_dir: Path) -> None:
    factory, seconds = LocalFactory(data_dir), unique_seconds()
    one, other = Shell(factory.open(new_config())), Shell(factory.open(new_config()))
    await one.run(f"sleep {seconds} >/dev/null 2>&1 &")
    await until_sleeping(seconds)
    await other.sandbox.stop()
    assert sleepers(seconds) == 1
    await one.sandbox.remove()
    assert sleepers(seconds) == 0


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("(exit 3) & wait; exit 0", 0)])
async def test_the_reaper_passes_the_code_on(script: str, code: int) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", reaper.__file__, "/bin/sh", "-c", script)
    assert await process.wait() == code


async def test_the_reaper_adopts_orphans() -> None:
    """The orphan's parent is the reaper, not the system's first process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", reaper.__file__, "/bin/sh", "-c"),
        "(setsid sh -c 'sleep 0.2; ps -o ppid= -p $$ || cut -d\" \" -f4 /proc/$$/stat' &); sleep 0.6",
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert int(output) == process.pid


async def test_a_command_that_kills_its_reaper_ends(data_dir: Path) -> None:
    shell = Shell(LocalFactory(data_dir).open(new_config()))
    ran = await shell.run("kill -9 $PPID; sleep 5", timeout_s=20)
    assert ran.code == 128 + signal.SIGKILL
    await shell.sandbox.remove()


async def test_it_reports_that_it_is_not_a_sandbox(data_dir: Path) -> None:
    factory = LocalFactory(data_dir)
    await factory.check()
    assert "no sandbox" in factory.describe()
    await factory.aclose()
    assert os.listdir(data_dir) == []
