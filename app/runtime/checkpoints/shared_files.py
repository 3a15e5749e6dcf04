"""The files of a repository that nodes share, as a snapshot stores them, and written from one.

Anyone who can write to the store may have chosen them. So only files that git reads as data are written: objects and
references, and nothing that could name a command or another directory.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import NamedTuple

import orjson

from app.runtime.checkpoints.coverage import Uncovered
from app.runtime.checkpoints.looks import Seen
from app.runtime.checkpoints.repository import write_whole
from app.runtime.workspaces.reading import blobs
from app.runtime.workspaces.store import SessionObjects
from app.runtime.workspaces.tree import Entry, Tree
from app.sandbox.base import FilePiece, Scan, TreeEntry
from app.sandbox.host import moving
from app.sandbox.host.workspace import Workspace

SEEN_FILE = b"palimpsest-seen"
"""What the newest look that was stored has found."""
WRITTEN = 1024 * 1024
"""Bytes gathered for one trip to the thread that writes them."""
_OBJECT = rb"objects/([0-9a-f]{2}/[0-9a-f]{38}|pack/pack-[0-9a-f]{40}\.(pack|idx|rev))"
_IMMUTABLE = re.compile(_OBJECT)
_FILE = re.compile(rb"packed-refs|%s|refs/palimpsest/([0-9a-f]{40}|now)|%s" % (SEEN_FILE, _OBJECT))
_DIRECTORY = re.compile(rb"refs(/palimpsest)?|objects(/pack|/[0-9a-f]{2})?")


class SharedFiles:
    """The shared files of the repository in `path`, as `Scannable`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = Workspace(path)

    async def scan(self, limit: int, skip: frozenset[bytes] = frozenset()) -> Scan:
        found = await asyncio.to_thread(moving.scan, self._files, limit, skip | {b"info"})
        return Scan([entry for entry in found.entries if _is_shared(entry)], found.settled_ns)

    async def read_entries(self, entries: Sequence[TreeEntry]) -> AsyncGenerator[Sequence[FilePiece], None]:
        batches = moving.read_entries(self._files, entries)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            yield batch

    async def write(self, objects: SessionObjects, tree: Tree) -> None:
        """Makes the files those of a snapshot; objects that are here already are not read again. Raises what reading
        from the store raises."""
        wanted = [
            entry for entry in tree.entries if entry.kind == "f" and not entry.link and _FILE.fullmatch(entry.path)
        ]
        due = await asyncio.to_thread(self._prepare, wanted)
        pieces: list[_Piece] = []
        size = 0
        async with aclosing(blobs(objects, [blob for entry in due for blob in entry.blobs])) as contents:
            for entry in due:
                for place in range(max(1, len(entry.blobs))):
                    data = await anext(contents) if entry.blobs else b""
                    pieces.append(_Piece(entry, place, data))
                    size += len(data)
                    if size >= WRITTEN:
                        await asyncio.to_thread(self._write, pieces)
                        pieces, size = [], 0
        await asyncio.to_thread(self._write, pieces)

    def _prepare(self, wanted: Sequence[Entry]) -> list[Entry]:
        """Removes what the snapshot does not have; returns the entries that have to be written, in the order of the
        store."""
        sizes = {
            entry.path: entry.size for entry in moving.scan(self._files, 2**31).entries if _is_shared(entry, "file")
        }
        for path in sizes.keys() - {entry.path for entry in wanted}:
            self._at(path).unlink()
        due = [e for e in wanted if not _IMMUTABLE.fullmatch(e.path) or sizes.get(e.path) != e.size]
        return sorted(due, key=lambda e: (e.blobs[0].pack, e.blobs[0].start) if e.blobs else ("", 0))

    def _write(self, pieces: Iterable[_Piece]) -> None:
        for entry, place, data in pieces:
            path = self._at(entry.path)
            # git ignores names that begin with a dot.
            temporary = path.with_name(f".{path.name}.new")
            if place == 0:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with temporary.open("wb" if place == 0 else "ab") as file:
                file.write(data)
            if place >= len(entry.blobs) - 1:
                os.utime(temporary, ns=(entry.mtime_ns, entry.mtime_ns))
                temporary.replace(path)

    def _at(self, path: bytes) -> Path:
        return self._path / os.fsdecode(path)

    def save_seen(self, seen: Seen) -> None:
        """Keeps what a look has found, for the next snapshot. Blocks."""
        path = self._at(SEEN_FILE)
        data = encode_seen(seen)
        with suppress(OSError):
            if path.read_bytes() == data:
                return
        write_whole(path, data)

    def load_seen(self) -> Seen:
        """What the newest look of the snapshot has found. Blocks."""
        try:
            return decode_seen(self._at(SEEN_FILE).read_bytes())
        except OSError:
            return Seen()


class _Piece(NamedTuple):
    """The content of one blob of an entry."""

    entry: Entry
    place: int
    data: bytes


def _is_shared(entry: TreeEntry, *types: str) -> bool:
    pattern = {"file": _FILE, "directory": _DIRECTORY}.get(entry.type)
    return pattern is not None and (not types or entry.type in types) and pattern.fullmatch(entry.path) is not None


async def read_seen(objects: SessionObjects, tree: Tree) -> Seen:
    """What the newest look of a snapshot has found, without its other files."""
    entry = next((entry for entry in tree.entries if entry.path == SEEN_FILE), None)
    if entry is None:
        return Seen()
    async with aclosing(blobs(objects, entry.blobs)) as contents:
        return decode_seen(b"".join([data async for data in contents]))


def encode_seen(seen: Seen) -> bytes:
    uncovered = [(path.decode("latin-1"), reason) for path, reason in seen.uncovered]
    return orjson.dumps([seen.commit, seen.tree, seen.files, seen.bytes, uncovered, seen.more_uncovered])


def decode_seen(data: bytes) -> Seen:
    """What was encoded; that of an empty workspace if it cannot be read."""
    try:
        commit, tree, files, size, uncovered, more = orjson.loads(data)
        listed = [Uncovered(path.encode("latin-1"), reason) for path, reason in uncovered]
        return Seen(commit, str(tree), int(files), int(size), listed, bool(more))
    except (ValueError, TypeError, AttributeError):
        return Seen()
