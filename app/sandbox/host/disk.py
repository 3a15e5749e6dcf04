"""Disk usage of a session on this host: directories, and unlinked files that its processes hold open."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.host.directories import OPEN_DIRECTORY
from app.sandbox.host.process_tree import FILES, living, shares, tasks, tree

ENTRY_BYTES = 4096
"""Minimum size counted for each file name, which also limits the number of files and so the time of a count; ext4 by
default has about one inode for every 16 KiB."""
_STEP = 1000
"""Entries counted per step, and names kept in one string: a million of them then take a few MiB."""

_MOST_TASKS = 64
"""Threads of one process that are checked if the kernel does not say whether they share their open files."""

_MARGIN = 64 * 2**20
"""Bytes that may have been written beyond the limit before an immediate count; an eighth of a larger limit."""


class DiskUse:
    """One session's disk usage, kept between its commands.

    A full count takes time, so it is done rarely: the disk's free space, which is cheap to read often, limits how much
    can have been added since. Writes by others are attributed to the session meanwhile, which only leads to another
    count.
    """

    def __init__(self, limit: int) -> None:
        """`limit` in bytes."""
        self.limit = limit
        self.used: int | None = None
        """Bytes at the last count."""
        self.grown = 0
        """Bytes that may have been added since the last count."""
        self._free: int | None = None

    @property
    def full(self) -> bool:
        return self.used is not None and self.used > self.limit

    @property
    def doubtful(self) -> bool:
        """Whether the limit may be exceeded, as far as known without a count."""
        return not self.has_room(0)

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes fit the limit, as far as known without a count."""
        return (self.used or 0) + self.grown + size <= self.limit

    @property
    def pressing(self) -> bool:
        """Whether the limit may be exceeded by so much that nothing more may be written before a count."""
        return not self.has_room(-max(_MARGIN, self.limit // 8))

    def saw(self, free: int) -> None:
        """Records the disk's free space, in bytes."""
        if self._free is not None:
            self.grown += max(0, self._free - free)
        self._free = free

    def counted(self, used: int, *, whole: bool, meanwhile: int = 0) -> None:
        """Records a count, in bytes. A partial count never lowers the known usage. `meanwhile` may have been written
        during the count."""
        if not whole:
            used = max(used, (self.used or 0) + self.grown)
        self.used = used
        self.grown = meanwhile

    def describe(self) -> str:
        """For the model: usage, limit, and the consequence if it is full."""
        return (
            f"the workspace, with /tmp and the home directory, holds {(self.used or 0) / 2**20:,.0f} MiB, of"
            f" {self.limit / 2**20:,.0f} MiB allowed"
        ) + ("; until space is freed, commands can delete files but not write any" if self.full else "")


@dataclass(frozen=True, slots=True)
class Count:
    """Bytes on the disk; `whole` is False if a directory could not be read."""

    used: int
    whole: bool


def free_space(path: Path) -> int:
    """Free bytes of the disk that holds `path`; each free inode counts for `ENTRY_BYTES`."""
    status = os.statvfs(path)
    return status.f_bfree * status.f_frsize + status.f_ffree * ENTRY_BYTES


def count(roots: Sequence[Path]) -> Count:
    """Counts directories with everything in them, in one go. Blocks."""
    tally = Tally(roots)
    for _ in tally.steps():
        pass
    return tally.found


class Tally:
    """A count of the disk blocks of directories, in steps of about a millisecond each.

    No link is followed. The blocks of a file with several names count once, but each name counts for at least
    `ENTRY_BYTES`. It moves down and up by descriptors, since a tree may be deeper than a path can be long. If a process
    moves the directory being counted, there is no way back, and the count is partial.
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
        """Counts, pausing after every `_STEP` entries."""
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
        except OSError:  # no way back
            self._whole = False
        finally:
            os.close(current)

    def _open(self, name: bytes, parent: int) -> int | None:
        try:
            return os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # no access
            self._whole = False
        return None

    def _directory(self, directory: int) -> Generator[None, None, Iterator[bytes]]:
        """Counts the entries of a directory, and returns the names of its subdirectories."""
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
        except OSError:  # no access
            self._whole = False
            return None
        self._add(status)
        return status

    def _add(self, status: os.stat_result) -> None:
        size = max(ENTRY_BYTES, status.st_blocks * 512)
        if size > ENTRY_BYTES and status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            file = _number(status)
            if file in self._linked:
                size = ENTRY_BYTES
            self._linked.add(file)
        self._used += size


def _exchange(old: int, new: int) -> int:
    os.close(old)
    return new


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class HeldFiles:
    """A count of unlinked files that the descendants of the process `root` hold open or mapped, on the disks `devices`,
    made in steps like a tally. Each file counts once. The count is partial if a process cannot be read, or has sent
    files that nobody has received yet."""

    def __init__(self, root: int, devices: Collection[int]) -> None:
        self._root = root
        self._devices = devices
        self._sizes: dict[int, int] = {}
        self._whole = True

    @property
    def found(self) -> Count:
        return Count(sum(self._sizes.values()), self._whole)

    def steps(self) -> Iterator[None]:
        """Counts, pausing after every `_STEP` files and after each process."""
        for pid in list(tree(self._root)):
            for task in self._tables(pid):
                yield from self._files(f"/proc/{task}/fd")
            yield from self._files(f"/proc/{living(pid)}/map_files", closed_is_fine=True)  # only root may read it
            yield

    def _tables(self, pid: int) -> Iterator[int]:
        """One thread for each table of open files of the process; usually all share one."""
        first = living(pid)
        yield first
        others = (task for task in tasks(pid) if task != first)
        for number, task in enumerate(others):
            shared = shares(first, task, FILES)
            if shared is None and number >= _MOST_TASKS:
                self._whole = False
                return
            if not shared:
                yield task

    def _files(self, directory: str, *, closed_is_fine: bool = False) -> Iterator[None]:
        try:
            with os.scandir(directory) as entries:
                for number, entry in enumerate(entries, 1):
                    self._add(entry.path)
                    if number % _STEP == 0:
                        yield
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
        except OSError:
            self._whole &= closed_is_fine

    def _add(self, path: str) -> None:
        with suppress(FileNotFoundError):
            status = os.stat(path)
            if stat.S_ISSOCK(status.st_mode):
                self._whole &= not _has_files_on_the_way(path.replace("/fd/", "/fdinfo/"))
            elif stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev in self._devices:
                self._sizes[_number(status)] = status.st_blocks * 512


def unnamed(root: int, devices: Collection[int]) -> Count:
    """Runs `HeldFiles` in one go. Blocks."""
    held = HeldFiles(root, devices)
    for _ in held.steps():
        pass
    return held.found


def _number(status: os.stat_result) -> int:
    """A file's identity as one number, which takes a third of the memory of a pair."""
    return status.st_dev << 64 | status.st_ino


def _has_files_on_the_way(path: str) -> bool:
    with suppress(OSError):
        with open(path, "rb") as file:
            line = next((line for line in file if line.startswith(b"scm_fds:")), b": 0")
        return int(line.split()[1]) > 0
    return False
