"""A data directory on a separate small disk that can be filled."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

SIZE_MB = 192
"""Of the disk, in MiB; it is memory, and only what is used is taken."""
LEFT_FREE = 0.5
"""Share of the disk above which its size is doubled, before it fills up by itself."""


class Disk:
    """A tmpfs at `path`, where this process may mount one, else a plain directory that cannot be filled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size_mb = SIZE_MB
        path.mkdir(parents=True)
        self.is_small = self._mount()

    def _mount(self) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=0700", "palimpsest-soak", str(self.path)]
        if os.geteuid() != 0 or shutil.which("mount") is None:
            return False
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    @property
    def _filler(self) -> Path:
        return self.path / "filler"

    def fill(self) -> None:
        """Uses all remaining space."""
        size = 1 << 20
        with self._filler.open("ab", buffering=0) as file:
            while size >= 1:
                try:
                    file.write(b"\0" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 16

    def free(self) -> None:
        with suppress(FileNotFoundError):
            self._filler.unlink()

    def grow(self) -> None:
        """Enlarges it if the data alone nearly fills it."""
        used = shutil.disk_usage(self.path)
        if self.is_small and used.used > used.total * LEFT_FREE:
            self._size_mb *= 2
            subprocess.run(["mount", "-o", f"remount,size={self._size_mb}m", str(self.path)], check=True)

    def keep(self, target: Path) -> None:
        """Copies its content to a permanent place."""
        shutil.copytree(self.path, target, symlinks=True, ignore_dangling_symlinks=True)

    def remove(self) -> None:
        if self.is_small:
            subprocess.run(["umount", "--lazy", str(self.path)], check=False)
            self.is_small = False
        shutil.rmtree(self.path, ignore_errors=True)
