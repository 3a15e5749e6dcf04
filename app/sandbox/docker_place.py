"""Whether a container is on this host, so that the server can see its processes and files itself.

A process in the container cannot tamper with what is seen from the host, and no Engine call is needed.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.sandbox.base import WORKSPACE
from app.sandbox.engine import Engine
from app.sandbox.process_tree import can_see_trees, continue_all
from app.sandbox.watch import in_thread

_LAYER = re.compile(r"(?<=,upperdir=)[^, ]+")
"""Where the container's own files are, as its mounts name it."""


@dataclass(frozen=True)
class Here:
    """A running container on this host."""

    container_id: str
    first: int
    """The first process; when it ends, all others end."""
    tree: int
    """The process above it, from which all processes of the container descend."""
    roots: tuple[Path, ...]
    """Its workspace, and its writable layer."""
    mounts: tuple[Path, ...]
    """Other mounts through which it sees the disks of `roots`."""

    def runs(self) -> bool:
        """Blocks."""
        with suppress(OSError):
            return self.container_id in Path(f"/proc/{self.first}/cgroup").read_text()
        return False

    def kill(self) -> None:
        """Kills everything in it without the Engine. Blocks."""
        with suppress(ProcessLookupError):
            if self.runs():
                os.kill(self.first, signal.SIGKILL)


class Place:
    """Where one container is, if known."""

    def __init__(self, engine: Engine, container: str) -> None:
        self.container = container
        self.here: Here | None = None
        """None if it is elsewhere, not accessible to this server, or not located yet."""
        self._engine = engine
        self._is_elsewhere = False

    async def locate(self) -> None:
        """Locates a running container. Raises what the methods of `Engine` raise."""
        if self._is_elsewhere or (self.here is not None and await in_thread(self.here.runs)):
            return
        shown = await self._engine.find(self.container)
        if shown is not None and shown["State"]["Running"]:
            self.here = await in_thread(partial(_find_here, shown))
            self._is_elsewhere = self.here is None
            if self.here is not None:
                # A server that was killed may have left processes stopped, the container's first one among them.
                await in_thread(partial(continue_all, self.here.tree))


def _find_here(shown: dict[str, Any]) -> Here | None:
    """A container by its description, if it is on this host and accessible to this server."""
    process = Path(f"/proc/{shown['State']['Pid']}")
    volumes = [mount["Source"] for mount in shown["Mounts"] if mount["Destination"] == WORKSPACE]
    try:
        layers = _LAYER.findall((process / "mountinfo").read_text())
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
    roots = tuple(map(Path, (*volumes, *layers)))
    here = Here(shown["Id"], int(process.name), parent, roots, (process / "root",))
    is_open = len(roots) == 2 and all(os.access(root, os.R_OK | os.X_OK) for root in roots)
    # If the Engine is on another host, that number may belong to an unrelated process here.
    return here if is_open and here.runs() and can_see_trees() else None
