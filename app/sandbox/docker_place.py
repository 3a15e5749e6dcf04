"""Where a container is: on this host, where the server sees its processes and files itself, or elsewhere.

What is seen from the host is beyond the reach of what runs in the container, and needs no answer of the Engine.
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
    """A running container of this host."""

    container_id: str
    first: int
    """The process whose end is the end of all others."""
    tree: int
    """The process above it, from which all that runs in the container descends."""
    roots: tuple[Path, ...]
    """Its workspace, and what it wrote elsewhere."""
    mounts: tuple[Path, ...]
    """Where it sees the disks of `roots` in another way."""

    def runs(self) -> bool:
        """Blocks."""
        with suppress(OSError):
            return self.container_id in Path(f"/proc/{self.first}/cgroup").read_text()
        return False

    def kill(self) -> None:
        """Ends all that runs in it, whatever the Engine does. Blocks."""
        with suppress(ProcessLookupError):
            if self.runs():
                os.kill(self.first, signal.SIGKILL)


class Place:
    """Where one container is, as far as that is known."""

    def __init__(self, engine: Engine, container: str) -> None:
        self.container = container
        self.here: Here | None = None
        """None where it is elsewhere or closed to this server, or that is not known yet."""
        self._engine = engine
        self._is_elsewhere = False

    async def locate(self) -> None:
        """Finds out where a container that runs is. Raises as the methods of `Engine` do."""
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
    """A container by its description, where it is on this host and open to this server."""
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
    # A process of that number may be another one's, where the Engine is on another host.
    return here if is_open and here.runs() and can_see_trees() else None
