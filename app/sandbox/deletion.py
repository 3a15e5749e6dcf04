"""Deletes trees that a sandbox owned."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_BATCH = 10_000
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
    open descriptors and memory do not grow with the tree. Nothing may run in the sandbox meanwhile.
    """
    try:
        top = os.open(root, OPEN_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return
    with closing_file(top):
        _empty(top, top, 0)
    os.rmdir(root)


def _empty(directory: int, top: int, depth: int) -> None:
    while names := _some_names(directory):
        for name in names:
            if not _opened_up(directory, name):
                os.unlink(name, dir_fd=directory)
            elif depth < _SHALLOW:
                with closing_file(os.open(name, OPEN_DIRECTORY, dir_fd=directory)) as below:
                    _empty(below, top, depth + 1)
                os.rmdir(name, dir_fd=directory)
            else:
                os.rename(name, secrets.token_hex(16), src_dir_fd=directory, dst_dir_fd=top)


def _some_names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in islice(entries, _BATCH)]


def _opened_up(parent: int, name: str) -> bool:
    """Gives the owner full access to a directory; False if it is not one."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
    return stat.S_ISDIR(mode)
