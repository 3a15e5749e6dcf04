"""Directories of the host that a sandbox may change while they are used, opened without following links; and the
deletion of a tree of them."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DELETED_AT_ONCE = 10_000
"""Names of a directory read at once: takes a few MiB, and a directory with a million names needs few reads."""
_SHALLOW = 20
"""Depth up to which a directory is emptied in place, which is faster than moving it."""


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
