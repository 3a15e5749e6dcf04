"""Base of the sandboxes on this host: a workspace that is a directory, and the commands that run in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from app.errors import SandboxUnavailableError, WorkspaceFullError
from app.sandbox import paths
from app.sandbox.base import FileInfo, Sandbox, SandboxConfig
from app.sandbox.copying import copy_workspace
from app.sandbox.deletion import delete_tree
from app.sandbox.process import Commands
from app.sandbox.tar import PIECE, gathered
from app.sandbox.threads import FileThreads
from app.sandbox.workspace import FULL, Workspace

T = TypeVar("T")


class HostFile:
    """An open file of a workspace on the host, by its descriptor, which `aclose` closes."""

    def __init__(
        self,
        descriptor: int,
        path: str,
        in_thread: Callable[[Callable[[], bytes]], Awaitable[bytes]] = asyncio.to_thread,
    ) -> None:
        """`in_thread` runs a blocking call."""
        self.size = os.fstat(descriptor).st_size
        self._descriptor: int | None = descriptor
        self._path = path
        self._in_thread = in_thread

    async def read(self, part: range) -> AsyncGenerator[bytes, None]:
        assert self._descriptor is not None
        place = part.start
        while place < part.stop:
            size = min(part.stop - place, PIECE)
            piece = await self._in_thread(partial(os.pread, self._descriptor, size, place))
            if not piece:
                raise paths.became_shorter(self._path)
            place += len(piece)
            yield piece

    async def aclose(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class HostSandbox:
    """A session whose workspace is a directory of the host. Subclasses run commands."""

    kind: str

    def __init__(self, config: SandboxConfig, workspace: Workspace, commands: Commands, threads: FileThreads) -> None:
        self.network = config.network
        self._config = config
        self._workspace = workspace
        self._commands = commands
        self._threads = threads

    async def start(self) -> None:
        try:
            await self._quickly(self._prepare)
        except OSError as exc:
            if exc.errno in FULL:
                raise WorkspaceFullError("The workspace cannot be made: its disk is full.") from exc
            detail = f"The workspace cannot be made: {exc.strerror}. Check the data directory's owner and free space."
            raise SandboxUnavailableError(detail) from exc

    def _prepare(self) -> None:
        """Makes the directories commands need; runs in a thread."""
        self._workspace.create()

    async def has_workspace(self) -> bool:
        return await self._quickly(self._workspace.root.is_dir)

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        await self.start()
        return await self._quickly(partial(self._workspace.read, path, max_bytes))

    async def open(self, path: str) -> HostFile:
        await self.start()
        return HostFile(await self._quickly(partial(self._workspace.open, path)), path, self._quickly)

    async def write(self, path: str, data: bytes) -> None:
        await self.start()
        await self._quickly(partial(self._workspace.write, path, data))

    async def list(self, path: str = ".", *, recursive: bool = False, limit: int = 10_000) -> Sequence[FileInfo]:
        await self.start()
        return await self._threads.walks.run(self.session_id, partial(self._workspace.list, path, recursive, limit))

    async def archive(self) -> AsyncIterator[bytes]:
        await self.start()
        pieces = gathered(self._workspace.archive())
        while (piece := await self._threads.walks.run(self.session_id, partial(next, pieces, None))) is not None:
            yield piece

    async def copy_from(self, source: Sandbox) -> None:
        assert isinstance(source, HostSandbox)
        if await source.has_workspace():
            limit = self._config.limits.disk_mb * 2**20
            copy = partial(copy_workspace, source._workspace, self._workspace, limit)
            # All copies of one workspace share the thread quota of its session.
            await self._threads.bulk.run(source.session_id, copy)

    async def stop(self) -> None:
        await self._commands.end_all()

    async def remove(self) -> None:
        await self.stop()
        await self._threads.bulk.run(self.session_id, self._workspace.delete)

    @property
    def session_id(self) -> str:
        return self._config.session_id

    async def _quickly(self, call: Callable[[], T]) -> T:
        return await self._threads.quick.run(self.session_id, call)


class HostWorkspaces:
    """The directories of one data directory, named by session: workspaces, and scratch directories deleted on stop."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.threads = FileThreads()
        self._commands: WeakValueDictionary[str, Commands] = WeakValueDictionary()

    def workspace(self, session_id: str) -> Path:
        return self.data_dir / "workspaces" / paths.check_session_id(session_id)

    def scratch(self, session_id: str) -> Path:
        return self.data_dir / "scratch" / paths.check_session_id(session_id)

    def workspaces(self) -> list[Path]:
        return _children(self.data_dir / "workspaces")

    def scratches(self) -> list[Path]:
        return _children(self.data_dir / "scratch")

    def commands(self, session_id: str) -> Commands:
        """The session's commands, shared by all its handles."""
        return self._commands.setdefault(session_id, Commands())

    def remove_orphans(self, live_sessions: set[str]) -> list[str]:
        """Deletes directories of sessions that are not live, and temporary ones of an earlier server process."""
        removed = [path for path in self.workspaces() if path.name not in live_sessions]
        for path in [*removed, *self.scratches()]:
            delete_tree(path)
        return [f"workspace {path.name}" for path in removed]


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
