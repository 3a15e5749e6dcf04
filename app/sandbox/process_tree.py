"""The processes of a sandbox on this host, seen from outside: all that descends from one of them."""

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
"""A process of it gets about a tenth of the time that the server gets where both want all of it."""

# linux/kcmp.h, and the number of the call on each machine
MEMORY, FILES = 1, 2
_KCMP = {"x86_64": 312, "aarch64": 272}


def put_behind(root: int) -> None:
    """Gives all that descends from a process as little of the processor as its niceness says. The kernel looks at that
    within an autogroup alone, and each process that calls `setsid` begins a new one (man 7 sched). Blocks."""
    for pid in tree(root):
        with suppress(OSError):  # it has ended, or this kernel has no autogroups
            group = Path(f"/proc/{pid}/autogroup")
            if not group.read_text().endswith(f" nice {NICENESS}\n"):
                group.write_text(str(NICENESS))


def descendants(root: int) -> int:
    """How many processes descend from one."""
    return sum(1 for _ in tree(root)) - 1


class Standstill:
    """Has processes stopped until it is left. Several may hold the same process, and the last one has it continue."""

    _holders: ClassVar[Counter[int]] = Counter()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._stopped: list[int] = []

    def __enter__(self) -> Standstill:
        return self

    def stop(self, root: int) -> None:
        """Stops what descends from a process. Blocks."""
        # A parent is stopped before its children, and continues after them, so that it does not see them stopped.
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
    """The threads of a process. Each may have opened files of its own, and the first, whose number is the process's,
    may have ended before the others: the kernel shows nothing of the process under that number then."""
    with suppress(OSError):
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    return []


def living(pid: int) -> int:
    """A number by which memory and mappings of a process are seen: that of a thread where the first has ended."""
    return pid if pages(pid) else next(filter(pages, tasks(pid)), pid)


def pages(task: int) -> int:
    """Memory that a thread's process has resident, in pages; 0 where it has ended."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{task}/statm").read_bytes().split()[1])
    return 0


def shares(first: int, second: int, what: int) -> bool | None:
    """Whether two threads share their memory (`MEMORY`) or their table of open files (`FILES`); None where the kernel
    does not tell."""
    number = _KCMP.get(platform.machine())
    order = -1 if number is None else ctypes.CDLL(None).syscall(number, first, second, what, 0, 0)
    return None if order < 0 else order == 0


def can_see_trees() -> bool:
    """Whether this kernel tells a process's children."""
    return os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
