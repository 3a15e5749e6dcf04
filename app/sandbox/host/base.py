"""What the sandboxes on this host share: a workspace that is a directory, and the commands in it."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from app.errors import SandboxUnavailableError, WorkspaceFullError
from app.sandbox import paths
from app.sandbox.base import FileInfo, FilePiece, Present, Sandbox, SandboxConfig, Scan, TreeEntry
from app.sandbox.host import moving, unpacking
from app.sandbox.host.copying import copy_workspace
from app.sandbox.host.directories import delete_tree
from app.sandbox.host.process import Commands
from app.sandbox.host.threads import FileThreads
from app.sandbox.host.workspace import FULL, Workspace
from app.sandbox.tar import PIECE, gathered, piped

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
        status = os.fstat(descriptor)
        self.size = status.st_size
        # A file that is rewritten has another inode.
        self.version = f"{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ino:x}"
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

    def keep_ready(self, env: Mapping[str, str] | None = None) -> None:
        """Does nothing: starting a process is cheap here."""

    def rest(self) -> None: ...

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

    async def scan(self, limit: int, skip: frozenset[bytes] = frozenset()) -> Scan:
        return await self._threads.walks.run(self.session_id, partial(moving.scan, self._workspace, limit, skip))

    async def read_entries(self, entries: Sequence[TreeEntry]) -> AsyncGenerator[Sequence[FilePiece], None]:
        batches = moving.read_entries(self._workspace, entries)
        while (batch := await self._threads.walks.run(self.session_id, partial(next, batches, None))) is not None:
            yield batch

    async def restore(self, archive: AsyncIterator[bytes]) -> None:
        await self.stop()
        async with piped(archive) as pipe:
            await self._threads.bulk.run(self.session_id, partial(moving.restore, self._workspace, pipe))
        await self.start()

    async def unpack(self, archive: AsyncIterator[bytes], *, replaced: Sequence[str] | None = None) -> None:
        await self.start()
        async with piped(archive) as pipe:
            work = partial(unpacking.unpack, self._workspace, pipe, replaced, self._config.limits.disk_mb * 2**20)
            await self._threads.bulk.run(self.session_id, work)

    async def update(self, removed: Sequence[TreeEntry], archive: AsyncIterator[bytes]) -> None:
        async with piped(archive) as pipe:
            await self._threads.bulk.run(self.session_id, partial(moving.update, self._workspace, removed, pipe))

    async def end_left(self) -> None:
        await self._threads.bulk.run(self.session_id, self._end_left)

    def _end_left(self) -> None:
        """Blocks."""
        raise NotImplementedError

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

    async def present(self) -> list[Present]:
        """See `SandboxFactory.present`; these take no resources but the disk."""
        return await asyncio.to_thread(lambda: list(self._present()))

    def _present(self) -> Iterator[Present]:
        async def stop() -> None: ...

        for path in self.workspaces():
            with suppress(OSError):
                status = path.stat(follow_symlinks=False)
                work = partial(asyncio.to_thread, self._remove_unchanged, path, status)
                yield Present(path.name, status.st_ctime, False, stop, work)

    def _remove_unchanged(self, path: Path, known: os.stat_result) -> None:
        left = path.with_name(f"{unpacking.LEFT}{secrets.token_hex(8)}")
        with suppress(FileNotFoundError):
            status = path.stat(follow_symlinks=False)
            if (status.st_ino, status.st_ctime_ns) == (known.st_ino, known.st_ctime_ns):
                path.rename(left)  # at once, so that none sees a part of it
                delete_tree(left)
                if not path.name.startswith(unpacking.LEFT):
                    delete_tree(self.scratch(path.name))

    def remove_orphans(self, live_sessions: set[str]) -> list[str]:
        """Deletes directories of sessions that are not live, and temporary ones of an earlier server process."""
        removed = [path for path in self.workspaces() if path.name not in live_sessions]
        for path in [*removed, *self.scratches()]:
            delete_tree(path)
        return [f"workspace {path.name}" for path in removed]


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
