"""The namespaces of bubblewrap's commands: an allowlist of what a command sees of the host, how it starts, and how all
of it is killed as one, also when an earlier server has left it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from array import array
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD

from app.sandbox import egress
from app.sandbox.base import WORKSPACE, ExecRequest, SandboxLimits
from app.sandbox.host.etc import OWN_FILES, Etc
from app.sandbox.host.process import READ_BYTES, Process, feed, write_all
from app.sandbox.host.process_tree import running_below, shell_below

HOME = "/home/agent"
PATH = "/usr/local/bin:/usr/bin:/bin"
USER_ID = 1000
"""The uid in the sandbox if bubblewrap maps it."""
OPEN_FILES = 4096
"""Descriptors of one process: each takes kernel memory, and time when the process ends."""
# The user enters the workspace, since it is closed to a root without capabilities. Limits are set inside, where only
# the namespace's own processes count, not all of the user's. RLIMIT_DATA and not RLIMIT_AS: runtimes such as Go's and
# V8 reserve far more address space than they ever use. Then it waits on standard input for the line of `Handshake.go`.
_ENTER = (
    f'cd {WORKSPACE} && ulimit -c 0 && ulimit -n {OPEN_FILES} && ulimit -d "$1" && '
    '{ ulimit -u "$2" 2>/dev/null || ulimit -p "$2"; } && newline="\n" && read -r blocks input command && '
    'eval "command=$command" && { [ "$input" = live ] || exec </dev/null; } && '
    'ulimit -f "$blocks" && exec "$3" -c "$command"'
)

_SHELL_POLL_S = 0.002
_SHELL_S = 1.0
"""Seconds between looks for the shell of a sandbox that is just being made, which takes some milliseconds, and in
total: after that, what it leaves is not counted."""
_STATUS_TIMEOUT_S = 30.0
"""Only a machine that is out of CPU time comes near it."""


@dataclass(frozen=True, slots=True)
class View:
    """What one command sees. `uid` is None if bubblewrap maps the user."""

    workspace: Path
    scratch: Path
    etc: Etc
    network: bool
    limits: SandboxLimits
    uid: int | None
    proxied: bool = False
    """Whether it reaches some hosts through the egress proxy."""
    hidden: Sequence[Path] = ()
    """Directories below `/usr` that the sandbox must not see."""

    def arguments(self, *, own_network: bool = True) -> list[str]:
        """bubblewrap's arguments up to and without the command. Without its own network, it has the one in which
        bubblewrap is started."""
        tmpfs_bytes = str(self.limits.memory_mb * 1024 * 1024 // 2)
        return [
            *self._namespaces(own_network),
            *("--new-session", "--die-with-parent", "--clearenv", "--hostname", "sandbox"),
            *_system(),
            *(part for path in self.hidden for part in ("--tmpfs", str(path))),
            *self.etc.arguments(),
            *(part for name in OWN_FILES for part in ("--ro-bind", str(self.scratch / name), f"/etc/{name}")),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--perms", "1777", "--size", tmpfs_bytes, "--tmpfs", "/dev/shm"),  # noqa: S108 - inside
            *("--remount-ro", "/dev"),
            *("--perms", "0755", "--dir", "/run"),
            *("--perms", "0700", "--size", "1048576", "--tmpfs", "/root"),
            *("--perms", "0755", "--dir", "/home"),
            *("--bind", str(self.scratch / "home"), HOME),
            *("--bind", str(self.scratch / "tmp"), "/tmp"),  # noqa: S108 - inside
            *("--bind", str(self.workspace), WORKSPACE),
            *("--remount-ro", "/"),
            *(part for name, value in self._environment().items() for part in ("--setenv", name, value)),
        ]

    def _environment(self) -> dict[str, str]:
        return {**environment(), **(egress.environment() if self.proxied else {})}

    def _namespaces(self, own_network: bool) -> list[str]:
        if self.uid is None:
            user = ("--unshare-user", "--disable-userns", "--uid", str(USER_ID), "--gid", str(USER_ID))
            net = ("--share-net",) if self.network else ()
            return ["--unshare-all", *net, *user, "--cap-drop", "ALL"]
        spaces = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
        spaces += ["--unshare-net"] if own_network and not self.network else []
        # what setpriv needs to give up everything, these included
        kept = [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
        return [*spaces, "--cap-drop", "ALL", *kept]

    def command(self) -> list[str]:
        """What drops privileges, sets the limits, and waits on standard input for the command."""
        ids = () if self.uid is None else ("--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups")
        drop = ("setpriv", *ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--") if ids else ()
        limits = (str(self.limits.memory_mb * 1024), str(self.limits.pids))
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        return ["--", *drop, "/bin/sh", "-c", _ENTER, "sh", *limits, shell]


def file_blocks(limits: SandboxLimits, full: bool) -> str:
    """The size of the largest file a command may write, in blocks of 512 bytes, as a shell's `ulimit -f` takes it."""
    return "0" if full else str(limits.disk_mb * 2048)


def order(blocks: str, request: ExecRequest) -> bytes:
    """The line that a waiting shell reads: the result of `file_blocks`, whether the lines after it are the command's
    input, and the command as a word for `eval`, which has no newline."""
    kind = b"none" if request.stdin is None else b"live"
    word = request.command.replace(b"'", b"'\"'\"'").replace(b"\n", b"'\"$newline\"'")
    return b"%b %b '%b'\n" % (blocks.encode(), kind, word)


def environment() -> dict[str, str]:
    """A command's environment, without the egress proxy."""
    return {"HOME": HOME, "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb", "USER": "agent", "PWD": WORKSPACE}


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)


class Handshake:
    """The pipes through which bubblewrap reports the namespace's first process, and then waits for the signal to
    continue before it runs anything."""

    def __init__(self, *inherited: int) -> None:
        """`inherited` are further descriptors for bubblewrap, closed with its own."""
        self._status, status = os.pipe()
        block, self._block = os.pipe()
        self._said = (status, block)
        self.inherited: tuple[int, ...] = (*self._said, *inherited)
        """bubblewrap's ends."""
        self.gate, self.input = os.pipe()
        """The input of the shell that waits for the command, and then of a command with a live one. bubblewrap itself
        would continue if the server was killed in between, and may not have set its parent-death signal yet."""

    def arguments(self) -> list[str]:
        status, block = map(str, self._said)
        return ["--json-status-fd", status, "--block-fd", block]

    def __enter__(self) -> Handshake:
        return self

    def __exit__(self, *_: object) -> None:
        self.started()
        for end in (self._status, self._block, self.input):
            os.close(end)

    def started(self) -> None:
        """Closes bubblewrap's ends in this process, so that its exit is noticed."""
        for end in (*self.inherited, *([self.gate] if self.inherited else [])):
            os.close(end)
        self.inherited = ()

    async def child_pid(self) -> int | None:
        """Waits until bubblewrap has reported it; None if bubblewrap ended before. Uses no thread: on a busy machine
        this takes a while, and other commands, cancelled ones included, would wait for a thread."""
        try:
            async with asyncio.timeout(_STATUS_TIMEOUT_S):
                line = await self._first_line()
        except TimeoutError:
            return None
        pid = json.loads(line).get("child-pid") if line else None
        return pid if isinstance(pid, int) else None

    async def _first_line(self) -> bytes:
        """The first line that bubblewrap writes; empty if it ends before."""
        loop = asyncio.get_running_loop()
        said = asyncio.Event()
        os.set_blocking(self._status, False)
        loop.add_reader(self._status, said.set)
        line = b""
        try:
            while b"\n" not in line:  # it arrives in pieces
                await said.wait()
                said.clear()
                with suppress(BlockingIOError):
                    piece = os.read(self._status, READ_BYTES)
                    if not piece:
                        return b""
                    line += piece
        finally:
            loop.remove_reader(self._status)
        return line.partition(b"\n")[0]

    def go_on(self) -> None:
        """Lets bubblewrap start the shell that waits for the command."""
        with suppress(BrokenPipeError):
            os.write(self._block, b"1")

    async def order(self, line: bytes) -> bool:
        """Gives that shell its line; whether it was there to get it. Waits until it has read most of it."""
        os.set_blocking(self.input, False)
        try:
            await write_all(self.input, line)
        except BrokenPipeError:
            return False
        return True

    @property
    def has_unread(self) -> bool:
        """Whether something was written to the input that nobody has read."""
        waiting = array("i", [0])
        ioctl(self.input, FIONREAD, waiting)
        return waiting[0] > 0


class Namespace:
    """Ends a PID namespace through its first process: it is dead only when all others are."""

    def __init__(
        self,
        handshake: Handshake,
        limit: Callable[[int], None],
        admit: Callable[[int, ExecRequest], Awaitable[bytes]],
        until_broken: Callable[[int], Awaitable[str]],
    ) -> None:
        """`limit`, in a thread, gets its first process before anything runs. `admit` gets it with the request, and
        returns the line that starts that. `until_broken` waits until the processes exceed a limit, which ends them."""
        self._handshake = handshake
        self._limit = limit
        self._admit = admit
        self._until_broken = until_broken
        self._tasks: list[asyncio.Task[None]] = []
        self.broken: str | None = None
        """Why the processes were ended."""
        self.lost = True
        """Whether the shell that waits for the command ended before it got it."""
        self._bwrap: Process | None = None
        self.left = 0
        """The processes that still ran when the command had ended by itself."""
        self._has_no_input = False
        self._pid = 0
        self._init: int | None = None
        """A pidfd, so that a later process with the same number is never hit."""

    async def started(self, bwrap: Process) -> None:
        self._handshake.started()
        pid = await self._handshake.child_pid()
        if pid is not None:
            self._init = await asyncio.to_thread(self._meet, pid)
        if pid is not None and self._init is not None:
            self._pid, self._bwrap = pid, bwrap
            await asyncio.to_thread(self._handshake.go_on)

    async def go(self, request: ExecRequest) -> None:
        bwrap = self._bwrap
        if self._init is not None and bwrap is not None:
            line = await self._admit(self._pid, request)
            self._has_no_input = request.stdin is None
            # One with an input is a server itself, whose end is reported.
            if self._has_no_input and (shell := await self._shell()) is not None:
                bwrap.pause()
                self._tasks.append(asyncio.create_task(self._count_left(bwrap, shell)))
            self.lost = not await self._handshake.order(line)
            self._tasks.append(asyncio.create_task(self._watch(self._pid, self._init)))
            if request.stdin is not None:
                self._tasks.append(asyncio.create_task(feed(self._handshake.input, request.stdin)))

    async def _watch(self, pid: int, pidfd: int) -> None:
        self.broken = await self._until_broken(pid)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    async def _shell(self) -> int | None:
        """A pidfd of the shell's process; None if that has ended, or does not begin in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHELL_S):
                while (shell := await asyncio.to_thread(shell_below, self._pid)) is None:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(_SHELL_POLL_S)
                return shell if shell >= 0 else None
        return None

    async def _count_left(self, bwrap: Process, shell: int) -> None:
        """Counts what still runs when the command's shell has ended. bubblewrap ends with the shell, and all the others
        with bubblewrap, so that it is paused from before the command until they are counted."""
        await _ended(shell)
        self.left = await asyncio.to_thread(running_below, self._pid)
        bwrap.resume()

    def _meet(self, pid: int) -> int | None:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        try:
            self._limit(pid)
        except OSError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return pidfd

    async def ended(self, bwrap: Process) -> None:
        # It may have been killed before it could read its line.
        self.lost = self.lost or (self._has_no_input and self._handshake.has_unread)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # They refer to this object through the tracebacks of their cancellations.
        self._tasks.clear()
        bwrap.resume()
        # bubblewrap itself is killed only if it has no child: one it has just created would outlive it
        if self._init is None:
            bwrap.kill()
        else:
            await _kill(self._init)
        await bwrap.exited


async def _kill(pidfd: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    await _ended(pidfd)


async def _ended(pidfd: int) -> None:
    """Waits for a process's end, and closes its descriptor."""
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


def end_left_commands(workspaces: Path) -> int:
    """Kills bubblewrap processes whose workspace is this directory or in it, and with them their namespaces; returns
    how many there were. Linux only: elsewhere it does nothing."""
    left = list(_left(os.fsencode(workspaces)))
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _left(directory: bytes) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, *arguments = (process / "cmdline").read_bytes().split(b"\0")
            if name.endswith(b"bwrap") and _binds(arguments, directory):
                yield int(process.name)


def _binds(arguments: list[bytes], directory: bytes) -> bool:
    """Whether bubblewrap's own arguments, up to the command, bind a directory or something below it."""
    own = arguments[: arguments.index(b"--")] if b"--" in arguments else arguments
    return any(argument == directory or argument.startswith(directory + b"/") for argument in own)
