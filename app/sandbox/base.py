"""The sandbox interface: a workspace and commands that run in it, isolated from the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

WORKSPACE = "/workspace"
"""Where the workspace is mounted inside every sandbox."""

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
"""Called with each piece of output as it arrives; it must not block."""


class LiveInput:
    """The standard input of a command that is written while it runs."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)

    async def send(self, data: bytes) -> None:
        """Waits while the command does not read."""
        await self._pieces.put(data)

    async def end(self) -> None:
        """Lets the command see the end of its input, after all that was sent; waits as `send` does."""
        await self._pieces.put(None)

    async def next(self) -> bytes | None:
        """The next piece, for the sandbox; None at the end."""
        return await self._pieces.get()


class BackgroundInput(LiveInput):
    """The input of a command in the background. Nobody writes it, but it stays open: some servers end with it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        """Set once the command runs."""
        self.is_alone = False
        """Set before that by a sandbox in which other commands cannot reach the ports of this one."""

    async def next(self) -> bytes | None:
        self.begun.set()
        return await super().next()


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one session's sandbox may use; sizes in MiB, `cpus` in cores. `disk_mb` covers the workspace and everything
    else a command can write and keep."""

    memory_mb: int = 2048
    cpus: float = 2.0
    pids: int = 512
    disk_mb: int = 10_240


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """How to create a session's sandbox. Only Docker uses `image`. `network` gives the sandbox its own network or the
    host's; without it, only `allowed_hosts` can be reached, through the egress proxy."""

    session_id: str
    image: str
    network: bool
    limits: SandboxLimits
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A command for a shell, the seconds that it may take, where its output goes, and its input, if it has any."""

    command: bytes
    timeout_s: float
    on_output: OnOutput
    stdin: LiveInput | None = None


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended; its output went to `on_output`. `exit_code` is None if the command was killed by its timeout
    or for exceeding a limit; a command ended by signal N has 128 + N, as a shell reports it. `remark` names a limit
    that ended the command or will stop the next one. `refused_hosts` says why the egress proxy refused each host the
    command tried to reach. `ended_with` counts the processes that still ran when the command had ended by itself, and
    had to end with it."""

    exit_code: int | None
    timed_out: bool
    duration_ms: int
    remark: str | None = None
    refused_hosts: tuple[str, ...] = ()
    ended_with: int = 0


@dataclass(frozen=True, slots=True)
class FileInfo:
    """An entry of the workspace. `path` is relative to it, with `/`; `size` in bytes; `modified` in Unix seconds."""

    path: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    modified: float


class OpenFile(Protocol):
    """A regular file of the workspace that can be read in pieces, `size` bytes in total. `version` changes with its
    content."""

    size: int
    version: str

    def read(self, part: range) -> AsyncGenerator[bytes, None]:
        """Yields the bytes of a part. Raises `SandboxError` if the file has become shorter."""
        ...

    async def aclose(self) -> None: ...


class Sandbox(Protocol):
    """One session's sandbox, made on first use; the workspace is kept as long as the session.

    Paths are relative to the workspace or absolute under `/workspace`. Links on their way are followed if they stay in
    the workspace, and stay links. A path that leaves it through `..`, a symbolic link or an absolute path raises
    `ForbiddenError` (code `outside_workspace`); a path or a link's target that does not exist raises `NotFoundError`
    (code `file_not_found`); a directory or special file in place of a regular file raises `InvalidRequestError` (code
    `not_a_file`, or `not_a_directory`). A link is never entered by what lists or copies whole trees.
    """

    kind: str
    network: bool

    async def start(self) -> None:
        """Makes the sandbox ready; does nothing if it is. Raises `SandboxUnavailableError` on failure."""
        ...

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        on_output: OnOutput,
        stdin: LiveInput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Runs a shell command in the workspace, as an unprivileged user and without the service's environment. `env`
        are further variables; they may be secret, so no process list shows them.

        On timeout and on cancellation, every process the command started is dead before this returns or raises,
        including detached ones (`setsid`, double fork), and all output until then has gone to `on_output`.
        """
        ...

    def keep_ready(self, env: Mapping[str, str] | None = None) -> None:
        """Starts the process of the next command ahead of it, and of each one after that, until `rest`, in a started
        sandbox; for commands with these further variables. Without such a process, a command starts its own."""
        ...

    def rest(self) -> None:
        """Ends what was started ahead."""
        ...

    async def has_workspace(self) -> bool:
        """Whether the session has a workspace already; unlike the other methods, creates and starts nothing."""
        ...

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Reads a regular file. Raises `TooLargeError` if it has more than `max_bytes`."""
        ...

    async def open(self, path: str) -> OpenFile:
        """Opens a regular file to read it in pieces, without holding all of it in memory."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Writes a file atomically, with its parent directories: readers see the old file or the new one, never a part.
        The file is owned by the user that commands run as."""
        ...

    async def list(self, path: str = ".", *, recursive: bool = False, limit: int = 10_000) -> Sequence[FileInfo]:
        """Entries of a directory, sorted by path, at most `limit`."""
        ...

    def archive(self) -> AsyncIterator[bytes]:
        """The workspace as an uncompressed tar, regular files, directories and symbolic links (as links), in pieces;
        names are relative to the workspace."""
        ...

    async def unpack(self, archive: AsyncIterator[bytes], *, replaced: Sequence[str] | None = None) -> None:
        """Adds the entries of a tar as `archive` returns it, each directory before its contents. Files and links
        replace others; the directory with the names `replaced`, none for the workspace, keeps nothing that it had.

        If this fails, nothing has changed. Raises `InvalidRequestError` (`invalid_archive`) if an entry's place, or one
        above it, is taken by an entry of another type, and `WorkspaceFullError`."""
        ...

    async def copy_from(self, source: Sandbox) -> None:
        """Copies the workspace of another sandbox of the same kind, which may be running, into this new one; does
        nothing if the source has no workspace. Raises `WorkspaceFullError` if the disk is full."""
        ...

    async def end_left(self) -> None:
        """Ends commands that another server, which is dead or frozen, has left running in this sandbox. None of this
        server may be running in it."""
        ...

    async def stop(self) -> None:
        """Ends all processes and frees the sandbox's resources; the workspace stays."""
        ...

    async def remove(self) -> None:
        """Stops the sandbox and deletes its workspace."""
        ...


class TreeEntry(NamedTuple):
    """An entry of a workspace as a scan finds it. `path` is relative and may have any bytes but NUL. Times are in
    nanoseconds; `ctime_ns` and `inode` tell whether the file is still the one of an earlier scan."""

    path: bytes
    type: Literal["file", "directory", "symlink"]
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class Scan(NamedTuple):
    """All entries, sorted by path, without sockets, FIFOs and devices. A file that was changed after `settled_ns` could
    change once more without another time."""

    entries: Sequence[TreeEntry]
    settled_ns: int


class FilePiece(NamedTuple):
    """Some content of the entry at this position of a request; a symbolic link's content is its target."""

    position: int
    data: bytes


class Scannable(Protocol):
    """Files that can be stored elsewhere."""

    async def scan(self, limit: int, skip: frozenset[bytes] = frozenset()) -> Scan:
        """Looks at all entries without reading any content. Directories with a name in `skip` are found, but not what
        is in them. Raises `TooLargeError` (code `workspace_too_large`) if there are more than `limit`."""
        ...

    def read_entries(self, entries: Sequence[TreeEntry]) -> AsyncGenerator[Sequence[FilePiece], None]:
        """The content of files and symbolic links, one after the other, at least one piece of each. Entries that are
        gone or changed their type are left out; a file that is being changed may have another size than in the scan.
        Of several hard links to one file, one has pieces."""
        ...


@runtime_checkable
class MovableSandbox(Sandbox, Scannable, Protocol):
    """A sandbox whose workspace can be stored elsewhere and restored on another machine."""

    async def restore(self, archive: AsyncIterator[bytes]) -> None:
        """Replaces the workspace, and ends what runs in it. `archive` is a tar as `archive` returns it, each directory
        before its contents. Raises `WorkspaceFullError` if the disk is full."""
        ...

    async def update(self, removed: Sequence[TreeEntry], archive: AsyncIterator[bytes]) -> None:
        """Changes some entries while no command runs; all others stay. `removed` are deleted first, a directory only if
        nothing is left in it. `archive` is then unpacked: its entries replace those at the same paths, of whatever type
        they are, but a directory keeps its contents. Each directory comes before its contents, and gets the mode of its
        entry last. No link is followed. Done again after a failure, it has the same result. Raises
        `WorkspaceFullError` if the disk is full."""
        ...


class Present(NamedTuple):
    """A session's sandbox as it is found on a machine. `touched` is when it was made, or its files were changed at the
    top, in seconds since the epoch; `runs` is whether it takes resources. `stop` and `remove` are like those of
    `Sandbox`, for exactly what was found: one that was made since then stays."""

    session_id: str
    touched: float
    runs: bool
    stop: Callable[[], Awaitable[None]]
    remove: Callable[[], Awaitable[None]]


class SandboxFactory(Protocol):
    """One kind of sandbox on this machine."""

    kind: str
    network_default: bool

    @property
    def network_can_be_limited(self) -> bool:
        """Whether a sandbox of this kind can be limited to a list of hosts here."""
        ...

    @property
    def refused_connections(self) -> int:
        """How many connections the egress proxies have refused."""
        ...

    def describe(self) -> str:
        """One sentence on what was found, such as `Docker Engine 28.2.2 at unix:///var/run/docker.sock`."""
        ...

    async def check(self) -> None:
        """Raises `SandboxUnavailableError` , saying how to fix it, if sandboxes cannot be made now."""
        ...

    async def machine(self) -> str | None:
        """The id of what has the workspaces, the same for all servers that use it; None if that is the data directory.
        Raises `SandboxUnavailableError` if it is away and its id not known yet."""
        ...

    def open(self, config: SandboxConfig) -> Sandbox:
        """The session's sandbox, not started yet. Two calls for one session return handles to the same workspace."""
        ...

    async def remove_orphans(self, live_sessions: set[str], at_work: Collection[str] = ()) -> list[str]:
        """Removes containers, processes and workspaces of this server's instance whose session is not in
        `live_sessions`, and ends commands left by an earlier server process; returns what was removed. Of sessions that
        were `at_work` nothing that commands have left behind stays."""
        ...

    async def present(self) -> Sequence[Present]:
        """The sandboxes and workspaces of this server's instance, whichever server made them."""
        ...

    async def running(self) -> set[str]:
        """The sessions of this server's instance whose sandbox keeps running between commands, with its background
        processes."""
        ...

    async def aclose(self) -> None: ...
