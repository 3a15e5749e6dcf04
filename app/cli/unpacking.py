"""Unpacks a workspace's archive on the user's machine. A model may have chosen every name and link in it."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from secrets import token_hex
from typing import IO

from app.cli.screen import CliError
from app.errors import SandboxError
from app.sandbox.host.directories import OPEN_DIRECTORY, closing_file
from app.sandbox.host.workspace import FULL
from app.sandbox.paths import MAX_PATH_BYTES
from app.sandbox.tar_parser import Parser, Part

PIECE = 256 * 1024
"""Bytes of the archive that are read and parsed at once."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)
_KINDS = (*_REGULAR, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)

Names = Sequence[bytes]
"""The names that lead to an entry from the folder."""


def unpack(archive: IO[bytes], folder: Path) -> list[str]:
    """Unpacks a tar into `folder` and returns the names that were skipped because they lead out of it or are not
    files. Files and links of the same name are replaced, when what replaces them is complete; directories are not.
    Blocks: call it in a thread.

    Nothing is written through a link, whoever made it. Owners and set-uid bits are dropped. Raises `CliError` for
    an invalid archive, and `OSError` if the folder cannot be used or its disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder.resolve()
    hard_links: list[tarfile.TarInfo] = []
    skipped: list[str] = []
    with closing_file(os.open(place, OPEN_DIRECTORY)) as root:
        unpacking = _Unpacking(root)
        for member, parts in groupby(_parts(archive), key=attrgetter("member")):
            if member.islnk():
                hard_links.append(member)
            elif not unpacking.makes(member, parts):
                skipped.append(member.name)
        # Hard links last: their files may come after them.
        skipped += [link.name for link in hard_links if not unpacking.makes(link)]
        return skipped + unpacking.remove_links_out_of(place)


def _parts(archive: IO[bytes]) -> Iterator[Part]:
    parser = Parser()
    try:
        while not parser.has_ended and (piece := archive.read(PIECE)):
            yield from parser.feed([piece])
    except SandboxError as error:
        raise CliError(error.detail, code="bad_archive") from error
    except OSError as error:
        raise CliError(f"The archive of the workspace cannot be read: {error.strerror}.", code="bad_archive") from error
    if not parser.has_ended:
        raise CliError("The archive of the workspace ended unexpectedly.", code="bad_archive")


class _Unpacking:
    """Makes the members of one archive below the directory with the descriptor `root`."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._links: list[tuple[str, Names]] = []
        self._files: set[tuple[int, int]] = set()
        """Device and inode of each file that was made: only those get further names."""

    def makes(self, member: tarfile.TarInfo, parts: Iterable[Part] = ()) -> bool:
        """Whether the member could be made. Raises `OSError` if the disk is full."""
        try:
            self._make(member, parts)
        except OSError as error:
            if error.errno in FULL:
                raise
            return False
        except ValueError:
            return False
        return True

    def remove_links_out_of(self, place: Path) -> list[str]:
        """Removes the symbolic links that lead out together with others, such as `a/..` where `a` is another one; what
        one leads to is known only when all are made. Returns their names."""
        top = os.fsencode(place)
        out = [
            (name, names)
            for name, names in self._links
            if os.path.commonpath((top, os.path.realpath(b"/".join((top, *names))))) != top
        ]
        for _, (*above, last) in out:
            with suppress(OSError), closing_file(self._open(above, create=False)) as directory:
                os.unlink(last, dir_fd=directory)
        return [name for name, _ in out]

    def _make(self, member: tarfile.TarInfo, parts: Iterable[Part]) -> None:
        """Raises `ValueError` for what may not be made, and `OSError` for what cannot be."""
        names = _names(member.name)
        if member.type not in _KINDS:
            raise ValueError("not a file")
        if member.isdir():
            os.close(self._open(names))
        elif member.islnk():
            self._link(_names(member.linkname), names)
        elif member.issym():
            target = _target(member.linkname, len(names) - 1)
            with self._replacing(names) as (directory, name):
                os.symlink(target, name, dir_fd=directory)
            self._links.append((member.name, names))
        else:
            with self._replacing(names) as (directory, name):
                self._write(os.open(name, _NEW, 0o600, dir_fd=directory), member, parts)

    @contextmanager
    def _replacing(self, names: Names) -> Iterator[tuple[int, bytes]]:
        """A directory, and a name in it to make something under, which gets its own name at the end."""
        *above, last = names
        with closing_file(self._open(above)) as directory:
            temporary = f".palimpsest-{token_hex(8)}".encode()
            try:
                yield directory, temporary
                os.rename(temporary, last, src_dir_fd=directory, dst_dir_fd=directory)
            finally:
                # It is still there after an error, or if the last name was a name of the same file.
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)

    def _open(self, names: Names, *, create: bool = True) -> int:
        """Opens a directory without following links; with `create` makes what is missing of it, in place of files."""
        current = os.dup(self._root)
        for name in names:
            with closing_file(current):
                if create:
                    _make_directory(name, current)
                current = os.open(name, OPEN_DIRECTORY, dir_fd=current)
        return current

    def _link(self, source: Names, names: Names) -> None:
        *above, original = source
        with closing_file(self._open(above, create=False)) as place:
            found = os.stat(original, dir_fd=place, follow_symlinks=False)
            if (found.st_dev, found.st_ino) not in self._files:
                raise ValueError("not a file of the archive")
            with self._replacing(names) as (directory, name):
                os.link(original, name, src_dir_fd=place, dst_dir_fd=directory, follow_symlinks=False)

    def _write(self, file: int, member: tarfile.TarInfo, parts: Iterable[Part]) -> None:
        with os.fdopen(file, "wb") as out:
            for part in parts:
                out.write(part.data)
            out.flush()
            # Its owner can always change it, and nobody else can.
            mode = member.mode & 0o755 | 0o600
            os.fchmod(file, mode if mode & 0o100 else mode & 0o666)
            with suppress(OSError, OverflowError):
                os.utime(file, (member.mtime, member.mtime))
            made = os.fstat(file)
            self._files.add((made.st_dev, made.st_ino))


def _make_directory(name: bytes, directory: int) -> None:
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        if stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=directory)
            os.mkdir(name, dir_fd=directory)


def _names(path: str) -> Names:
    """Where an entry is; absolute paths start at the folder too."""
    names = [name for name in os.fsencode(path).split(b"/") if name not in (b"", b".")]
    if b".." in names or len(path) > MAX_PATH_BYTES:
        raise ValueError("not a path in the folder")
    return names


def _target(target: str, depth: int) -> bytes:
    """The target of a symbolic link that is `depth` directories deep."""
    path = os.fsencode(target)
    names = os.path.normpath(path).split(b"/")
    if names[0] == b"" or names.count(b"..") > depth:
        raise ValueError("leads out of the folder")
    return path
