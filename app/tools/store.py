"""Raw outputs in files: `{directory}/{session_id}/{call_id}`."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from app.errors import NotFoundError, StorageError, StorageFullError

MAX_WAITING_BYTES = 4 * 1024 * 1024
"""Maximum bytes of one output that wait for the disk. Above it `add` blocks until the current write ends, the only way
to slow down a flood, since a sink cannot await; a disk takes 4 MiB in a few milliseconds."""

BATCH_BYTES = 64 * 1024
"""Minimum bytes for a write in a thread, which costs about 20 µs; fewer wait for more or for the end."""

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)


class FileOutputWriter:
    """Appends to one file in a thread; bytes that arrive during a write are written together."""

    def __init__(self, path: Path, pool: ThreadPoolExecutor) -> None:
        self._path = path
        self._pool = pool
        self._waiting = bytearray()
        self._job: Future[None] | None = None
        self._closing: Future[int] | None = None
        self._fd: int | None = None
        self._stored = 0
        self._failed = False

    def add(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) < BATCH_BYTES:
            return
        if self._job is not None and not self._job.done():
            if len(self._waiting) < MAX_WAITING_BYTES:
                return
            self._job.result()
        self._job = self._pool.submit(self._write, self._take())

    def flush(self) -> None:
        if self._waiting and (self._job is None or self._job.done()):
            self._job = self._pool.submit(self._write, self._take())

    async def close(self) -> int:
        if self._closing is None:
            self._closing = self._pool.submit(self._close, self._job, self._take())
        return await asyncio.shield(asyncio.wrap_future(self._closing))

    def _take(self) -> bytearray:
        waiting, self._waiting = self._waiting, bytearray()
        return waiting

    def _write(self, data: bytearray) -> None:
        if self._failed:
            return
        try:
            if self._fd is None:
                self._fd = self._open()
            view = memoryview(data)
            while view:
                written = os.write(self._fd, view)
                self._stored += written
                view = view[written:]
        except OSError:
            # A full disk costs the stored copy, not the call: `close` reports how much was stored.
            self._failed = True

    def _open(self) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _close(self, job: Future[None] | None, rest: bytearray) -> int:
        if job is not None:
            job.result()  # Submitted earlier to the same pool, hence started: waiting here cannot deadlock it.
        self._write(rest)
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        return self._stored


class FileOutputStore:
    """An `OutputStore` in its own directory, created on first use with mode 0700."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="output-store")

    def path(self, key: str) -> Path:
        """The file of a stored output, for range reads. Raises `NotFoundError` for an invalid key."""
        session_id, slash, call_id = key.partition("/")
        if not slash:
            raise NotFoundError("There is no such output.", code="output_not_found")
        return self._session_directory(session_id) / self._checked(call_id)

    def writer(self, key: str) -> FileOutputWriter:
        """A writer that replaces what is stored under `key`."""
        return FileOutputWriter(self.path(key), self._pool)

    async def size(self, key: str) -> int:
        """Bytes stored under `key`. Raises `NotFoundError`."""
        path = self.path(key)
        try:
            return (await asyncio.to_thread(path.stat)).st_size
        except FileNotFoundError as exc:
            raise NotFoundError("There is no such output.", code="output_not_found") from exc

    async def sizes(self, keys: Sequence[str]) -> list[int]:
        """Bytes that each of these keys takes on the disk, 0 where there is nothing."""
        return await asyncio.to_thread(lambda: [_size(self.path(key)) for key in keys])

    async def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """At most `length` bytes from `start` on, or all of them. Raises `NotFoundError`."""
        try:
            return await asyncio.to_thread(_read_range, self.path(key), start, length)
        except FileNotFoundError as exc:
            raise NotFoundError("There is no such output.", code="output_not_found") from exc

    async def copy(self, keys: Mapping[str, str]) -> None:
        """Stores what is under a key under another one too; missing outputs are skipped. It takes no space if the disk
        supports hard links. Raises `StorageError` if the disk refuses."""
        pairs = [(self.path(old), self.path(new)) for old, new in keys.items()]
        try:
            await asyncio.to_thread(_copy_all, pairs)
        except OSError as exc:
            kind = StorageFullError if exc.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
            raise kind(f"Raw outputs cannot be copied: {exc.strerror}.") from exc

    async def delete(self, keys: Iterable[str]) -> None:
        """Removes what is stored under these keys; missing outputs are no error."""
        await asyncio.to_thread(_delete_all, [self.path(key) for key in keys])

    async def remove_orphans(self, live_sessions: Collection[str]) -> None:
        """Removes the outputs of all other sessions."""
        await asyncio.to_thread(_delete_others, self._directory, frozenset(live_sessions))

    async def delete_session(self, session_id: str) -> None:
        """Removes all outputs of a session, if any."""
        await asyncio.to_thread(shutil.rmtree, self._session_directory(session_id), ignore_errors=True)

    async def aclose(self) -> None:
        """Ends the store's threads after the pending writes."""
        await asyncio.to_thread(self._pool.shutdown)

    def _session_directory(self, session_id: str) -> Path:
        return self._directory / self._checked(session_id)

    def _checked(self, segment: str) -> str:
        if _SEGMENT.fullmatch(segment) is None:
            raise NotFoundError("There is no such output.", code="output_not_found")
        return segment


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except OSError:
        return 0
    return max(found.st_size, found.st_blocks * 512)  # the smallest file takes a block


def _copy_all(pairs: Iterable[tuple[Path, Path]]) -> None:
    for old, new in pairs:
        new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            try:
                os.link(old, new)
            except FileNotFoundError:
                raise
            except OSError:  # no hard links here, or too many of this file
                shutil.copyfile(old, new)


def _delete_all(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _delete_others(directory: Path, names: frozenset[str]) -> None:
    if directory.is_dir():
        for path in directory.iterdir():
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)


def _read_range(path: Path, start: int, length: int | None) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(-1 if length is None else length)
