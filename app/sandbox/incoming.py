"""What an archive from a client may hold, and its entries as a tar for a workspace. An archive is refused as a whole:
it is read once to check it, and again to unpack it. All of it blocks."""

from __future__ import annotations

import stat
import tarfile
import time
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

from app.sandbox import paths, tar
from app.sandbox.archive_formats import ArchiveEntry, Bounds, Kind, entries, too_large, unreadable
from app.sandbox.base import WORKSPACE
from app.sandbox.host.workspace import MAX_DEPTH

OWNER = 1000
"""The uid that commands run as in every kind of sandbox, as seen from inside."""
_LATEST = 2**33
"""A time in the year 2242; every file system can store those before."""
_SPECIAL = stat.S_ISUID | stat.S_ISGID

Parts = tuple[bytes, ...]


class Contents(NamedTuple):
    """What an archive unpacks to: files and links, and the bytes of the files."""

    files: int
    bytes: int


def check(file: IO[bytes], folder: Sequence[str], bounds: Bounds) -> Contents:
    """Reads a whole archive that is to be unpacked in `folder` of a workspace.

    Raises `InvalidRequestError` (`invalid_archive`), which names the entry, for what may not be unpacked: names that
    lead elsewhere or no file can have, links out of the workspace, devices, set-id bits, and names that occur twice.
    Raises `TooLargeError` (`archive_too_large`).
    """
    files = size = 0
    for parts, entry in _Accepted(folder, bounds).of(file):
        files += bool(parts) and entry.kind != "directory"
        for data in entry.content() if entry.kind == "file" else ():
            size += len(data)
    return Contents(files, size)


def as_tar(file: IO[bytes], folder: Sequence[str], bounds: Bounds) -> Iterator[bytes]:
    """The archive as `MovableSandbox.restore` takes it, in pieces. Raises as `check`."""
    accepted = _Accepted(folder, bounds)
    return tar.gathered(_pieces(accepted, file))


def _pieces(accepted: _Accepted, file: IO[bytes]) -> Iterator[bytes]:
    made: set[Parts] = {()}
    for parts, entry in accepted.of(file):
        yield from _directories(parts[:-1], made)
        if entry.kind == "directory":
            if parts in made:
                continue
            made.add(parts)
        yield _header(parts, entry.kind, entry.mode, entry.mtime, entry.size, accepted.target(entry))
        if entry.kind == "file":
            yield from entry.content()
            if padding := -entry.size % tar.BLOCK:
                yield bytes(padding)
    # Also if the archive is empty.
    yield from _directories(accepted.folder, made)
    yield tar.END


def _directories(parts: Parts, made: set[Parts]) -> Iterator[bytes]:
    """The headers of a directory and those above it that have not been made yet."""
    missing = next(count for count in range(len(parts), -1, -1) if parts[:count] in made)
    for count in range(missing + 1, len(parts) + 1):
        made.add(parts[:count])
        yield _header(parts[:count], "directory", mtime=int(time.time()))


_TYPES = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
}


def _header(parts: Parts, kind: Kind, mode: int = 0o755, mtime: int = 0, size: int = 0, target: bytes = b"") -> bytes:
    name = b"/".join(parts) + (b"/" if kind == "directory" else b"")
    info = tarfile.TarInfo(name.decode("utf-8", "surrogateescape"))
    info.type, info.linkname, info.size = _TYPES[kind], target.decode("utf-8", "surrogateescape"), size
    # The agent can use what it was given, whatever the rights of its owner were.
    info.mode = mode & 0o777 | (0o700 if kind == "directory" else 0o600)
    info.mtime = min(max(0, mtime), _LATEST)
    info.uid = info.gid = OWNER
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


class _Accepted:
    """The entries of an archive that may all be unpacked, with their places in the workspace."""

    def __init__(self, folder: Sequence[str], bounds: Bounds) -> None:
        self.folder = tuple(name.encode() for name in folder)
        self._bounds = bounds
        self._left = bounds.bytes
        self._kinds: dict[bytes, Kind] = {}

    def of(self, file: IO[bytes]) -> Iterator[tuple[Parts, ArchiveEntry]]:
        for entry in entries(file, self._bounds):
            names = _names(entry.name, entry.name)
            if not names and entry.kind == "directory":
                continue  # the folder itself
            if not names:
                raise unreadable("has no name", entry.name)
            self._check(names, entry)
            yield (*self.folder, *names), entry

    def target(self, entry: ArchiveEntry) -> bytes:
        """A link's target in the workspace."""
        if entry.kind != "hardlink":
            return entry.target
        return b"/".join((*self.folder, *_names(entry.target, entry.name)))

    def _check(self, names: Parts, entry: ArchiveEntry) -> None:
        self._check_name(names, entry)
        if entry.kind == "other":
            raise unreadable("is not a file, directory or link", entry.name)
        if entry.mode & _SPECIAL:
            raise unreadable("has a set-user-ID or set-group-ID bit", entry.name)
        if entry.kind == "symlink":
            self._check_link(names, entry)
        self._add(names, entry)
        self._left -= entry.size
        if self._left < 0 or len(self._kinds) > self._bounds.entries:
            raise too_large(self._bounds)

    def _check_name(self, names: Parts, entry: ArchiveEntry) -> None:
        if len(names) + len(self.folder) >= MAX_DEPTH:
            raise unreadable(f"is more than {MAX_DEPTH} directories deep", entry.name)
        if any(len(name) > paths.MAX_NAME_BYTES for name in names):
            raise unreadable(f"has a name longer than {paths.MAX_NAME_BYTES} bytes", entry.name)
        if len(b"/".join((*self.folder, *names))) > paths.MAX_PATH_BYTES:
            raise unreadable(f"has a path longer than {paths.MAX_PATH_BYTES} bytes", entry.name)

    def _check_link(self, names: Parts, entry: ArchiveEntry) -> None:
        """Resolved as text: a link below another link is never followed by the server, and inside of a sandbox leads
        only to what commands can reach anyway."""
        place = [*self.folder, *names[:-1]]
        target = entry.target.split(b"/")
        if entry.target.startswith(b"/"):
            if target[1] != WORKSPACE.strip("/").encode():
                raise unreadable("links out of the workspace", entry.name)
            place, target = [], target[2:]
        for name in target:
            if name == b".." and not place:
                raise unreadable("links out of the workspace", entry.name)
            if name == b"..":
                place.pop()
            elif name not in (b"", b"."):
                place.append(name)
        if not entry.target or b"\0" in entry.target or len(entry.target) > paths.MAX_PATH_BYTES:
            raise unreadable("is a link with an invalid target", entry.name)

    def _add(self, names: Parts, entry: ArchiveEntry) -> None:
        """Notes the entry and the directories above it. Raises if one of the names has another entry."""
        for count in range(len(names) - 1, 0, -1):
            above = b"/".join(names[:count])
            known = self._kinds.get(above)
            if known == "directory":
                break
            if known is not None:
                raise unreadable("is below an entry that is not a directory", entry.name)
            self._kinds[above] = "directory"
        path = b"/".join(names)
        if entry.kind == "hardlink" and self._kinds.get(b"/".join(_names(entry.target, entry.name))) not in (
            "file",
            "hardlink",
        ):
            raise unreadable("is a hard link to a file that does not come before it", entry.name)
        known = self._kinds.get(path)
        if known is not None and not known == entry.kind == "directory":
            raise unreadable("is in the archive twice", entry.name)
        self._kinds[path] = entry.kind


def _names(path: bytes, name: bytes) -> Parts:
    """The names that lead to `path` from the folder of the archive; `name` is the entry that has it."""
    if path.startswith(b"/"):
        raise unreadable("has an absolute path", name)
    names = tuple(part for part in path.split(b"/") if part not in (b"", b"."))
    if b".." in names:
        raise unreadable("leads out of the archive's folder", name)
    if b"\0" in path:
        raise unreadable("has a NUL character in its name", name)
    return names
