"""How much a sandbox on this host uses: memory of a tree of processes, space of some directories."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.sandbox.deletion import OPEN_DIRECTORY

ENTRY_BYTES = 4096
"""What a name of a file counts for at least, so that they are bounded too, and with them the time of a count: a disk
has a place for about one file in every 16 KiB, as ext4 is made."""
_STEP = 1000
"""Entries that are counted at once, and names that are held as one text: a million of them take a few MiB then."""

NICENESS = 10
"""A process of it gets about a tenth of the time that the server gets where both want all of it."""

_MARGIN = 64 * 2**20
"""Bytes that may have been written beyond the limit before a count is made at once; an eighth of a larger limit."""

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
        self.grown = 0
        """Bytes that may have been added since the last count."""
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
        return (self.used or 0) + self.grown + size <= self.limit

    @property
    def pressing(self) -> bool:
        """Whether it may be so much too much that nothing more may be written before a count."""
        return not self.has_room(-max(_MARGIN, self.limit // 8))

    def saw(self, free: int) -> None:
        """Takes note of the disk's free space, in bytes."""
        if self._free is not None:
            self.grown += max(0, self._free - free)
        self._free = free

    def counted(self, used: int, *, whole: bool, meanwhile: int = 0) -> None:
        """Takes note of a count, in bytes. One that is not whole, since something was closed to it, is not believed to
        be less than what is known otherwise. `meanwhile` may have been written while it was made."""
        if not whole:
            used = max(used, (self.used or 0) + self.grown)
        self.used = used
        self.grown = meanwhile

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
    """What directories take with everything in them, in one go. Blocks."""
    tally = Tally(roots)
    for _ in tally.steps():
        pass
    return tally.found


class Tally:
    """A count of what directories take on the disk, by its blocks, made in steps of about a millisecond each.

    No link is followed. The blocks of a file with several names count once, but each name counts for at least
    `ENTRY_BYTES`. It goes down and up by descriptors, since a tree may be deeper than a path can be long. If a process
    moves the directory that the count is in, there is no way back, and the count is not whole.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._entries = 0
        self._linked: set[int] = set()
        self._used = 0
        self._whole = True

    @property
    def found(self) -> Count:
        return Count(self._used, self._whole)

    def steps(self) -> Iterator[None]:
        """Does the count, pausing after every `_STEP` entries."""
        for root in self._roots:
            with suppress(FileNotFoundError):
                yield from self._tree(os.open(root, OPEN_DIRECTORY))

    def _tree(self, current: int) -> Iterator[None]:
        above: list[tuple[tuple[int, int], Iterator[bytes]]] = []
        try:
            pending = yield from self._directory(current)
            while True:
                name = next(pending, None)
                if name is not None:
                    if (below := self._open(name, current)) is not None:
                        above.append((_identity(os.fstat(current)), pending))
                        current = _exchange(current, below)
                        pending = yield from self._directory(current)
                elif above:
                    expected, pending = above.pop()
                    current = _exchange(current, os.open("..", OPEN_DIRECTORY, dir_fd=current))
                    if _identity(os.fstat(current)) != expected:
                        self._whole = False
                        return
                else:
                    return
        except OSError:  # the way back is closed
            self._whole = False
        finally:
            os.close(current)

    def _open(self, name: bytes, parent: int) -> int | None:
        try:
            return os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # closed to us
            self._whole = False
        return None

    def _directory(self, directory: int) -> Generator[None, None, Iterator[bytes]]:
        """Counts what is in a directory, and returns the names of the directories in it."""
        packed: list[bytes] = []
        names: list[bytes] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                status = self._status(entry)
                if status is not None and stat.S_ISDIR(status.st_mode):
                    names.append(os.fsencode(entry.name))
                self._entries += 1
                if self._entries % _STEP == 0:
                    yield
                if len(names) == _STEP:
                    packed.append(b"\0".join(names))
                    names.clear()
        packed.append(b"\0".join(names))
        return (name for batch in packed if batch for name in batch.split(b"\0"))

    def _status(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError:  # closed to us
            self._whole = False
            return None
        self._add(status)
        return status

    def _add(self, status: os.stat_result) -> None:
        size = max(ENTRY_BYTES, status.st_blocks * 512)
        if size > ENTRY_BYTES and status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            file = status.st_dev << 64 | status.st_ino
            if file in self._linked:
                size = ENTRY_BYTES
            self._linked.add(file)
        self._used += size


def _exchange(old: int, new: int) -> int:
    os.close(old)
    return new


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


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


class MemoryUse:
    """What a process and its descendants use of the memory, known by looks at it."""

    def __init__(self, limit: int) -> None:
        """`limit` in bytes."""
        self.limit = limit
        self._shared = 0
        self._shared_by_all = shared_memory()

    def look(self, root: int) -> int:
        """Bytes. Shared memory counts for each process that has it mapped, and what others on this host have shared
        since the last look counts too, unless that makes it more than the limit. Then all is counted exactly, which
        takes the kernel longer and has the processes stopped meanwhile. Blocks."""
        appeared = max(0, shared_memory() - self._shared_by_all)
        resident = sum(map(_resident, _tree(root)))
        if resident + self._shared + appeared <= self.limit:
            return resident + self._shared + appeared
        with Standstill() as standstill:
            standstill.stop(root)
            own = sum(map(_unshared, _tree(root)))
            self._shared = _shared_by(root)
            self._shared_by_all = shared_memory()
            return own + self._shared


def shared_memory() -> int:
    """Bytes of memory on this host that lie in files: shared mappings, System V segments, tmpfs."""
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_bytes().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Shmem:")), 0)
    return 0


def _shared_by(root: int) -> int:
    """Bytes of such memory that the descendants of a process have made: given back by `MADV_DONTNEED`, it stays in its
    file, and no process has it mapped."""
    held = unnamed(root, {_memory_device()}).used
    with suppress(OSError):
        if os.stat(f"/proc/{root}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
            status = os.statvfs(f"/proc/{root}/root/dev/shm")
            held += (status.f_blocks - status.f_bfree) * status.f_frsize
    return held


@cache
def _memory_device() -> int:
    """The device of files that the kernel makes for shared mappings, System V segments and `memfd_create`."""
    file = os.memfd_create("palimpsest", os.MFD_CLOEXEC)
    try:
        return os.fstat(file).st_dev
    finally:
        os.close(file)


class Standstill:
    """Has processes stopped until it is left."""

    def __init__(self) -> None:
        self._stopped: list[int] = []

    def __enter__(self) -> Standstill:
        return self

    def stop(self, root: int) -> None:
        """Stops what descends from a process. Blocks."""
        # A parent is stopped before its children, and continues after them, so that it does not see them stopped.
        while new := [pid for pid in _tree(root) if pid != root and pid not in self._stopped]:
            _signal(new, signal.SIGSTOP)
            self._stopped += new

    def __exit__(self, *_: object) -> None:
        _signal(reversed(self._stopped), signal.SIGCONT)


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


def _unshared(pid: int) -> int:
    """What the process uses but shared memory, and its part of the files that others have mapped too."""
    try:
        lines = Path(f"/proc/{_living(pid)}/smaps_rollup").read_bytes().splitlines()
    except OSError:  # closed to us, as it may be in a container
        return _resident(pid)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"Pss_Anon:", b"Pss_File:")))


def can_see_trees() -> bool:
    """Whether this kernel tells a process's children."""
    return os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
