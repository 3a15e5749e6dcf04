"""How much memory a tree of processes on this host uses, for hosts without a cgroup."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from app.sandbox.process_tree import MEMORY, Standstill, living, pages, shares, tree
from app.sandbox.usage import unnamed

_PAGE = os.sysconf("SC_PAGE_SIZE")


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
