"""Control groups (version 2), where the server may make them: limits for all processes of a sandbox together."""

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
"""The least; a group has 100 where nobody has said otherwise."""


class Cgroups:
    """A group below which the server may make others, with the controllers for memory and processes handed down."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent

    @classmethod
    def find(cls, mount: Path = MOUNT, own: Path = OWN) -> Cgroups | None:
        """The nearest such group above the server's own process; None where there is none, after trying it out.

        The server's own group will not do as a rule: one with processes hands nothing down.
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
        """Makes the session's group, or sets the limits of the one that is there."""
        group = self._group(session_id)
        group.mkdir(exist_ok=True)
        _write(group / "memory.max", limits.memory_mb * 1024 * 1024)
        _write(group / "pids.max", limits.pids)
        with suppress(OSError):  # no swap, or the controller is not handed down
            _write(group / "memory.swap.max", 0)
        with suppress(OSError):
            _write(group / "cpu.weight", WEIGHT)
            _write(group / "cpu.max", f"{round(limits.cpus * PERIOD_US)} {PERIOD_US}")

    def add(self, session_id: str, pid: int) -> None:
        """Puts a process, with all that it will start, into the session's group."""
        _write(self._group(session_id) / "cgroup.procs", pid)

    def remove(self, session_id: str) -> None:
        """Removes the session's group, in which nothing runs any more; does nothing where there is none."""
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
    with path.open("r+") as file:  # never made anew: a controller that is not there has no file
        file.write(f"{value}\n")
