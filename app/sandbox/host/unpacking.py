"""Files from elsewhere, unpacked into a workspace on the host: first next to it, and moved in when all of them are
there and none is in the way. All of it blocks."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from app.errors import WorkspaceFullError
from app.sandbox import paths
from app.sandbox.host.directories import OPEN_DIRECTORY, closing_file, delete_tree
from app.sandbox.host.disk import count
from app.sandbox.host.moving import Restoration, translated
from app.sandbox.host.workspace import Workspace

LEFT = ".left-"
"""Begins the name of a directory next to the workspaces that is being removed, or is not in use yet."""
Parts = tuple[bytes, ...]


def unpack(workspace: Workspace, archive: BinaryIO, replaced: Sequence[str] | None, limit: int) -> None:
    """See `Sandbox.unpack`; `limit` is the most bytes of the workspace with what is unpacked."""
    staged, removed = (
        Workspace(workspace.root.with_name(f"{LEFT}{secrets.token_hex(8)}"), workspace.owner) for _ in range(2)
    )
    try:
        with translated("The archive cannot be unpacked"):
            staged.create()
            removed.create()
            Restoration(staged).take(archive)
            if count([workspace.root, staged.root]).used > limit:
                raise WorkspaceFullError(f"The workspace would have more than {limit / 2**20:,.0f} MiB.")
            with (
                closing_file(staged.open_directory(())) as source,
                closing_file(workspace.open_directory(())) as target,
                closing_file(removed.open_directory(())) as out,
            ):
                emptied = None if replaced is None else tuple(os.fsencode(name) for name in replaced)
                merge = _Merge(emptied, out)
                merge.check(source, target, ())
                if emptied == ():
                    merge.empty(target)
                merge.move(source, target, ())
    finally:
        delete_tree(staged.root)
        delete_tree(removed.root)


class _Merge:
    """Moves a tree over another one. Files and links replace each other; no link is followed."""

    def __init__(self, replaced: Parts | None, removed: int) -> None:
        """The directory `replaced` loses what it has; that is moved to the open directory `removed`."""
        self._replaced = replaced
        self._removed = removed

    def check(self, source: int, target: int, parts: Parts) -> None:
        """Raises `InvalidRequestError` for the first entry that cannot be moved."""
        for name in _names(source):
            there = _mode(target, name)
            if there is None:
                continue
            moves = stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode)
            if moves != stat.S_ISDIR(there):
                raise paths.in_the_way(b"/".join((*parts, name)))
            if moves:
                _open_up(target, name)
            if moves and (*parts, name) != self._replaced:
                with _opened(source, name) as below, _opened(target, name) as existing:
                    self.check(below, existing, (*parts, name))

    def empty(self, directory: int) -> None:
        for name in _names(directory):
            self._remove(directory, name)

    def move(self, source: int, target: int, parts: Parts) -> None:
        for name in _names(source):
            there = _mode(target, name)
            if there is not None and stat.S_ISDIR(there):
                if (*parts, name) != self._replaced:
                    with _opened(source, name) as below, _opened(target, name) as existing:
                        self.move(below, existing, (*parts, name))
                    continue
                self._remove(target, name)
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)

    def _remove(self, directory: int, name: bytes) -> None:
        _open_up(directory, name)
        os.rename(name, secrets.token_hex(16), src_dir_fd=directory, dst_dir_fd=self._removed)


def _names(directory: int) -> list[bytes]:
    return [os.fsencode(name) for name in os.listdir(directory)]


def _mode(directory: int, name: bytes) -> int | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _open_up(parent: int, name: bytes) -> None:
    """Gives the owner of a directory full access: one that is moved or gets entries has to be writable."""
    try:
        directory = os.open(name, os.O_PATH | OPEN_DIRECTORY, dir_fd=parent)
    except NotADirectoryError:
        return
    with closing_file(directory):
        mode = stat.S_IMODE(os.fstat(directory).st_mode)
        if mode & 0o700 != 0o700:
            # Not by its name, which may be a link by now; and `fchmod` takes no such descriptor.
            os.chmod(f"/proc/self/fd/{directory}", mode | 0o700)


@contextmanager
def _opened(parent: int, name: bytes) -> Iterator[int]:
    with closing_file(os.open(name, OPEN_DIRECTORY, dir_fd=parent)) as directory:
        yield directory
