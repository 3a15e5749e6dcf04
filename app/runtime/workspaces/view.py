"""A workspace that is on another machine, as its newest snapshot has it: it can be read, not changed."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Literal, cast

from app.errors import SandboxError
from app.runtime.sandboxes.slots import Lease
from app.runtime.workspaces.reading import archive, blobs
from app.runtime.workspaces.store import SessionObjects
from app.runtime.workspaces.taking import Snapshot
from app.runtime.workspaces.tree import Blob, Entry
from app.sandbox import paths, tar
from app.sandbox.base import FileInfo, FilePiece, Sandbox, Scan, TreeEntry
from app.sandbox.host.workspace import Kind

_ENTRY_TYPES: dict[str, Literal["file", "directory", "symlink"]] = {"f": "file", "d": "directory", "l": "symlink"}
_TYPES: dict[str, Kind] = {**_ENTRY_TYPES}


class SnapshotView:
    """The readable part of `Sandbox`, with the same errors."""

    def __init__(self, objects: SessionObjects, snapshot: Snapshot, as_of: datetime) -> None:
        self._objects = objects
        self.as_of = as_of
        self._tree = snapshot.tree
        self._entries = {entry.path: entry for entry in snapshot.tree.entries}

    def lease(self) -> Lease:
        """The view as a sandbox that is held; nothing has to be admitted or released."""

        async def admit(_: float) -> None: ...

        return Lease(cast(Sandbox, self), lambda: None, admit, 0.0, self.as_of)

    async def has_workspace(self) -> bool:
        return True

    async def scan(self, limit: int, skip: frozenset[bytes] = frozenset()) -> Scan:
        """See `Scannable`. The inode of a file tells its content, so that it is the same in a later snapshot."""
        return await asyncio.to_thread(self._scan, limit, skip)

    def _scan(self, limit: int, skip: frozenset[bytes]) -> Scan:
        found: list[TreeEntry] = []
        skipped: set[bytes] = set()
        for entry in self._tree.entries:
            above, _, name = entry.path.rpartition(b"/")
            if above in skipped:
                skipped.add(entry.path)
                continue
            if entry.kind == "d" and name in skip:
                skipped.add(entry.path)
            found.append(self._seen(entry))
        if len(found) > limit:
            raise paths.too_many_entries(limit)
        return Scan(found, 1)

    def _seen(self, entry: Entry) -> TreeEntry:
        of = self._with_content(entry)
        content = hashlib.sha256(of.target + b"".join(bytes.fromhex(blob.digest) for blob in of.blobs))
        inode = int.from_bytes(content.digest()[:7])
        return TreeEntry(entry.path, _ENTRY_TYPES[entry.kind], entry.mode, entry.size, entry.mtime_ns, 0, inode)

    def _with_content(self, entry: Entry) -> Entry:
        return self._entries[entry.link] if entry.link else entry

    async def read_entries(self, entries: Sequence[TreeEntry]) -> AsyncGenerator[Sequence[FilePiece], None]:
        """See `Scannable`."""
        async with aclosing(self._pieces(entries)) as pieces, aclosing(tar.in_batches(pieces)) as batches:
            async for batch in batches:
                yield batch

    async def _pieces(self, entries: Sequence[TreeEntry]) -> AsyncGenerator[FilePiece, None]:
        found, needed = await asyncio.to_thread(self._contents, entries)
        async with aclosing(blobs(self._objects, needed)) as contents:
            for position, entry in enumerate(found):
                for _ in range(max(1, len(entry.blobs))):
                    yield FilePiece(position, await anext(contents) if entry.blobs else entry.target)

    def _contents(self, entries: Sequence[TreeEntry]) -> tuple[list[Entry], list[Blob]]:
        """The entries that have the contents of these, and the blobs with them."""
        found = [self._with_content(self._entries[entry.path]) for entry in entries]
        return found, [blob for entry in found for blob in entry.blobs]

    async def start(self) -> None:
        raise SandboxError("The workspace is on another machine.")

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        file = await self.open(path)
        if max_bytes is not None and file.size > max_bytes:
            raise paths.too_large(path, file.size, max_bytes)
        return b"".join([piece async for piece in file.read(range(file.size))])

    async def open(self, path: str) -> StoredFile:
        entry = self._find(path)
        if entry is None or entry.kind == "d":
            raise paths.not_a_file(path)
        return StoredFile(self._objects, self._with_content(entry))

    async def list(self, path: str = ".", *, recursive: bool = False, limit: int = 10_000) -> Sequence[FileInfo]:
        entry = self._find(path)
        if entry is not None and entry.kind != "d":
            raise paths.not_a_directory(path)
        above = entry.path + b"/" if entry is not None else b""
        shown = b"".join(os.fsencode(name) + b"/" for name in paths.resolve(path))
        found = [
            _info(other, shown + other.path[len(above) :])
            for other in self._tree.entries
            if other.path.startswith(above) and (recursive or b"/" not in other.path[len(above) :])
        ]
        return sorted(found, key=lambda info: info.path)[:limit]

    def archive(self) -> AsyncIterator[bytes]:
        return archive(self._objects, self._tree)

    def _find(self, path: str) -> Entry | None:
        """What a path leads to, None for the workspace itself."""
        route = paths.Route(paths.resolve(path), path)
        while (name := route.next()) is not None:
            if route.place and self._at(route.place).kind != "d":
                raise paths.not_a_directory(path)
            found = self._entries.get(b"/".join(map(os.fsencode, [*route.place, name])))
            if found is None:
                raise route.missing()
            if found.kind == "l":
                route.follow(os.fsdecode(found.target))
            else:
                route.enter()
        return self._at(route.place) if route.place else None

    def _at(self, place: Sequence[str]) -> Entry:
        return self._entries[b"/".join(map(os.fsencode, place))]


class StoredFile:
    """A file of a snapshot, as `OpenFile`."""

    def __init__(self, objects: SessionObjects, entry: Entry) -> None:
        self.size = entry.size
        self.version = f"{entry.size:x}-{entry.mtime_ns:x}"
        self._objects = objects
        self._entry = entry

    async def read(self, part: range) -> AsyncGenerator[bytes, None]:
        wanted: list[Blob] = []
        begin = first = 0
        for blob in self._entry.blobs:
            if begin + blob.size > part.start and begin < part.stop:
                if not wanted:
                    first = begin
                wanted.append(blob)
            begin += blob.size
        async with aclosing(blobs(self._objects, wanted)) as contents:
            async for data in contents:
                yield data[max(0, part.start - first) : max(0, part.stop - first)]
                first += len(data)

    async def aclose(self) -> None:
        """Does nothing: no resource is held open."""


def _info(entry: Entry, path: bytes) -> FileInfo:
    return FileInfo(paths.clean_name(path), _TYPES[entry.kind], entry.size, entry.mtime_ns / 1e9)
