"""Files outside a workspace, which must stay unchanged and unread."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tests.fuzz.engine import Crash

SECRET = b"SECRET-THAT-LIES-OUTSIDE"

State = dict[str, tuple[int, int, bytes]]


class Outside:
    """A directory next to the data directory with a secret in it, another session's workspace with the same, and files
    of the host."""

    secret = SECRET

    def __init__(self, data_dir: Path, neighbour: str) -> None:
        """`neighbour` is the other session."""
        self.folder = data_dir.parent / "outside"
        self.folder.mkdir()
        own = data_dir / "workspaces" / neighbour
        beside = data_dir.parent / "secret"
        for place in (self.folder / "secret", beside, own / "secret"):
            place.write_bytes(SECRET)
        self._roots = [self.folder, beside, own, Path("/etc/passwd"), Path("/etc/hosts"), Path("/outside")]

    def state(self) -> State:
        """Mode, size and content of each file."""
        return {str(path): _look(path) for root in self._roots for path in _below(root)}

    def check(self, before: State) -> None:
        """Raises `Crash` if the state has changed."""
        after = self.state()
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        if changed:
            raise Crash(f"changed outside of the workspace: {sorted(changed)}")


def _below(root: Path) -> list[Path]:
    if not os.path.lexists(root):
        return []
    found = [root]
    if root.is_dir() and not root.is_symlink():
        for folder, directories, files in os.walk(root):
            found += [Path(folder) / name for name in (*directories, *files)]
    return found


def _look(path: Path) -> tuple[int, int, bytes]:
    status = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(status.st_mode) and status.st_size < 100_000 else b""
    return status.st_mode, status.st_size, content
