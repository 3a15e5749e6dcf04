"""The processes of a sandbox on this host, seen from outside: all descendants of one process."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

NICENESS = 10
"""Under contention, one of its processes gets about a tenth of the server's CPU time."""

# linux/kcmp.h, and the number of the system call on each machine
MEMORY, FILES = 1, 2
_KCMP = {"x86_64": 312, "aarch64": 272}


def put_behind(root: int) -> None:
    """Lowers the CPU priority of a process's descendants to their niceness. The kernel applies niceness only within an
    autogroup, and each process that calls `setsid` starts a new one (man 7 sched). Blocks."""
    for pid in tree(root):
        with suppress(OSError):  # it has ended, or this kernel has no autogroups
            group = Path(f"/proc/{pid}/autogroup")
            if not group.read_text().endswith(f" nice {NICENESS}\n"):
                group.write_text(str(NICENESS))


def descendants(root: int) -> int:
    """The number of a process's descendants."""
    return sum(1 for _ in tree(root)) - 1


class Standstill:
    """Keeps processes stopped until exit. Several may hold the same process; the last one lets it continue."""

    _holders: ClassVar[Counter[int]] = Counter()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._stopped: list[int] = []

    def __enter__(self) -> Standstill:
        return self

    def stop(self, root: int) -> None:
        """Stops the descendants of a process. Blocks."""
        # A parent is stopped before its children and continues after them, so that it never sees them stopped.
        while new := [pid for pid in tree(root) if pid != root and pid not in self._stopped]:
            with self._lock:
                self._holders.update(new)
                self._stopped += new
                _signal(new, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._holders.subtract(self._stopped)
            free = [pid for pid in reversed(self._stopped) if self._holders[pid] <= 0]
            for pid in free:
                del self._holders[pid]
            _signal(free, signal.SIGCONT)


def continue_all(root: int) -> None:
    """Has all that descends from a process continue, whoever stopped it. Blocks."""
    _signal((pid for pid in tree(root) if pid != root), signal.SIGCONT)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def running_below(root: int) -> int:
    """The number of a process's descendants that have not ended; 0 if this kernel does not list children. Blocks."""
    return sum(1 for pid in tree(root) if pid != root and pages(living(pid)))


def shell_below(init: int) -> int | None:
    """A pidfd of the first process of a PID namespace that its init has started; -1 once that has ended, or if this
    kernel does not list children; None before it is started. Blocks."""
    if not os.path.exists(f"/proc/{init}/task/{init}/children"):
        return -1
    children = list(_children(init))
    for pid in children:
        with suppress(OSError, StopIteration):
            status = Path(f"/proc/{pid}/status").read_bytes().splitlines()
            numbers = next(line for line in status if line.startswith(b"NSpid:"))
            if numbers.split()[-1] == b"2":
                return os.pidfd_open(pid)
    return -1 if children else None


def tree(root: int) -> Iterator[int]:
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


def tasks(pid: int) -> list[int]:
    """The threads of a process. Each may have opened its own files, and the first, whose number is the process's, may
    have ended before the others: then the kernel shows nothing under the process's number."""
    with suppress(OSError):
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    return []


def living(pid: int) -> int:
    """A number that shows a process's memory and mappings: another thread's if the first has ended."""
    return pid if pages(pid) else next(filter(pages, tasks(pid)), pid)


def pages(task: int) -> int:
    """Resident memory of a thread's process, in pages; 0 if it has ended."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{task}/statm").read_bytes().split()[1])
    return 0


def shares(first: int, second: int, what: int) -> bool | None:
    """Whether two threads share their memory (`MEMORY`) or their table of open files (`FILES`); None if the kernel does
    not say."""
    number = _KCMP.get(platform.machine())
    order = -1 if number is None else ctypes.CDLL(None).syscall(number, first, second, what, 0, 0)
    return None if order < 0 else order == 0


def can_see_trees() -> bool:
    """Whether this kernel lists a process's children."""
    return os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
