"""Unpacks a workspace's archive on the user's machine. A model may have chosen every name and link in it."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO

from app.cli.screen import CliError
from app.errors import SandboxError
from app.sandbox.host.workspace import FULL, OPEN_DIRECTORY, closing_file
from app.sandbox.paths import MAX_PATH_BYTES
from app.sandbox.tar_parser import Parser, Part

PIECE = 256 * 1024
"""Bytes of the archive that are read and parsed at once."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)


def unpack(archive: IO[bytes], folder: Path) -> list[str]:
    """Unpacks a tar into `folder` and returns the names that were skipped because they lead out of it or are not
    files. What has the same name is replaced, unless it is a directory. Blocks: call it in a thread.

    Nothing is written through a link, whoever made it. Owners and set-uid bits are dropped. Raises `CliError` for
    an invalid archive, and `OSError` if the folder cannot be used or its disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    links: list[tarfile.TarInfo] = []
    skipped: list[str] = []
    with closing_file(os.open(folder.resolve(), OPEN_DIRECTORY)) as root:
        for member, parts in groupby(_parts(archive), key=attrgetter("member")):
            if member.islnk():
                links.append(member)
            elif not _is_made(root, member, parts):
                skipped.append(member.name)
        # Hard links last: their files may come after them.
        skipped += [link.name for link in links if not _is_made(root, link)]
    return skipped


def _parts(archive: IO[bytes]) -> Iterator[Part]:
    parser = Parser()
    try:
        while piece := archive.read(PIECE):
            yield from parser.feed([piece])
    except SandboxError as error:
        raise CliError(error.detail, code="bad_archive") from error
    if not parser.has_ended:
        raise CliError("The archive of the workspace ended unexpectedly.", code="bad_archive")


def _is_made(root: int, member: tarfile.TarInfo, parts: Iterable[Part] = ()) -> bool:
    try:
        _make(root, member, parts)
    except OSError as error:
        if error.errno in FULL:
            raise
        return False
    except ValueError:
        return False
    return True


def _make(root: int, member: tarfile.TarInfo, parts: Iterable[Part]) -> None:
    """Raises `ValueError` for what may not be made, and `OSError` for what cannot be."""
    names = _names(member.name)
    if member.isdir():
        os.close(_open_directory(root, names))
        return
    *above, name = names
    with closing_file(_open_directory(root, above)) as directory:
        if member.issym():
            target = _target(member.linkname, len(above))
            _remove(name, directory)
            os.symlink(target, name, dir_fd=directory)
        elif member.islnk():
            _link(root, _names(member.linkname), names, directory)
        elif member.type in _REGULAR:
            _remove(name, directory)
            _write(os.open(name, _NEW, 0o600, dir_fd=directory), member, parts)
        else:
            raise ValueError("not a file")


def _names(path: str) -> list[bytes]:
    """The names that lead to `path` from the folder, where absolute paths start too."""
    names = [name for name in os.fsencode(path).split(b"/") if name not in (b"", b".")]
    if b".." in names or len(path) > MAX_PATH_BYTES:
        raise ValueError("not a path in the folder")
    return names


def _open_directory(root: int, names: Sequence[bytes]) -> int:
    """Opens a directory without following links, and creates what is missing of it."""
    current = os.dup(root)
    for name in names:
        with closing_file(current):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=current)
            current = os.open(name, OPEN_DIRECTORY, dir_fd=current)
    return current


def _remove(name: bytes, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _target(target: str, depth: int) -> bytes:
    """The target of a symbolic link that is `depth` directories deep, as Python's own filter writes it since 3.11.13.

    In a normalized target each `..` leaves a directory, and no directory is ever replaced by a link. In `a/..`, `a`
    could be another link: to a parent, say, which would lead out of the folder.
    """
    names = os.path.normpath(os.fsencode(target)).split(b"/")
    if names[0] == b"" or names.count(b"..") > depth:
        raise ValueError("leads out of the folder")
    return b"/".join(names)


def _link(root: int, source: Sequence[bytes], names: Sequence[bytes], directory: int) -> None:
    *above, original = source
    with closing_file(_open_directory(root, above)) as place:
        # A link that is the second name of a symbolic link could be at another depth.
        if source == names or not stat.S_ISREG(os.stat(original, dir_fd=place, follow_symlinks=False).st_mode):
            raise ValueError("not another file")
        _remove(names[-1], directory)
        os.link(original, names[-1], src_dir_fd=place, dst_dir_fd=directory, follow_symlinks=False)


def _write(file: int, member: tarfile.TarInfo, parts: Iterable[Part]) -> None:
    with os.fdopen(file, "wb") as out:
        for part in parts:
            out.write(part.data)
        out.flush()
        # Its owner can always change it, and nobody else can.
        mode = member.mode & 0o755 | 0o600
        os.fchmod(file, mode if mode & 0o100 else mode & 0o666)
        with suppress(OSError, OverflowError):
            os.utime(file, (member.mtime, member.mtime))
