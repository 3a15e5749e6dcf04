"""Commands of bubblewrap that have lost their server: they do not begin, and the next start ends them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.sandbox.base import WORKSPACE, ExecRequest, SandboxLimits
from app.sandbox.host.bubblewrap import BubblewrapFactory, find_bwrap
from app.sandbox.host.etc import Etc
from app.sandbox.host.namespace import View, order
from tests.unit.sandbox.shell import sleepers, unique_seconds, until_gone, until_sleeping

pytestmark = [pytest.mark.bubblewrap, pytest.mark.usefixtures("bubblewrap")]


@contextmanager
def left_behind(data_dir: Path, seconds: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of a server that has gone without it, in a session of this data directory."""
    workspace = data_dir / "workspaces" / "session"
    workspace.mkdir(parents=True)
    binds = ("--ro-bind", "/", "/", "--proc", "/proc", "--bind", str(workspace), "/mnt")
    command = [str(find_bwrap()), "--unshare-pid", "--die-with-parent", *binds, "--", "sleep", seconds]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_a_start_ends_commands_left_by_an_earlier_server(tmp_path: Path) -> None:
    mine, others = unique_seconds(), unique_seconds()
    with left_behind(tmp_path / "mine", mine) as left, left_behind(tmp_path / "others", others) as other:
        await until_sleeping(mine)
        await until_sleeping(others)
        removed = await BubblewrapFactory(tmp_path / "mine").remove_orphans({"session"})
        left.wait(10)
        assert removed == ["2 processes of commands"]
        await until_gone(mine)
        assert (sleepers(others), other.poll()) == (1, None)
        assert (tmp_path / "mine" / "workspaces" / "session").is_dir()


@pytest.mark.parametrize("line", [order("1", ExecRequest(b"cat; echo begun", 1, lambda _, __: None)), b""])
def test_a_command_starts_only_on_a_signal_from_its_server(tmp_path: Path, line: bytes) -> None:
    view = View(tmp_path, tmp_path, Etc(tmp_path, network=False), network=False, limits=SandboxLimits(), uid=None)
    _, *argv = view.command()
    script = next(place for place, argument in enumerate(argv) if argument == "-c") + 1
    argv[script] = argv[script].replace(f"cd {WORKSPACE}", f"cd {tmp_path}")
    ended = subprocess.run(argv, input=line, capture_output=True, check=False, timeout=20)
    assert (ended.returncode, ended.stdout) == ((0, b"begun\n") if line else (1, b"")), ended.stderr
