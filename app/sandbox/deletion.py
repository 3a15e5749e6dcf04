"""Deletes trees that a sandbox owned."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def closing_file(file: int) -> Iterator[int]:
    try:
        yield file
    finally:
        os.close(file)


def delete_tree(root: Path) -> None:
    """Deletes a tree that a sandbox owned, of any depth and with directories that their owner closed.

    Each directory met is emptied by moving its own directories up to the root, so neither recursion nor long paths nor
    open descriptors grow with the depth. Nothing may run in the sandbox meanwhile.
    """
    try:
        top = os.open(root, OPEN_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return
    with closing_file(top):
        while names := os.listdir(top):
            for name in names:
                _delete_entry(top, name)
    os.rmdir(root)


def _delete_entry(top: int, name: str) -> None:
    if not _opened_up(top, name):
        os.unlink(name, dir_fd=top)
        return
    with closing_file(os.open(name, OPEN_DIRECTORY, dir_fd=top)) as directory:
        for child in os.listdir(directory):
            if _opened_up(directory, child):
                os.rename(child, secrets.token_hex(16), src_dir_fd=directory, dst_dir_fd=top)
            else:
                os.unlink(child, dir_fd=directory)
    os.rmdir(name, dir_fd=top)


def _opened_up(parent: int, name: str) -> bool:
    """Whether this is a directory; if so its owner may enter and change it afterwards."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
    return stat.S_ISDIR(mode)
