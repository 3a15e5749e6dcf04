"""What the sandboxes on this host share: a workspace that is a directory, its copy for another session, and the
commands in it."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from app.errors import PalimpsestError, SandboxError, SandboxUnavailableError, WorkspaceFullError
from app.sandbox import paths
from app.sandbox.base import FileInfo, FilePiece, Present, Sandbox, SandboxConfig, Scan, TreeEntry
from app.sandbox.host import moving, unpacking
from app.sandbox.host.disk import ENTRY_BYTES
from app.sandbox.host.process import Commands
from app.sandbox.host.threads import FileThreads
from app.sandbox.host.workspace import FULL, OPEN_DIRECTORY, Entry, Workspace, closing_file, delete_tree, open_file
from app.sandbox.tar import PIECE, gathered, piped

T = TypeVar("T")

COPY_PIECE = 8 * 1024 * 1024
"""Bytes copied per system call, to keep each call short."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SHARING = frozenset({errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""Errors if the kernel cannot copy between the two files itself."""


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

    def keep_ready(self, env: Mapping[str, str] | None = None) -> None:
        """Nothing: the start of a process takes little here."""

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


def copy_workspace(source: Workspace, target: Workspace, limit: int) -> None:
    """Copies regular files with their permissions and times, directories, and links as links (hard links too); the
    target's owner owns them. Holes in files stay holes. Blocks.

    Raises `WorkspaceFullError` if the disk is full or the copy takes more than `limit` bytes, and `SandboxError` for
    other disk errors.
    """
    with _translated():
        target.create()
        links = target.root / f".palimpsest-{secrets.token_hex(8)}"
        links.mkdir(mode=0o700)
        try:
            with closing_file(os.open(links, OPEN_DIRECTORY)) as directory:
                _Copy(target, limit, directory).take(source)
        finally:
            delete_tree(links)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno in FULL:
            raise WorkspaceFullError("The workspace cannot be copied: the disk is full.") from exc
        raise SandboxError(f"The workspace cannot be copied: {os.strerror(exc.errno or 0)}.") from exc


class _Copy:
    """A copy in progress. It keeps no state per file: there may be millions."""

    def __init__(self, target: Workspace, limit: int, links: int) -> None:
        """`links` is an open directory on the target's disk, for temporary names of files with several hard links."""
        self._target = target
        self._limit = limit
        self._links = links
        self._used = 0

    def take(self, source: Workspace) -> None:
        with closing(source.walk()) as entries:
            for parent, children in groupby(entries, key=lambda entry: entry.parts[:-1]):
                with closing_file(self._target.open_directory(parent)) as into:
                    first = next(children)
                    original = os.fstat(first.directory)
                    os.fchmod(into, 0o700)
                    for entry in chain((first,), children):
                        self._copy_entry(entry, into)
                    if parent:  # New entries change a directory's time, and a read-only one takes none.
                        _finish(into, original)

    def _copy_entry(self, entry: Entry, into: int) -> None:
        name, mode = entry.parts[-1], entry.status.st_mode
        if stat.S_ISDIR(mode):
            os.mkdir(name, 0o700, dir_fd=into)
        elif stat.S_ISLNK(mode):
            try:
                target = os.readlink(name, dir_fd=entry.directory)
            except OSError:
                return
            os.symlink(target, name, dir_fd=into)
        elif not stat.S_ISREG(mode) or not self._copy_file(entry, into):
            return
        if self._target.owner is not None:
            os.chown(name, self._target.owner, self._target.owner, dir_fd=into, follow_symlinks=False)
        if stat.S_ISDIR(mode):
            with closing_file(os.open(name, OPEN_DIRECTORY, dir_fd=into)) as directory:
                _finish(directory, entry.status)
        self._count(os.stat(name, dir_fd=into, follow_symlinks=False).st_blocks * 512)

    def _copy_file(self, entry: Entry, into: int) -> bool:
        """Whether a new file was made; the source may be gone, or already copied under another name."""
        name = entry.parts[-1]
        with _source(entry) as source:
            if source is None:
                return False
            status = os.fstat(source)
            shared = f"{status.st_dev:x}-{status.st_ino:x}" if status.st_nlink > 1 else None
            if shared and self._link(shared, name, into):
                return False
            with closing_file(os.open(name, _NEW, 0o600, dir_fd=into)) as target:
                _copy_data(source, target, status.st_size)
                _finish(target, status)
        if shared:
            os.link(name, shared, src_dir_fd=into, dst_dir_fd=self._links, follow_symlinks=False)
        return True

    def _link(self, shared: str, name: bytes, into: int) -> bool:
        """Links an earlier copy of the file under this name; whether there was one."""
        try:
            os.link(shared, name, src_dir_fd=self._links, dst_dir_fd=into, follow_symlinks=False)
        except OSError as exc:
            if exc.errno == errno.EMLINK:  # the file has the maximum number of links; the next copy replaces it
                os.unlink(shared, dir_fd=self._links)
            elif exc.errno != errno.ENOENT:
                raise
            return False
        self._count(0)
        return True

    def _count(self, size: int) -> None:
        self._used += max(ENTRY_BYTES, size)
        if self._used > self._limit:
            raise copy_too_large(self._limit)


def copy_too_large(limit: int) -> WorkspaceFullError:
    """The error for a copy that takes more than `limit` bytes."""
    return WorkspaceFullError(
        f"The workspace cannot be copied: it has more than the {limit / 2**20:,.0f} MiB that the copy may have."
    )


@contextmanager
def _source(entry: Entry) -> Iterator[int | None]:
    """The open file; None if it is gone, no longer a regular file, or not readable."""
    try:
        file = open_file(entry.directory, entry.parts[-1], os.fsdecode(entry.parts[-1]))
    except (OSError, PalimpsestError):
        yield None
        return
    with closing_file(file):
        yield file


def _copy_data(source: int, target: int, size: int) -> None:
    """Copies the data of a file, skipping holes, up to `size`."""
    place = 0
    while place < size:
        try:
            begin = os.lseek(source, place, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno != errno.ENXIO:
                raise
            break  # a hole up to the end
        place = min(size, os.lseek(source, begin, os.SEEK_HOLE))
        if not _copy_range(source, target, begin, place):
            break
    os.ftruncate(target, size)


def _copy_range(source: int, target: int, begin: int, end: int) -> bool:
    """Whether the whole range was copied; the file may have become shorter."""
    while begin < end:
        count = _copy_piece(source, target, begin, min(COPY_PIECE, end - begin))
        if count == 0:
            return False
        begin += count
    return True


def _copy_piece(source: int, target: int, place: int, count: int) -> int:
    try:
        return os.copy_file_range(source, target, count, place, place)
    except OSError as exc:
        if exc.errno not in _NO_SHARING:
            raise
    data = os.pread(source, min(count, COPY_PIECE // 8), place)
    written = 0
    while written < len(data):
        written += os.pwrite(target, data[written:], place + written)
    return len(data)


def _finish(file: int, status: os.stat_result) -> None:
    """Gives a copy the original's permissions and times, without set-uid bits, which nothing in a sandbox needs."""
    os.fchmod(file, stat.S_IMODE(status.st_mode) & 0o777)
    with suppress(OSError):  # a time that this file system cannot hold
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
