"""`local-unsafe`: commands run as the server's own user, without isolation. For machines that are sandboxes themselves.

The environment is scrubbed, and on timeout, cancellation and stop a command ends with all its descendants, including
detached ones, since a reaper keeps them in one tree. But a command can read and change whatever the server can, reach
the network, and kill the reaper itself. Background processes of a command that ended by itself continue; stopping the
sandbox ends those that kept their environment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from app.errors import SandboxUnavailableError
from app.sandbox import egress
from app.sandbox.base import ExecRequest, ExecResult, LiveInput, OnOutput, Present, SandboxConfig
from app.sandbox.host import process, reaper
from app.sandbox.host.base import HostSandbox, HostWorkspaces
from app.sandbox.host.process import Process, Spawn
from app.sandbox.host.workspace import Workspace

MARK = "PALIMPSEST_SESSION"
"""Environment variable by which a session's processes are found; its value is the workspace's directory."""
_ROUNDS = 200
"""Maximum searches for processes that were started while others were being killed."""


class LocalSandbox(HostSandbox):
    """One session's workspace, with commands that run in it as the server's user."""

    kind = "local-unsafe"

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        on_output: OnOutput,
        stdin: LiveInput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        request: asyncio.Future[ExecRequest] = asyncio.get_running_loop().create_future()
        request.set_result(ExecRequest(process.check_command(command), timeout_s, on_output, stdin))
        await self.start()
        root = str(self._workspace.root)
        shell = shutil.which("bash") or "/bin/sh"
        argv: list[str | bytes] = [sys.executable, "-I", "-S", reaper.__file__, shell, "-c", request.result().command]
        spawn = Spawn(argv, env={**(env or {}), **environment(root)}, cwd=root)

        async def work(ending: asyncio.Event) -> ExecResult:
            if stdin is None:
                return await process.run(spawn, _Tree(), request=request, ending=ending)
            theirs, ours = os.pipe()
            try:
                async with process.fed(ours, stdin):
                    given = replace(spawn, stdin=theirs)
                    return await process.run(given, _Tree(), request=request, ending=ending)
            finally:
                os.close(theirs)
                os.close(ours)

        return await self._commands.run(work)

    def _end_left(self) -> None:
        kill_marked(str(self._workspace.root))

    async def stop(self) -> None:
        await super().stop()
        await asyncio.to_thread(kill_marked, str(self._workspace.root))


def environment(workspace: str) -> dict[str, str]:
    """A command's whole environment; only the search path comes from the server."""
    path = os.environ.get("PATH", os.defpath)
    return {"HOME": workspace, "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", MARK: workspace}


class _Tree:
    """Ends the reaper's descendants. One that ended by itself leaves its background processes alone."""

    async def started(self, process: Process) -> None:
        """Does nothing."""

    async def go(self, request: ExecRequest) -> None:
        """Does nothing: the command is among its arguments."""

    async def ended(self, process: Process) -> None:
        if process.exited.done():
            return
        await asyncio.to_thread(kill_descendants, process.pid)
        process.kill()
        await process.exited


def kill_descendants(root: int) -> None:
    """Kills all descendants of a process, but not the process itself."""
    _kill_all(lambda: descendants(root, _parents()))


def kill_marked(workspace: str) -> None:
    """Kills the processes that carry the mark of a session's workspace in their environment."""
    mark = f"{MARK}={workspace}".encode()
    _kill_all(lambda: {pid for pid in _pids() if mark in _environment(pid)})


def _kill_all(find: Callable[[], set[int]]) -> None:
    # all are stopped before any is killed: a stopped process cannot fork, so the search terminates
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        new = find() - stopped
        if not new:
            break
        stopped |= new
        _signal(new, signal.SIGSTOP)
    for _ in range(_ROUNDS):
        alive = find()
        if not alive:
            return
        _signal(alive, signal.SIGKILL)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def descendants(root: int, parents: dict[int, int]) -> set[int]:
    """The processes below `root`, given each process's parent."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = [root]
    while pending:
        below = [pid for pid in children.get(pending.pop(), []) if pid not in found]
        found.update(below)
        pending.extend(below)
    return found


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _parents() -> dict[int, int]:
    """The parent of each process that is not dead yet."""
    found: dict[int, int] = {}
    for pid in _pids():
        with suppress(OSError):
            # the name, in parentheses, may contain anything; the fields after the last parenthesis may not
            state, parent = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                found[pid] = int(parent)
    return found


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


class LocalFactory:
    """Workspaces in `data_dir`, commands without isolation."""

    kind = "local-unsafe"
    network_default = True
    network_can_be_limited = False
    refused_connections = 0

    def __init__(self, data_dir: Path) -> None:
        self._directories = HostWorkspaces(data_dir)

    def describe(self) -> str:
        return "no sandbox: commands run as the server's own user (local-unsafe)"

    async def check(self) -> None:
        if not await asyncio.to_thread(os.path.isdir, "/proc/self"):
            raise SandboxUnavailableError("`local-unsafe` needs Linux with /proc mounted.")

    def open(self, config: SandboxConfig) -> LocalSandbox:
        if config.allowed_hosts:
            raise egress.unavailable("commands of local-unsafe have the network of this machine")
        workspace = Workspace(self._directories.workspace(config.session_id))
        commands = self._directories.commands(config.session_id)
        return LocalSandbox(config, workspace, commands, self._directories.threads)

    async def remove_orphans(self, live_sessions: set[str], at_work: Collection[str] = ()) -> list[str]:
        return await asyncio.to_thread(self._remove_orphans, live_sessions)

    def _remove_orphans(self, live_sessions: set[str]) -> list[str]:
        for workspace in self._directories.workspaces():
            kill_marked(str(workspace))
        return self._directories.remove_orphans(live_sessions)

    async def machine(self) -> None:
        """None: the workspaces are in the data directory."""

    async def present(self) -> list[Present]:
        return await self._directories.present()

    async def running(self) -> set[str]:
        """Always empty: no process outlives the server."""
        return set()

    async def aclose(self) -> None:
        """Does nothing: no resource is held open."""
