"""Copies a workspace on the host into an empty one that belongs to another session.

Commands may change the source at any instant, so it is walked as the rest of `workspace` does, and what changes under
our hands is left out or copied as far as it is. In the target every directory is opened anew without following links:
one that was copied a moment ago must not lead out of it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import groupby

from app.errors import PalimpsestError, SandboxError, WorkspaceFullError
from app.sandbox.deletion import closing_file
from app.sandbox.usage import ENTRY_BYTES
from app.sandbox.workspace import FULL, Entry, Workspace, open_file

PIECE = 8 * 1024 * 1024
"""Bytes that one system call copies, so that a thread is never long in one."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SHARING = frozenset({errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""What the kernel says where it cannot copy between two files by itself."""


def copy_workspace(source: Workspace, target: Workspace, limit: int) -> None:
    """Copies regular files with their permissions and times, directories, and links as links, hard ones too; the
    target's owner gets them. Holes in files stay holes. Blocks.

    Raises `WorkspaceFullError` where the disk is full or the copy takes more than `limit` bytes, and `SandboxError` for
    what else the disk refuses.
    """
    with _translated():
        target.create()
        _Copy(target, limit).take(source)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno in FULL:
            raise WorkspaceFullError("The workspace cannot be copied: the disk is full.") from exc
        raise SandboxError(f"The workspace cannot be copied: {os.strerror(exc.errno or 0)}.") from exc


class _Copy:
    """A copy that is being made."""

    def __init__(self, target: Workspace, limit: int) -> None:
        self._target = target
        self._limit = limit
        self._used = 0
        self._linked: dict[tuple[int, int], tuple[bytes, ...]] = {}
        """Where the first name of a file with several was copied to, by the original's device and inode."""

    def take(self, source: Workspace) -> None:
        directories: list[Entry] = []
        with closing(source.walk()) as entries:
            for parent, children in groupby(entries, key=lambda entry: entry.parts[:-1]):
                with closing_file(self._target.open_directory(parent)) as into:
                    for entry in children:
                        self._copy_entry(entry, into)
                        if stat.S_ISDIR(entry.status.st_mode):
                            directories.append(entry)
        # At the end, the deepest first: what is made in a directory changes its time, and a closed one takes nothing.
        for entry in reversed(directories):
            with closing_file(self._target.open_directory(entry.parts)) as directory:
                _finish(directory, entry.status)

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
        self._count(os.stat(name, dir_fd=into, follow_symlinks=False))

    def _copy_file(self, entry: Entry, into: int) -> bool:
        """Whether a new file was made; there may be none any more, or a copy of it under another name."""
        name = entry.parts[-1]
        with _source(entry) as source:
            if source is None:
                return False
            status = os.fstat(source)
            identity = status.st_dev, status.st_ino
            if first := self._linked.get(identity):
                with closing_file(self._target.open_directory(first[:-1])) as directory:
                    os.link(first[-1], name, src_dir_fd=directory, dst_dir_fd=into, follow_symlinks=False)
                return False
            with closing_file(os.open(name, _NEW, 0o600, dir_fd=into)) as target:
                _copy_data(source, target, status.st_size)
                _finish(target, status)
        if status.st_nlink > 1:
            self._linked[identity] = entry.parts
        return True

    def _count(self, status: os.stat_result) -> None:
        self._used += max(ENTRY_BYTES, status.st_blocks * 512)
        if self._used > self._limit:
            raise copy_too_large(self._limit)


def copy_too_large(limit: int) -> WorkspaceFullError:
    """The error for a copy that takes more than `limit` bytes."""
    return WorkspaceFullError(
        f"The workspace cannot be copied: it has more than the {limit / 2**20:,.0f} MiB that the copy may have."
    )


@contextmanager
def _source(entry: Entry) -> Iterator[int | None]:
    """The open file, None where it is gone, no file any more, or closed to us."""
    try:
        file = open_file(entry.directory, entry.parts[-1], os.fsdecode(entry.parts[-1]))
    except (OSError, PalimpsestError):
        yield None
        return
    with closing_file(file):
        yield file


def _copy_data(source: int, target: int, size: int) -> None:
    """Copies what is written of a file, up to `size`."""
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
    """Whether all of it was there; the file may have become shorter."""
    while begin < end:
        count = _copy_piece(source, target, begin, min(PIECE, end - begin))
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
    data = os.pread(source, min(count, PIECE // 8), place)
    written = 0
    while written < len(data):
        written += os.pwrite(target, data[written:], place + written)
    return len(data)


def _finish(file: int, status: os.stat_result) -> None:
    """Gives a copy the permissions and times of its original; no set-uid bits, which nothing in a sandbox needs."""
    os.fchmod(file, stat.S_IMODE(status.st_mode) & 0o777)
    with suppress(OSError):  # a time that this file system cannot hold
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
