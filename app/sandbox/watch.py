"""Watches a command on this host, where the kernel does not bound what it uses: memory without a cgroup, and the disk.

A look comes after the fact, so a command gets beyond a limit by what it takes between two looks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.sandbox.usage import Count, DiskUse, count, free_space, memory_of, put_behind, unnamed

T = TypeVar("T")

LOOK_S = 0.1
"""Seconds between two looks. A process fills about 2 GiB of memory or of the page cache in a second."""
FIRST_COUNT_S = 1.0
"""Age of a command at which the workspace is counted for the first time: most are through by then."""
REST = 10
"""A count is followed by so many times its own length without one."""

_THREADS = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sandbox-watch")
"""Of their own: commands and files must not wait for a count."""


class HostDisk:
    """What one session has on this host's disk."""

    def __init__(self, roots: Sequence[Path], use: DiskUse, *, mounts: Sequence[Path] = ()) -> None:
        """`mounts` are other ways in which the sandbox sees the disks of `roots`."""
        self.use = use
        self._roots = roots
        self.mounts = mounts
        self._next_count = 0.0
        self.writing = asyncio.Lock()
        """Held while a file is written from outside: each is counted before the next."""

    def look(self, tree: int | None, *, must_know: bool) -> None:
        """Brings the account up to date; `must_know` asks for a count where there was none yet. `tree` is the
        process whose descendants may hold deleted files open, None if nothing runs. Blocks."""
        with suppress(OSError):  # the workspace is being removed
            self.use.saw(free_space(self._roots[0]))
        wanted = self.use.doubtful or (must_know and self.use.used is None)
        if wanted and time.monotonic() >= self._next_count:
            self.count(tree)

    def has_room(self, size: int) -> bool:
        """Whether a file of so many bytes may be written. Blocks."""
        self.look(None, must_know=True)
        if not self.use.has_room(size):
            self.count(None)
        return self.use.has_room(size)

    def count(self, tree: int | None) -> None:
        """Counts it all. Blocks."""
        began = time.monotonic()
        found = count(self._roots)
        held = Count(0, True) if tree is None else unnamed(tree, _disks([*self._roots, *self.mounts]))
        self.use.counted(found.used + held.used, whole=found.whole and held.whole)
        ended = time.monotonic()
        self._next_count = ended + REST * (ended - began)


def _disks(paths: Sequence[Path]) -> set[int]:
    found = set()
    for path in paths:
        with suppress(OSError):
            found.add(path.stat().st_dev)
    return found


class HostWatch:
    """Watches one command. `memory` is the most that its processes may use together, None where a cgroup sees to it."""

    def __init__(self, disk: HostDisk, memory: int | None) -> None:
        self._disk = disk
        self._memory = memory
        self._held = 0

    async def begin(self) -> None:
        await in_thread(partial(self._disk.look, None, must_know=False))
        if self._disk.use.doubtful:  # The command must not be ended for what was written before it.
            await in_thread(partial(self._disk.count, None))
        self._held = max(self._disk.use.used or 0, self._disk.use.limit)

    async def until_broken(self, pid: int) -> str:
        """Waits until the processes below `pid` use more than they may, and says what; for ever where they do not."""
        began = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_S)
            old = time.monotonic() - began >= FIRST_COUNT_S
            broken = await in_thread(partial(self._look, pid, must_know=old))
            if broken is not None:
                return f"ended: {broken}"

    async def end(self) -> str | None:
        """What is to be said of the disk after the command."""
        use = self._disk.use
        await in_thread(partial(self._disk.look, None, must_know=False))
        if use.full:
            await in_thread(partial(self._disk.count, None))
        return use.describe() if use.full else None

    def _look(self, pid: int, *, must_know: bool) -> str | None:
        if self._memory is not None:
            put_behind(pid)
            if memory_of(pid, self._memory) > self._memory:
                return f"its processes used more than the {self._memory // 2**20:,} MiB of memory that they may have"
        self._disk.look(pid, must_know=must_know)
        use = self._disk.use
        # One that found too much may make it less.
        return use.describe() if use.full and (use.used or 0) > self._held else None


async def in_thread(call: Callable[[], T]) -> T:
    """Looks and counts, away from the event loop and from all that waits for commands and files."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, call)
