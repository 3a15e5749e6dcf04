"""A workspace that is a directory of the host, and file access beneath it, which a command may change meanwhile.

The kernel never follows a link here: every name is opened relative to its open directory, and a link's target is read
and walked from there, so that a name that is swapped for a link leads nowhere but into the workspace."""

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
from app.sandbox.host.directories import OPEN_DIRECTORY, closing_file, delete_tree

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
        with self._parent(path) as (parent, name), _opened(parent, name, path) as file:
            size = os.fstat(file).st_size
            if max_bytes is None:
                return _read_all(file)
            data = b"" if size > max_bytes else _read_all(file, max_bytes + 1)
            if size > max_bytes or len(data) > max_bytes:
                raise paths.too_large(path, max(size, len(data)), max_bytes)
            return data

    def open(self, path: str) -> int:
        """Opens a regular file for reading; returns its descriptor."""
        with self._parent(path) as (parent, name):
            return open_file(parent, name, path)

    def write(self, path: str, data: bytes) -> None:
        with self._parent(path, create=True) as (parent, name):
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
        names = paths.resolve(path)
        route = paths.Route(names, path)
        with _translated(path, route):
            directory = self._follow(route, path)
        place, shown = _encoded(route.place), _encoded(names)
        with closing(self._walk_in(place, directory, recursive, limit, frozenset())) as entries:
            found = [_info((*shown, *entry.parts[len(place) :]), entry.status) for entry in islice(entries, limit)]
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
        return self._walk_in((), self._open_directory((), "."), recursive=True, most=None, skip=skip)

    def open_directory(self, parts: Sequence[bytes]) -> int:
        """Opens the directory at a path, given by its names, without following links; returns its descriptor."""
        return self._open_directory(parts, os.fsdecode(b"/".join(parts)))

    def _walk_in(
        self,
        parts: tuple[bytes, ...],
        directory: int,
        recursive: bool,
        most: int | None,
        skip: frozenset[bytes],
        held: int = 0,
    ) -> Generator[Entry, None, None]:
        """Entries, a directory before its contents; of each directory the first `most` names. Closes the directory.

        Its subdirectories are opened again from the root once it is closed, or after each batch of names if it has more
        than one: then it is one of the `held` directories that stay open.
        """
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
    def _parent(self, path: str, create: bool = False) -> Iterator[tuple[int, bytes]]:
        """The open directory that holds what the path leads to, and the name of that, which is no link."""
        route = paths.Route(paths.resolve(path), path)
        with _translated(path, route), closing_file(self._follow(route, path, to_file=True, create=create)) as parent:
            name = os.fsencode(route.name)
            if create and route.is_of_link and _status(parent, name) is None:
                raise route.missing()
            yield parent, name

    def _follow(self, route: paths.Route, path: str, *, to_file: bool = False, create: bool = False) -> int:
        """Opens the directory at the end of a route or, `to_file`, the one with the last name."""
        current = self._open_directory((), path)
        at: Sequence[str] = []
        try:
            for name in iter(route.next, None):
                current, at = self._moved(current, at, route, path)
                is_file = to_file and route.is_last
                found = self._enter(current, os.fsencode(name), is_file, create and not route.is_of_link)
                if found is None:
                    return current
                if isinstance(found, bytes):
                    route.follow(os.fsdecode(found))
                    continue
                os.close(current)
                current = found
                route.enter()
                at = [*at, name]
            if to_file:
                raise paths.not_a_file(path)
            return self._moved(current, at, route, path)[0]
        except BaseException:
            os.close(current)
            raise

    def _moved(self, current: int, at: Sequence[str], route: paths.Route, path: str) -> tuple[int, Sequence[str]]:
        """The directory that the route has led to; opened from the root if that is not where the walk was."""
        if route.place == at:
            return current, at
        place = self._open_directory(_encoded(route.place), path)
        os.close(current)
        return place, list(route.place)

    def _enter(self, parent: int, name: bytes, is_file: bool, create: bool) -> int | bytes | None:
        """The open directory of that name, or the target of a link; None for another last name."""
        if is_file:
            return _target(parent, name)
        if create:
            self._make_directory(parent, name)
        try:
            return os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        except OSError:
            if (target := _target(parent, name)) is not None:
                return target
            raise

    def _open_directory(self, parts: Sequence[bytes], path: str) -> int:
        current = _open_root(self.root)
        for name in parts:
            with closing_file(current):
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
def _translated(path: str, route: paths.Route) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as exc:
        raise route.missing() from exc
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


def _target(parent: int, name: bytes) -> bytes | None:
    """The target of a link; None if it is none."""
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError:
        return None


def _encoded(names: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(map(os.fsencode, names))


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
