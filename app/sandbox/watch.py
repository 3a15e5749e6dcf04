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

from app.sandbox.usage import DiskUse, count, free_space, memory_of

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

    def __init__(self, roots: Sequence[Path], limit: int) -> None:
        self.use = DiskUse(limit)
        self._roots = roots
        self._next_count = 0.0

    def look(self, *, must_know: bool) -> None:
        """Brings the account up to date; `must_know` asks for a count where there was none yet. Blocks."""
        with suppress(OSError):  # the workspace is being removed
            self.use.saw(free_space(self._roots[0]))
        wanted = self.use.doubtful or (must_know and self.use.used is None)
        if wanted and time.monotonic() >= self._next_count:
            self.count()

    def count(self) -> None:
        """Counts it all. Blocks."""
        began = time.monotonic()
        found = count(self._roots)
        self.use.counted(found.used, whole=found.whole)
        ended = time.monotonic()
        self._next_count = ended + REST * (ended - began)


class HostWatch:
    """Watches one command. `memory` is the most that its processes may use together, None where a cgroup sees to it."""

    def __init__(self, disk: HostDisk, memory: int | None) -> None:
        self._disk = disk
        self._memory = memory
        self._held = 0

    async def begin(self) -> None:
        await _in_thread(partial(self._disk.look, must_know=False))
        self._held = max(self._disk.use.used or 0, self._disk.use.limit)

    async def until_broken(self, pid: int) -> str:
        """Waits until the processes below `pid` use more than they may, and says what; for ever where they do not."""
        began = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_S)
            old = time.monotonic() - began >= FIRST_COUNT_S
            broken = await _in_thread(partial(self._look, pid, must_know=old))
            if broken is not None:
                return f"ended: {broken}"

    async def end(self) -> str | None:
        """What is to be said of the disk after the command."""
        use = self._disk.use
        await _in_thread(partial(self._disk.look, must_know=False))
        if use.full:
            await _in_thread(self._disk.count)
        return use.describe() if use.full else None

    def _look(self, pid: int, *, must_know: bool) -> str | None:
        if self._memory is not None and memory_of(pid, self._memory) > self._memory:
            return f"its processes used more than the {self._memory // 2**20:,} MiB of memory that they may have"
        self._disk.look(must_know=must_know)
        use = self._disk.use
        # One that found too much may make it less.
        return use.describe() if use.full and (use.used or 0) > self._held else None


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, call)
