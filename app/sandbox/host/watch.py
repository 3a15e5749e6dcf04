"""Watches a command on this host where the kernel sets no limit: the memory of its tree of processes, and the disk."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from app.sandbox.host.disk import DiskUse, HeldFiles, Tally, free_space, unnamed
from app.sandbox.host.process_tree import MEMORY, Standstill, living, pages, put_behind, shares, tree

T = TypeVar("T")
LOOK_S = 0.1
"""Seconds between two checks. A process fills about 2 GiB of memory or of the page cache in a second."""
FIRST_COUNT_S = 1.0
"""Age of a command at which the workspace is counted for the first time: most have ended by then."""
REST = 10
"""Minimum pause after a count, in multiples of its duration."""
WATCHERS, MAX_WATCHERS = "sandbox-watch", 64
"""The pool for checks and counts, and its maximum number of threads, of which each lasts once it was needed."""
_THREADS = ThreadPoolExecutor(MAX_WATCHERS, thread_name_prefix=WATCHERS)
"""A pool only for checks and counts: commands and files must not wait for a count, nor a check for other counts."""
_COUNTING = threading.Semaphore(2)
"""Held during a step of a count. Parallel steps would keep the event loop waiting for the GIL."""
_TURN_S = 0.001
"""Pause between two steps of a count, which lets others run: small counts do not wait for large ones."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


class HostDisk:
    """One session's disk usage on this host."""

    def __init__(self, roots: Sequence[Path], use: DiskUse, *, mounts: Sequence[Path] = ()) -> None:
        """`mounts` are other mounts through which the sandbox sees the disks of `roots`."""
        self.use = use
        self._roots = roots
        self.mounts = mounts
        self._next_count = 0.0
        self.running: list[int] = []
        """The first processes of the session's commands, oldest first."""
        self.writing = asyncio.Lock()
        """Held while a file is written from outside: each file is counted before the next is written."""

    def look(self, tree: int | None, *, must_know: bool) -> None:
        """Updates the usage; `must_know` forces a count if there was none yet. `tree` is the process whose descendants
        may hold deleted files open, None if nothing runs. Blocks."""
        self._see()
        wanted = self.use.doubtful or (must_know and self.use.used is None)
        if wanted and (self.use.pressing or time.monotonic() >= self._next_count):
            self.count(tree)

    def has_room(self, size: int) -> bool:
        """Whether a file of `size` bytes may be written. Blocks."""
        self.look(None, must_know=True)
        if not self.use.has_room(size):
            self.count(None)
        return self.use.has_room(size)

    def count(self, tree: int | None) -> None:
        """Counts everything. Processes are stopped meanwhile as soon as they may have written far too much. Blocks."""
        self._see()
        began, before = time.monotonic(), self.use.grown
        tally = Tally(self._roots)
        held = HeldFiles(tree, _disks([*self._roots, *self.mounts])) if tree is not None else None
        steps = chain(tally.steps(), held.steps() if held is not None else ())
        with Standstill() as standstill:
            while True:
                if tree is not None and self.use.pressing:
                    standstill.stop(tree)
                with _COUNTING:
                    if next(steps, _END) is _END:
                        break
                time.sleep(_TURN_S)
                self._see()
        found = [tally.found, *([held.found] if held is not None else [])]
        used, whole = sum(each.used for each in found), all(each.whole for each in found)
        self.use.counted(used, whole=whole, meanwhile=self.use.grown - before)
        ended = time.monotonic()
        self._next_count = ended + REST * (ended - began)

    def _see(self) -> None:
        with suppress(OSError):  # the workspace is being removed
            self.use.saw(free_space(self._roots[0]))


_END = object()


def _disks(paths: Sequence[Path]) -> set[int]:
    found = set()
    for path in paths:
        with suppress(OSError):
            found.add(path.stat().st_dev)
    return found


class HostWatch:
    """Watches one command. `memory` is the limit of all its processes in bytes, None if a cgroup enforces it."""

    def __init__(self, disk: HostDisk, memory: int | None) -> None:
        self._disk = disk
        self._memory_limit = memory
        self._memory: MemoryUse | None = None
        self._held = 0

    def begin(self) -> None:
        """Notes what was used before the command. Blocks."""
        if self._memory_limit is not None:
            self._memory = MemoryUse(self._memory_limit)
        self._disk.look(None, must_know=False)
        if self._disk.use.doubtful:  # The command must not be ended for earlier writes.
            self._disk.count(None)
        self._held = max(self._disk.use.used or 0, self._disk.use.limit)

    async def until_broken(self, pid: int) -> str:
        """Waits until the processes below `pid` exceed a limit and returns which; waits forever if they do not."""
        watches = [asyncio.ensure_future(self._until_too_much_disk(pid))]
        before = list(self._disk.running)
        if self._memory is not None:
            watches.append(asyncio.ensure_future(self._until_too_much_memory(pid, self._memory, before)))
        self._disk.running.append(pid)
        try:
            finished, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            return f"ended: {finished.pop().result()}"
        finally:
            self._disk.running.remove(pid)
            for watch in watches:
                watch.cancel()
            await asyncio.wait(watches)

    async def _until_too_much_memory(self, pid: int, memory: MemoryUse, before: Sequence[int]) -> str:
        """The commands `before` this one, which run in the background, share its limit; the newest one is ended."""
        while True:
            await asyncio.sleep(LOOK_S)
            others = [other for other in before if other in self._disk.running]
            if await in_thread(partial(_used_memory, pid, memory, others)) > memory.limit:
                whose = "its processes and those in the background" if others else "its processes"
                return f"{whose} used more than the {memory.limit // 2**20:,} MiB of memory allowed"

    async def _until_too_much_disk(self, pid: int) -> str:
        began, use = time.monotonic(), self._disk.use
        while True:
            await asyncio.sleep(LOOK_S)
            old = time.monotonic() - began >= FIRST_COUNT_S
            await in_thread(partial(self._disk.look, pid, must_know=old))
            # A command that found the disk full may be deleting files.
            if use.full and (use.used or 0) > self._held:
                return use.describe()

    async def end(self) -> str | None:
        """The remark on disk usage after the command."""
        use = self._disk.use
        await in_thread(partial(self._disk.look, None, must_know=False))
        if use.full:
            await in_thread(partial(self._disk.count, None))
        return use.describe() if use.full else None


def _used_memory(pid: int, memory: MemoryUse, others: Sequence[int]) -> int:
    put_behind(pid)
    return memory.look(pid) + sum(map(_resident, chain.from_iterable(map(tree, others))))


async def in_thread(call: Callable[[], T]) -> T:
    """Runs checks and counts off the event loop and apart from the threads for commands and files."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, call)


class MemoryUse:
    """Memory used by a process and its descendants, measured by polling."""

    def __init__(self, limit: int) -> None:
        """`limit` in bytes."""
        self.limit = limit
        self._hidden = 0
        self._hidden_by_all = hidden_memory()

    def look(self, root: int) -> int:
        """Returns bytes. Shared memory counts for each process that maps it, and unmapped shared memory created on this
        host since the last check also counts, unless that puts the sum above the limit. In that case everything is
        counted exactly, which is slower and stops the processes meanwhile. Blocks."""
        hidden = self._hidden + max(0, hidden_memory() - self._hidden_by_all)
        pids = list(tree(root))
        resident = sum(map(_resident, pids))
        if resident + hidden > self.limit:
            resident = sum(map(_resident, _address_spaces(pids)))
        if resident + hidden <= self.limit:
            return resident + hidden
        with Standstill() as standstill:
            standstill.stop(root)
            spaces = _address_spaces(list(tree(root)))
            own = sum(map(_unshared, spaces))
            self._hidden = _shared_by(root) + sum(map(_page_tables, spaces))
            self._hidden_by_all = hidden_memory()
            return own + self._hidden


def hidden_memory() -> int:
    """Bytes of memory on this host that no process has resident: files in memory, including shared mappings and
    System V segments, and page tables."""
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_bytes().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"Shmem:", b"PageTables:")))
    return 0


def _address_spaces(pids: list[int]) -> list[int]:
    """One process for each address space: until it starts its program, a child by vfork has that of its parent."""
    found: dict[bytes, list[int]] = {}
    for pid in pids:
        with suppress(OSError):
            same = found.setdefault(Path(f"/proc/{living(pid)}/statm").read_bytes(), [])
            if not any(shares(pid, other, MEMORY) for other in same):
                same.append(pid)
    return [pid for same in found.values() for pid in same]


def _shared_by(root: int) -> int:
    """Bytes of hidden memory that the descendants of a process have created: after `MADV_DONTNEED`, memory stays in its
    file although no process has it resident."""
    held = unnamed(root, {_memory_device()}).used
    with suppress(OSError):
        if os.stat(f"/proc/{root}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
            status = os.statvfs(f"/proc/{root}/root/dev/shm")
            held += (status.f_blocks - status.f_bfree) * status.f_frsize
    return held


@cache
def _memory_device() -> int:
    """The device of the files that the kernel creates for shared mappings, System V segments and `memfd_create`."""
    file = os.memfd_create("palimpsest", os.MFD_CLOEXEC)
    try:
        return os.fstat(file).st_dev
    finally:
        os.close(file)


def _resident(pid: int) -> int:
    return (pages(pid) or pages(living(pid))) * _PAGE


def _unshared(pid: int) -> int:
    """Private memory of the process plus its share of the files that others have mapped too."""
    try:
        lines = Path(f"/proc/{living(pid)}/smaps_rollup").read_bytes().splitlines()
    except OSError:  # no access, which happens in a container
        return _resident(pid)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"Pss_Anon:", b"Pss_File:")))


def _page_tables(pid: int) -> int:
    with suppress(OSError):
        lines = Path(f"/proc/{living(pid)}/status").read_bytes().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"VmPTE:")), 0)
    return 0
