"""A workspace on the host, scanned and read for a snapshot, and restored from one. All of it blocks."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from operator import itemgetter
from typing import IO, BinaryIO

from app.errors import NotFoundError, PalimpsestError, SandboxError, WorkspaceFullError
from app.sandbox import paths
from app.sandbox.base import FilePiece, Scan, TreeEntry
from app.sandbox.host.directories import closing_file, delete_below
from app.sandbox.host.workspace import FULL, Entry, Workspace, kind_of, open_file

PIECE = 1024 * 1024
"""Bytes read from a file at a time, and gathered of small files for one trip between threads."""
OVERHEAD = 1024
"""Bytes that each piece counts for in addition, so that empty files are gathered too."""
SETTLED_NS = 50_000_000
"""How long ago a file must have been changed so that another change has another time: a kernel's clock for files
advances every 1 to 10 ms."""
HOLE = 64 * 1024
"""Zeros of this size are not written, so that the holes of a sparse file are restored as holes."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def scan(workspace: Workspace, limit: int, skip: frozenset[bytes] = frozenset()) -> Scan:
    """See `MovableSandbox.scan`."""
    settled_ns = time.time_ns() - SETTLED_NS
    found: list[TreeEntry] = []
    with closing(workspace.walk(skip)) as entries:
        for entry in entries:
            if (seen := _seen(entry)) is not None:
                found.append(seen)
            if len(found) > limit:
                raise paths.too_many_entries(limit)
    # By path alone, which takes less time: no other thread runs meanwhile.
    found.sort(key=itemgetter(0))
    return Scan(found, settled_ns)


def _seen(entry: Entry) -> TreeEntry | None:
    status = entry.status
    kind = kind_of(status.st_mode)
    if kind == "other":
        return None
    path, size = b"/".join(entry.parts), status.st_size if kind == "file" else 0
    return TreeEntry(path, kind, status.st_mode & 0o777, size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def read_entries(workspace: Workspace, entries: Sequence[TreeEntry]) -> Iterator[Sequence[FilePiece]]:
    """See `MovableSandbox.read_entries`."""
    batch: list[FilePiece] = []
    size = 0
    linked: set[int] = set()
    for position, entry in enumerate(entries):
        if entry.type == "file" and entry.inode in linked:
            continue
        # What changed or became inaccessible meanwhile is left out.
        with suppress(OSError, PalimpsestError):
            for data in _content(workspace, entry):
                batch.append(FilePiece(position, data))
                size += len(data) + OVERHEAD
                if size >= PIECE:
                    yield batch
                    batch, size = [], 0
            linked.add(entry.inode)
    if batch:
        yield batch


def _content(workspace: Workspace, entry: TreeEntry) -> Iterator[bytes]:
    *above, name = entry.path.split(b"/")
    with closing_file(workspace.open_directory(above)) as directory:
        if entry.type == "symlink":
            yield os.readlink(name, dir_fd=directory)
            return
        file = open_file(directory, name, os.fsdecode(entry.path))
    with closing_file(file):
        yield os.read(file, PIECE)
        # At most what the scan saw: a file that grows faster than it is read would never end.
        left = entry.size - PIECE
        while left > 0 and (data := os.read(file, min(left, PIECE))):
            left -= len(data)
            yield data


def restore(workspace: Workspace, archive: BinaryIO) -> None:
    """See `MovableSandbox.restore`; `archive` is read as a stream."""
    workspace.delete()
    workspace.create()
    with translated("The workspace cannot be restored"):
        Restoration(workspace).take(archive)


def update(workspace: Workspace, removed: Sequence[TreeEntry], archive: BinaryIO) -> None:
    """See `MovableSandbox.update`; `archive` is read as a stream."""
    workspace.create()
    with translated("The workspace cannot be restored"):
        for entry in sorted(removed, reverse=True):
            _remove(workspace, entry)
        _Update(workspace).take(archive)


def _remove(workspace: Workspace, entry: TreeEntry) -> None:
    """Removes an entry unless it is gone, or a directory with contents."""
    *above, name = entry.path.split(b"/")
    with suppress(NotFoundError), closing_file(workspace.open_directory(above)) as directory:
        _make_writable(directory)
        try:
            if entry.type == "directory":
                os.rmdir(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise


def _make_writable(directory: int) -> None:
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & 0o700 != 0o700:
        os.fchmod(directory, mode | 0o700)


@contextmanager
def translated(failure: str) -> Iterator[None]:
    """Raises the errors of a disk and of an invalid tar as those of a sandbox, which begin with `failure`."""
    try:
        yield
    except OSError as exc:
        if exc.errno in FULL:
            raise WorkspaceFullError(f"{failure}: the disk is full.") from exc
        raise SandboxError(f"{failure}: {os.strerror(exc.errno or errno.EIO)}.") from exc
    except (tarfile.TarError, ValueError) as exc:
        raise SandboxError(f"{failure}: the archive is invalid.") from exc


class Restoration:
    """The entries of a tar, made below an empty workspace. No link is followed, and nothing is overwritten."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._directories: list[tuple[tuple[bytes, ...], int, int]] = []
        self._above: tuple[bytes, ...] | None = None
        self._open: int | None = None

    def take(self, archive: BinaryIO) -> None:
        try:
            with tarfile.open(fileobj=archive, mode="r|", encoding="utf-8", errors="surrogateescape") as members:
                for member in members:
                    self._make(members, member)
                    # It would keep all of them.
                    members.members.clear()  # type: ignore[attr-defined]  # not in its published types
        finally:
            self._close()
        # Last, since a read-only directory takes no entries, and each entry changes its directory's time.
        for parts, mode, mtime in reversed(self._directories):
            with closing_file(self._workspace.open_directory(parts)) as directory:
                os.fchmod(directory, mode)
                os.utime(directory, (mtime, mtime))

    def _make(self, members: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = tuple(os.fsencode(member.name.rstrip("/")).split(b"/"))
        if not all(part not in (b"", b".", b"..") for part in parts):
            raise ValueError(f"the entry {paths.show(member.name)} leaves the workspace")
        name, into = parts[-1], self._directory(parts[:-1])
        mode, mtime = member.mode & 0o777, int(member.mtime)
        if member.isdir():
            self._directories.append((parts, mode, mtime))
        if not self._is_free(name, into, member):
            return
        if member.isdir():
            os.mkdir(name, 0o700, dir_fd=into)
        elif member.issym():
            os.symlink(os.fsencode(member.linkname), name, dir_fd=into)
        elif member.islnk():
            self._link(os.fsencode(member.linkname), name, into)
            return
        elif member.isreg():
            with closing_file(os.open(name, _NEW, 0o600, dir_fd=into)) as file:
                _write(members.extractfile(member), file, member.size)
                os.fchmod(file, mode)
                os.utime(file, (mtime, mtime))
        if self._workspace.owner is not None:
            os.chown(name, self._workspace.owner, self._workspace.owner, dir_fd=into, follow_symlinks=False)

    def _is_free(self, name: bytes, into: int, member: tarfile.TarInfo) -> bool:
        """Whether the entry is still to be made."""
        return True

    def _link(self, source: bytes, name: bytes, into: int) -> None:
        *above, original = source.split(b"/")
        with closing_file(self._workspace.open_directory(above)) as directory:
            os.link(original, name, src_dir_fd=directory, dst_dir_fd=into, follow_symlinks=False)

    def _directory(self, above: tuple[bytes, ...]) -> int:
        """The open directory for an entry; entries of one directory usually follow each other."""
        if self._open is None or above != self._above:
            self._close()
            self._open, self._above = self._workspace.open_directory(above), above
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            os.close(self._open)
            self._open = None


class _Update(Restoration):
    """The same in a workspace with entries, some of which are replaced."""

    def _is_free(self, name: bytes, into: int, member: tarfile.TarInfo) -> bool:
        try:
            mode = os.stat(name, dir_fd=into, follow_symlinks=False).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and stat.S_ISDIR(mode) and member.isdir():
            return False
        _make_writable(into)
        if mode is not None and stat.S_ISDIR(mode):
            delete_below(into, name)
        elif mode is not None:
            os.unlink(name, dir_fd=into)
        return True


def _write(source: IO[bytes] | None, file: int, size: int) -> None:
    assert source is not None
    place = 0
    while place < size:
        data = source.read(min(HOLE, size - place))
        if not data:
            raise ValueError("the archive ended unexpectedly")
        if data.count(0) != len(data):
            os.pwrite(file, data, place)
        place += len(data)
    os.ftruncate(file, size)
