"""A workspace that is a directory of the host: file access beneath it that follows no link, and its deletion."""

from __future__ import annotations

import errno
import heapq
import os
import secrets
import stat
import tarfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from app.errors import InvalidRequestError, PalimpsestError, SandboxError
from app.sandbox import paths, tar
from app.sandbox.base import FileInfo

MAX_DEPTH = 200
"""Directories deeper than this are neither listed nor archived; a hostile tree could be endless."""
_BATCH = 1000
"""Names of a directory held at once; it may have millions."""
_MOST_HELD = 16
"""Directories with more names than that which a walk keeps open on its way down."""
# O_NONBLOCK: opening a FIFO must not wait for its other end
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The disk or the user's quota is full."""
Kind = Literal["file", "directory", "symlink", "other"]

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DELETED_AT_ONCE = 10_000
"""Names of a directory read at once: takes a few MiB, and a directory with a million names needs few reads."""
_SHALLOW = 20
"""Depth up to which a directory is emptied in place, which is faster than moving it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a walk; `directory` is the open directory that holds it, valid until the next entry."""

    parts: tuple[bytes, ...]
    status: os.stat_result
    directory: int


class Workspace:
    """One session's directory on the host. `owner` is the uid that commands run as; None is the server's own."""

    def __init__(self, root: Path, owner: int | None = None) -> None:
        self.root = root
        self.owner = owner

    def create(self) -> None:
        """Creates the directory, private and owned by the user that commands run as."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.owner is not None:
            os.chown(self.root, self.owner, self.owner)

    def delete(self) -> None:
        """Deletes the directory with its contents; does nothing if it is gone."""
        delete_tree(self.root)

    def read(self, path: str, max_bytes: int | None) -> bytes:
        names = paths.resolve(path)
        with self._parent(names, path) as (parent, name), _opened(parent, name, path) as file:
            size = os.fstat(file).st_size
            if max_bytes is None:
                return _read_all(file)
            data = b"" if size > max_bytes else _read_all(file, max_bytes + 1)
            if size > max_bytes or len(data) > max_bytes:
                raise paths.too_large(path, max(size, len(data)), max_bytes)
            return data

    def open(self, path: str) -> int:
        """Opens a regular file for reading; returns its descriptor."""
        names = paths.resolve(path)
        with self._parent(names, path) as (parent, name):
            return open_file(parent, name, path)

    def write(self, path: str, data: bytes) -> None:
        names = paths.resolve(path)
        with self._parent(names, path, create=True) as (parent, name):
            mode = _replaceable_mode(parent, name, path)
            temporary = f".palimpsest-{secrets.token_hex(8)}"
            try:
                self._write_new(parent, temporary, data, mode)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    def list(self, path: str, recursive: bool, limit: int) -> Sequence[FileInfo]:
        start = tuple(os.fsencode(name) for name in paths.resolve(path))
        with closing(self._walk(start, path, recursive, limit)) as entries:
            found = [_info(entry.parts, entry.status) for entry in islice(entries, limit)]
        return sorted(found, key=lambda info: info.path)

    def archive(self) -> Iterator[bytes]:
        """The whole workspace as a tar, in pieces."""
        with closing(self.walk()) as entries:
            for entry in entries:
                yield from _tar_entry(entry)
        yield tar.END

    def walk(self, skip: frozenset[bytes] = frozenset()) -> Generator[Entry, None, None]:
        """All entries, a directory before its contents. Leaves out what is inaccessible, deeper than `MAX_DEPTH`, or in
        a directory with a name in `skip`."""
        return self._walk((), ".", recursive=True, skip=skip)

    def open_directory(self, parts: Sequence[bytes]) -> int:
        """Opens the directory at a path, given by its names, without following links; returns its descriptor."""
        return self._open_directory(parts, os.fsdecode(b"/".join(parts)))

    def _walk(
        self,
        start: tuple[bytes, ...],
        path: str,
        recursive: bool,
        most: int | None = None,
        skip: frozenset[bytes] = frozenset(),
    ) -> Generator[Entry, None, None]:
        """Entries, a directory before its contents; of each directory the first `most` names."""
        return self._walk_in(start, self._open_directory(start, path), recursive, most, skip)

    def _walk_in(
        self,
        parts: tuple[bytes, ...],
        directory: int,
        recursive: bool,
        most: int | None,
        skip: frozenset[bytes],
        held: int = 0,
    ) -> Generator[Entry, None, None]:
        """Walks a directory and closes it. Its subdirectories are opened again from the root once it is closed, or
        after each batch of names if it has more than one: then it is one of the `held` directories that stay open."""
        pending: list[bytes] = []
        with closing_file(directory), os.scandir(directory) as found:
            listed: Iterator[bytes] = (os.fsencode(entry.name) for entry in found)
            if most is not None:
                listed = iter(heapq.nsmallest(most, listed))
            while names := sorted(islice(listed, _BATCH)):
                for name in names:
                    if (status := _status(directory, name)) is None:
                        continue
                    yield Entry((*parts, name), status, directory)
                    is_left = not recursive or name in skip or len(parts) + 1 >= MAX_DEPTH
                    if not is_left and stat.S_ISDIR(status.st_mode):
                        pending.append(name)
                if len(names) == _BATCH and held < _MOST_HELD:
                    yield from self._walk_below(parts, pending, most, skip, held + 1)
                    pending.clear()
        yield from self._walk_below(parts, pending, most, skip, held)

    def _walk_below(
        self, parts: tuple[bytes, ...], names: Iterable[bytes], most: int | None, skip: frozenset[bytes], held: int
    ) -> Generator[Entry, None, None]:
        for name in names:
            below = (*parts, name)
            try:
                directory = self._open_directory(below, ".")
            except PalimpsestError:
                continue  # changed meanwhile, or no access
            yield from self._walk_in(below, directory, True, most, skip, held)

    def _write_new(self, parent: int, name: str, data: bytes, mode: int) -> None:
        file = os.open(name, _NEW, 0o600, dir_fd=parent)
        with os.fdopen(file, "wb") as out:
            self._give(file)
            os.fchmod(file, mode)
            out.write(data)

    def _give(self, file: int) -> None:
        if self.owner is not None:
            os.fchown(file, self.owner, self.owner)

    @contextmanager
    def _parent(self, names: Sequence[str], path: str, create: bool = False) -> Iterator[tuple[int, bytes]]:
        """The open directory that holds the path's last name, and that name."""
        if not names:
            raise paths.not_a_file(path)
        parts = [os.fsencode(name) for name in names]
        with _translated(path), closing_file(self._open_directory(parts[:-1], path, create)) as parent:
            yield parent, parts[-1]

    def _open_directory(self, parts: Sequence[bytes], path: str, create: bool = False) -> int:
        current = _open_root(self.root)
        for name in parts:
            with closing_file(current):
                if create:
                    self._make_directory(current, name)
                current = _open_below(current, name, path)
        return current

    def _make_directory(self, parent: int, name: bytes) -> None:
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
        except FileExistsError:
            return
        if self.owner is not None:
            os.chown(name, self.owner, self.owner, dir_fd=parent, follow_symlinks=False)


def _open_root(root: Path) -> int:
    try:
        return os.open(root, OPEN_DIRECTORY)
    except FileNotFoundError as exc:
        raise SandboxError("The session has no workspace.") from exc


def _open_below(parent: int, name: bytes, path: str) -> int:
    try:
        return os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    except OSError as exc:
        # the kernel returns ENOTDIR for a link too if O_DIRECTORY and O_NOFOLLOW are both given
        if exc.errno in (errno.ENOTDIR, errno.ELOOP):
            status = _status(parent, name)
            linked = status is None or stat.S_ISLNK(status.st_mode)
            raise (paths.outside_workspace(path) if linked else paths.not_a_directory(path)) from exc
        raise translate(exc, path) from exc


@contextmanager
def _opened(parent: int, name: bytes, path: str) -> Iterator[int]:
    with closing_file(open_file(parent, name, path)) as file:
        yield file


def open_file(parent: int, name: bytes, path: str) -> int:
    """Opens a regular file for reading. Raises `InvalidRequestError` if it is not a regular file."""
    file = os.open(name, _FILE, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise paths.not_a_file(path)
    return file


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise translate(exc, path) from exc


def translate(exc: OSError, path: str) -> PalimpsestError:
    """Translates a failed system call on `path`."""
    if exc.errno == errno.ENOENT:
        return paths.file_not_found(path)
    if exc.errno == errno.ELOOP:
        return paths.outside_workspace(path)
    if exc.errno == errno.ENOTDIR:
        return paths.not_a_directory(path)
    if exc.errno in (errno.EISDIR, errno.ENXIO):  # ENXIO: a socket, or a FIFO without a reader
        return paths.not_a_file(path)
    if exc.errno in (errno.EACCES, errno.EPERM):
        return InvalidRequestError(f"{paths.show(path)} may not be accessed.", code="permission_denied")
    if exc.errno in FULL:
        return paths.workspace_full(path)
    return SandboxError(f"{paths.show(path)}: {os.strerror(exc.errno or 0)}.")


def _replaceable_mode(parent: int, name: bytes, path: str) -> int:
    """The permissions of a new file: those of the file it replaces, else 0644."""
    status = _status(parent, name)
    if status is None:
        return 0o644
    if stat.S_ISLNK(status.st_mode):
        raise paths.outside_workspace(path)
    if not stat.S_ISREG(status.st_mode):
        raise paths.not_a_file(path)
    return status.st_mode & 0o777


def _status(parent: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return None


def _tar_entry(entry: Entry) -> Iterator[bytes]:
    name, status = b"/".join(entry.parts), entry.status
    with suppress(OSError, PalimpsestError):  # changed or became inaccessible meanwhile; continue with the others
        if stat.S_ISDIR(status.st_mode):
            yield tar.header(name + b"/", tarfile.DIRTYPE, status)
        elif stat.S_ISLNK(status.st_mode):
            target = os.readlink(entry.parts[-1], dir_fd=entry.directory)
            yield tar.header(name, tarfile.SYMTYPE, status, link=target)
        elif stat.S_ISREG(status.st_mode):
            with _opened(entry.directory, entry.parts[-1], os.fsdecode(name)) as file:
                yield from tar.regular(name, file)


def _info(parts: Sequence[bytes], status: os.stat_result) -> FileInfo:
    return FileInfo(paths.clean_name(b"/".join(parts)), kind_of(status.st_mode), status.st_size, status.st_mtime)


def kind_of(mode: int) -> Kind:
    """The `FileInfo.type` of an entry with these mode bits."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def _read_all(file: int, limit: int | None = None) -> bytes:
    with os.fdopen(os.dup(file), "rb") as reader:
        return reader.read(-1 if limit is None else limit)


@contextmanager
def closing_file(file: int) -> Iterator[int]:
    try:
        yield file
    finally:
        os.close(file)


def delete_tree(root: Path) -> None:
    """Deletes a tree that a sandbox owned, of any depth and with directories whose owner removed access.

    Deep directories are moved up to the root to be emptied, and names are read in batches, so recursion, path length,
    open descriptors and memory do not grow with the tree. Nothing may run in the sandbox meanwhile, but another node on
    this machine may delete the tree too, or write a file that was uploaded.
    """
    try:
        top = os.open(root, OPEN_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return
    with closing_file(top), suppress(FileNotFoundError):
        _empty(top, top, 0)
        while not _remove_if_empty(root):
            _empty(top, top, 0)


def delete_below(parent: int, name: bytes) -> None:
    """Deletes a directory of the open directory `parent`, like `delete_tree`."""
    _opened_up(parent, os.fsdecode(name))
    with closing_file(os.open(name, OPEN_DIRECTORY, dir_fd=parent)) as top:
        _empty(top, top, 0)
    os.rmdir(name, dir_fd=parent)


def _empty(directory: int, top: int, depth: int) -> None:
    """Deletes what is in an open directory, until nothing is left."""
    while names := _some_names(directory):
        for name in names:
            with suppress(FileNotFoundError):  # another node has deleted it
                if not _opened_up(directory, name):
                    os.unlink(name, dir_fd=directory)
                elif depth < _SHALLOW:
                    with closing_file(os.open(name, OPEN_DIRECTORY, dir_fd=directory)) as below:
                        _empty(below, top, depth + 1)
                    _remove_if_empty(name, dir_fd=directory)
                else:
                    os.rename(name, secrets.token_hex(16), src_dir_fd=directory, dst_dir_fd=top)


def _remove_if_empty(directory: Path | str, *, dir_fd: int | None = None) -> bool:
    """Removes a directory unless another node has stored something in it; returns whether it did."""
    try:
        os.rmdir(directory, dir_fd=dir_fd)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _some_names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in islice(entries, _DELETED_AT_ONCE)]


def _opened_up(parent: int, name: str) -> bool:
    """Gives the owner full access to a directory; False if it is not one."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
    return stat.S_ISDIR(mode)
