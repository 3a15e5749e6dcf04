"""A copy of a workspace on the host, made for another session."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, groupby

from app.errors import PalimpsestError, SandboxError, WorkspaceFullError
from app.sandbox.host.directories import OPEN_DIRECTORY, closing_file, delete_tree
from app.sandbox.host.disk import ENTRY_BYTES
from app.sandbox.host.workspace import FULL, Entry, Workspace, open_file

COPY_PIECE = 8 * 1024 * 1024
"""Bytes copied per system call, to keep each call short."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SHARING = frozenset({errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""Errors if the kernel cannot copy between the two files itself."""


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
