"""What a sandbox is to the rest of the service: a workspace and commands that run in it, away from the host."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

WORKSPACE = "/workspace"
"""Where the workspace lies inside every sandbox."""

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
"""Called with each piece of output as it comes; it must not block."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one session's sandbox may use; sizes in MiB, `cpus` in cores. `disk_mb` is for the workspace together with
    what else a command can write and keep."""

    memory_mb: int = 2048
    cpus: float = 2.0
    pids: int = 512
    disk_mb: int = 10_240


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """How one session's sandbox is made. `image` matters to Docker alone. `network` gives it its own network or
    the host's; without it, `allowed_hosts` are reached through the egress proxy."""

    session_id: str
    image: str
    network: bool
    limits: SandboxLimits
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended; its output went to `on_output`. `exit_code` is None where the command was killed by its
    time-out or for what it used; a command ended by signal N has 128 + N, as a shell reports it. `remark` says what the
    sandbox has met with: a limit that ended the command, or will stop the next one. `refused_hosts` says of each host
    that the egress proxy did not let the command reach why not."""

    exit_code: int | None
    timed_out: bool
    duration_ms: int
    remark: str | None = None
    refused_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileInfo:
    """An entry of the workspace. `path` is relative to it, with `/`; `size` in bytes; `modified` in Unix seconds."""

    path: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    modified: float


class OpenFile(Protocol):
    """A regular file of the workspace that can be read in pieces, `size` bytes of it, until it is closed."""

    size: int

    def read(self, part: range) -> AsyncGenerator[bytes, None]:
        """The bytes of a part of it. Raises `SandboxError` where the file has become shorter."""
        ...

    async def aclose(self) -> None: ...


class Sandbox(Protocol):
    """One session's sandbox: made on first use, kept while it works; the workspace is kept as long as the session.

    Paths are relative to the workspace or absolute under `/workspace`. A path that leaves it by `..`, by being absolute
    elsewhere or through a symbolic link raises `ForbiddenError` (code `outside_workspace`); one that does not exist
    `NotFoundError` (code `file_not_found`); a directory or special file where a regular file is needed
    `InvalidRequestError` (code `not_a_file`, or `not_a_directory`). Links are never followed.
    """

    kind: str
    network: bool

    async def start(self) -> None:
        """Makes the sandbox ready; does nothing if it is. Raises `SandboxUnavailableError` where it cannot."""
        ...

    async def exec(
        self, command: str, *, timeout_s: float, on_output: OnOutput, stdin: bytes | None = None
    ) -> ExecResult:
        """Runs a shell command in the workspace, as an unprivileged user and without the service's environment.

        On time-out and on cancellation every process that the command started is dead before this returns or raises,
        detached ones (`setsid`, double fork) included, and what was printed until then has gone to `on_output`.
        """
        ...

    async def has_workspace(self) -> bool:
        """Whether the session has a workspace already; makes and starts nothing, unlike all the others."""
        ...

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """A regular file's bytes. Raises `TooLargeError` where it has more than `max_bytes`."""
        ...

    async def open(self, path: str) -> OpenFile:
        """A regular file, to be read in pieces, for whom it may be too large to hold."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Writes a file whole, with its parent directories; the file is either the old one or the new one, never a part
        of it. Owned by the user that commands run as."""
        ...

    async def list(self, path: str = ".", *, recursive: bool = False, limit: int = 10_000) -> Sequence[FileInfo]:
        """Entries of a directory, sorted by path, at most `limit`."""
        ...

    def archive(self) -> AsyncIterator[bytes]:
        """The workspace as an uncompressed tar, regular files, directories and symbolic links (as links), in pieces;
        names are relative to the workspace."""
        ...

    async def copy_from(self, source: Sandbox) -> None:
        """Makes its workspace, which is new, a copy of that of another sandbox of the same kind, which may run
        meanwhile; does nothing where that has none. Raises `WorkspaceFullError` where the disk is full."""
        ...

    async def stop(self) -> None:
        """Ends all its processes and frees what it holds while idle; the workspace stays."""
        ...

    async def remove(self) -> None:
        """Ends it and deletes its workspace."""
        ...


class SandboxFactory(Protocol):
    """One kind of sandbox on this machine."""

    kind: str
    network_default: bool

    @property
    def network_can_be_limited(self) -> bool:
        """Whether a sandbox of this kind can be held to a list of hosts here."""
        ...

    @property
    def refused_connections(self) -> int:
        """How many connections the egress proxies have refused."""
        ...

    def describe(self) -> str:
        """One sentence for a person: what was found, as `Docker Engine 28.2.2 at unix:///var/run/docker.sock`."""
        ...

    async def check(self) -> None:
        """Raises `SandboxUnavailableError` with a sentence on how to mend it where sandboxes cannot be made now."""
        ...

    def open(self, config: SandboxConfig) -> Sandbox:
        """The session's sandbox, not started yet. Two calls for one session give handles of the same workspace."""
        ...

    async def remove_orphans(self, live_sessions: set[str]) -> list[str]:
        """Removes containers, processes and workspaces of this server's instance whose session is not among
        `live_sessions`, and ends commands left running by an earlier life of the server; returns what was removed."""
        ...

    async def running(self) -> set[str]:
        """The sessions of this server's instance whose sandbox goes on by itself, with what runs in its
        background."""
        ...

    async def aclose(self) -> None: ...
