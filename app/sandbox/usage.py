"""How much a sandbox on this host uses: memory of a tree of processes, space of some directories."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ENTRY_BYTES = 4096
"""What a file counts for at least, so that empty ones are bounded too: a disk has a place for about one file in every
16 KiB, as ext4 is made."""

NICENESS = 10
"""A process of it gets about a tenth of the time that the server gets where both want all of it."""

_PAGE = os.sysconf("SC_PAGE_SIZE")

_MOST_TASKS = 64
"""Threads of one process whose open files are looked at; one that has more is not looked at as a whole."""


class DiskUse:
    """An account of what one session has on the disk, kept between its commands.

    To count it all takes time, so it is counted rarely: the disk's free space, which is asked for often and costs
    nothing, says how much can have been added since. What others write is taken for the session's meanwhile, which only
    leads to another count.
    """

    def __init__(self, limit: int) -> None:
        """`limit` in bytes."""
        self.limit = limit
        self.used: int | None = None
        """As last counted."""
        self._grown = 0
        self._free: int | None = None

    @property
    def full(self) -> bool:
        return self.used is not None and self.used > self.limit

    @property
    def doubtful(self) -> bool:
        """Whether it may be too much, by what is known without a count."""
        return not self.has_room(0)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more are within the limit, by what is known without a count."""
        return (self.used or 0) + self._grown + size <= self.limit

    def saw(self, free: int) -> None:
        """Takes note of the disk's free space, in bytes."""
        if self._free is not None:
            self._grown += max(0, self._free - free)
        self._free = free

    def counted(self, used: int, *, whole: bool) -> None:
        """Takes note of a count. One that is not whole, since something was closed to it, is not believed to be less
        than what is known otherwise."""
        if not whole:
            used = max(used, (self.used or 0) + self._grown)
        self.used = used
        self._grown = 0

    def describe(self) -> str:
        """For the model: how much there is of what may be there, and what that means where it is full."""
        return (
            f"the workspace, with /tmp and the home directory, holds {(self.used or 0) / 2**20:,.0f} MiB, of"
            f" {self.limit / 2**20:,.0f} MiB that it may have"
        ) + ("; until it is less, commands can delete but not write" if self.full else "")


@dataclass(frozen=True, slots=True)
class Count:
    """Bytes on the disk; `whole` is False where a directory could not be looked into."""

    used: int
    whole: bool


def free_space(path: Path) -> int:
    """Free bytes of the disk that holds `path`, each free place for a file counted with what a file counts for."""
    status = os.statvfs(path)
    return status.f_bfree * status.f_frsize + status.f_ffree * ENTRY_BYTES


def count(roots: Sequence[Path]) -> Count:
    """What directories take with all that is in them, by the blocks on the disk. No link is followed, and a file of
    several names counts once. Blocks."""
    used, whole = 0, True
    linked: set[tuple[int, int]] = set()
    pending = [os.fsencode(root) for root in roots]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(status.st_mode):
                            pending.append(entry.path)
                        elif status.st_nlink > 1:
                            if (status.st_dev, status.st_ino) in linked:
                                continue
                            linked.add((status.st_dev, status.st_ino))
                        used += max(ENTRY_BYTES, status.st_blocks * 512)
        except FileNotFoundError:
            continue
        except OSError:  # closed to us, or too deep for a path
            whole = False
    return Count(used, whole)


def unnamed(root: int, devices: Collection[int]) -> Count:
    """What files without a name take that the descendants of the process `root` hold open or mapped, each counted once,
    on the disks `devices`. `whole` is False where a process cannot be looked into, or has sent files that nobody has
    taken yet. Blocks."""
    sizes: dict[tuple[int, int], int] = {}
    whole = True
    for pid in _tree(root):
        tasks, living = _tasks(pid), _living(pid)
        whole &= len(tasks) <= _MOST_TASKS
        for task in tasks[:_MOST_TASKS]:
            try:
                for path in (*_links(f"/proc/{task}/fd"), *(_mapped(task) if task == living else ())):
                    with suppress(FileNotFoundError):
                        status = os.stat(path)
                        if stat.S_ISSOCK(status.st_mode):
                            whole &= not _has_files_on_the_way(path.replace("/fd/", "/fdinfo/"))
                        elif stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev in devices:
                            sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            except OSError:
                whole = False
    return Count(sum(sizes.values()), whole)


def _links(directory: str) -> list[str]:
    return [f"{directory}/{name}" for name in os.listdir(directory)]


def _mapped(pid: int) -> list[str]:
    with suppress(PermissionError):  # root alone may look
        return _links(f"/proc/{pid}/map_files")
    return []


def _has_files_on_the_way(path: str) -> bool:
    with suppress(OSError):
        line = next((line for line in Path(path).read_bytes().splitlines() if line.startswith(b"scm_fds:")), b": 0")
        return int(line.split()[1]) > 0
    return False


def put_behind(root: int) -> None:
    """Gives all that descends from a process as little of the processor as its niceness says. The kernel looks at that
    within an autogroup alone, and each process that calls `setsid` begins a new one (man 7 sched). Blocks."""
    for pid in _tree(root):
        with suppress(OSError):  # it has ended, or this kernel has no autogroups
            group = Path(f"/proc/{pid}/autogroup")
            if not group.read_text().endswith(f" nice {NICENESS}\n"):
                group.write_text(str(NICENESS))


def descendants(root: int) -> int:
    """How many processes descend from one."""
    return sum(1 for _ in _tree(root)) - 1


def memory_of(root: int, limit: int) -> int:
    """Bytes of memory that a process and its descendants use together. What several share counts for each, unless that
    makes it more than `limit`: then it is counted once, which takes the kernel longer, and they stand still for it."""
    tree = list(_tree(root))
    resident = sum(map(_resident, tree))
    if resident <= limit:
        return resident
    _signal(tree, signal.SIGSTOP)
    try:
        return sum(map(_proportional, tree))
    finally:
        _signal(tree, signal.SIGCONT)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def _tree(root: int) -> Iterator[int]:
    pending, seen = [root], {root}
    while pending:
        pid = pending.pop()
        yield pid
        below = [child for child in _children(pid) if child not in seen]
        seen.update(below)
        pending.extend(below)


def _children(pid: int) -> Iterable[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split())
    return found


def _tasks(pid: int) -> list[int]:
    """The threads of a process. Each may have opened files of its own, and the first, whose number is the process's,
    may have ended before the others: the kernel shows nothing of the process under that number then."""
    with suppress(OSError):
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    return []


def _living(pid: int) -> int:
    """A number by which memory and mappings of a process are seen: that of a thread where the first has ended."""
    return pid if _pages(pid) else next(filter(_pages, _tasks(pid)), pid)


def _resident(pid: int) -> int:
    return (_pages(pid) or _pages(_living(pid))) * _PAGE


def _pages(task: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{task}/statm").read_bytes().split()[1])
    return 0


def _proportional(pid: int) -> int:
    """What the process uses, and its part of what it shares."""
    try:
        lines = Path(f"/proc/{_living(pid)}/smaps_rollup").read_bytes().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:")), 0)
    except OSError:  # closed to us, as it may be in a container
        return _resident(pid)


def can_see_trees() -> bool:
    """Whether this kernel tells a process's children."""
    return os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
