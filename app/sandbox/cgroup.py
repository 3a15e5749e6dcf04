"""Control groups (version 2), if the server may create them: limits for all processes of a sandbox together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from app.sandbox.base import SandboxLimits

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
PERIOD_US = 100_000
"""The kernel's own default period of `cpu.max`."""
WEIGHT = 1
"""The minimum; the default is 100."""


class Cgroups:
    """A group in which the server may create others, with the memory and pids controllers delegated."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent

    @classmethod
    def find(cls, mount: Path = MOUNT, own: Path = OWN) -> Cgroups | None:
        """Finds the nearest such group above the server's own process by trying it out; None if there is none.

        The server's own group usually does not work: a group with processes cannot delegate controllers.
        """
        for directory in _above(mount, own):
            groups = cls(directory)
            try:
                if {"memory", "pids"} <= set((directory / "cgroup.subtree_control").read_text().split()):
                    groups.create("probe", SandboxLimits())
                    groups.remove("probe")
                    return groups
            except OSError:
                continue
        return None

    def create(self, session_id: str, limits: SandboxLimits) -> None:
        """Makes the session's group, or updates the limits of an existing one."""
        group = self._group(session_id)
        group.mkdir(exist_ok=True)
        _write(group / "memory.max", limits.memory_mb * 1024 * 1024)
        _write(group / "pids.max", limits.pids)
        with suppress(OSError):  # no swap, or the controller is not delegated
            _write(group / "memory.swap.max", 0)
        with suppress(OSError):
            _write(group / "cpu.max", f"{round(limits.cpus * PERIOD_US)} {PERIOD_US}")
            _write(group / "cpu.weight", WEIGHT)

    def add(self, session_id: str, pid: int) -> None:
        """Moves a process, with everything it will start, into the session's group."""
        _write(self._group(session_id) / "cgroup.procs", pid)

    def remove(self, session_id: str) -> None:
        """Removes the session's group, which is empty; does nothing if it does not exist."""
        with suppress(OSError):
            self._group(session_id).rmdir()

    def _group(self, session_id: str) -> Path:
        return self.parent / f"palimpsest-{session_id}"


def _above(mount: Path, own: Path) -> Iterator[Path]:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::/"):
            relative = Path(line.removeprefix("0::/"))
            yield from (mount / part for part in (relative, *relative.parents))


def _write(path: Path, value: int | str) -> None:
    with path.open("r+") as file:  # never created: a missing controller has no file
        file.write(f"{value}\n")
