"""Information on processes from /proc: resource use, children, and which are alive."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process holds: resident memory in MB (10^6 bytes), open files without its sockets, sockets and threads;
    and if the process was asked, Python's own count of its small blocks of memory, and its threads by their pools."""

    rss_mb: float
    files: int
    sockets: int
    threads: int
    blocks: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)


def cost_of(pid: int) -> Cost:
    """A process's current resources. Raises `OSError` if it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "VmRSS" not in fields:
        raise ProcessLookupError(f"{pid} has ended and nobody has taken note of it yet")
    opened = _opened(pid)
    sockets = sum(name.startswith("socket:") for name in opened)
    rss_mb = int(fields["VmRSS"].split()[0]) * 1024 / 1e6
    return Cost(rss_mb, len(opened) - sockets, sockets, int(fields["Threads"]))


def _opened(pid: int) -> list[str]:
    """What the process has open, by the kernel's names."""
    names: list[str] = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            names.append(os.readlink(f"/proc/{pid}/fd/{number}"))
    return names


def connections_of(pid: int) -> list[str]:
    """A process's TCP sockets, each as its state and the two ports, all in hexadecimal as the kernel shows them."""
    own = {name for name in _opened(pid) if name.startswith("socket:")}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return [f"{row[3]} {row[1][9:]}-{row[2][9:]}" for row in rows if f"socket:[{row[9]}]" in own]


def children_of(pid: int) -> list[int]:
    """Processes whose parent this is, zombies too."""
    return [child for child, (parent, _) in _table().items() if parent == pid]


def descendants_of(pid: int) -> list[int]:
    """All processes below this one."""
    table = _table()
    found: list[int] = []
    layer = [pid]
    while layer:
        layer = [child for child, (parent, _) in table.items() if parent in layer]
        found += layer
    return found


def marked(digits: str) -> dict[int, str]:
    """Processes that sleep for a time with these digits, which only commands of this run do; with their start, so that
    no later process of the same number is taken for one."""
    found: dict[int, str] = {}
    for pid, (_, start) in _table().items():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"sleep" in words and any(word.endswith(f".{digits}".encode()) for word in words):
                found[pid] = start
    return found


def alive(processes: dict[int, str]) -> list[int]:
    """Those that have not ended since."""
    table = _table()
    return [pid for pid, start in processes.items() if pid in table and table[pid][1] == start]


def kill_one(pids: Collection[int], pick: float) -> bool:
    """Kills one of these processes; returns whether there was one."""
    ordered = sorted(pids)
    if not ordered:
        return False
    with suppress(ProcessLookupError):
        os.kill(ordered[int(pick * len(ordered))], signal.SIGKILL)
    return True


def _table() -> dict[int, tuple[int, str]]:
    """Parent and start, in ticks since boot, of each process."""
    table: dict[int, tuple[int, str]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                table[int(name)] = (int(fields[1]), fields[19])
    return table
