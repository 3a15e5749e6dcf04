"""From the pieces of changed files to blobs in packs. All of it blocks: it hashes and compresses."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from app.runtime.workspaces.tree import BLOB_BYTES, Blob, Entry, compressed, digest_of
from app.sandbox.base import FilePiece, TreeEntry

PACK_BYTES = 8 * 1024 * 1024
"""Size from which a pack is stored. A few are held in memory at a time."""

Pack = tuple[str, bytes]
KINDS = {"file": "f", "directory": "d", "symlink": "l"}


class Packer:
    """Puts blobs into packs, except those that the store already has."""

    def __init__(self, tenure: int, known: dict[str, Blob]) -> None:
        """`known` are the blobs of the store, by digest; new ones are added. Packs are named after the `tenure`, so
        that a later holder of the workspace can tell which ones it did not make."""
        self._tenure = tenure
        self._known = known
        self._begin()
        self.full: list[Pack] = []

    def _begin(self) -> None:
        self._name = f"{self._tenure:08d}-{secrets.token_hex(8)}"
        self._held = bytearray()

    def add(self, data: bytes) -> Blob:
        digest = digest_of(data)
        blob = self._known.get(digest)
        if blob is None:
            stored = compressed(data)
            blob = self._known[digest] = Blob(digest, self._name, len(self._held), len(stored), len(data))
            self._held += stored
            if len(self._held) >= PACK_BYTES:
                self.flush()
        return blob

    def flush(self) -> None:
        """Ends the current pack, if there is anything in it."""
        if self._held:
            self.full.append((self._name, bytes(self._held)))
            self._begin()

    def take(self) -> list[Pack]:
        """The packs that are complete, each once."""
        full, self.full = self.full, []
        return full


class Reader:
    """Makes entries of the pieces of `wanted`; `done` has them by path, and `by_inode` the files."""

    def __init__(self, wanted: Sequence[TreeEntry], settled_ns: int, packer: Packer) -> None:
        self.wanted = wanted
        self._settled_ns = settled_ns
        self._packer = packer
        self._position: int | None = None
        self._held = bytearray()
        self._blobs: list[Blob] = []
        self._size = 0
        self.done: dict[bytes, Entry] = {}
        self.by_inode: dict[int, Entry] = {}

    def feed(self, pieces: Iterable[FilePiece]) -> list[Pack]:
        """Takes pieces; returns the packs that are complete."""
        for position, data in pieces:
            if position != self._position:
                self._end_entry()
                self._position = position
            self._held += data
            self._size += len(data)
            while len(self._held) >= BLOB_BYTES:
                self._blobs.append(self._packer.add(bytes(self._held[:BLOB_BYTES])))
                del self._held[:BLOB_BYTES]
        return self._packer.take()

    def end(self) -> None:
        """There are no more pieces."""
        self._end_entry()

    def _end_entry(self) -> None:
        if self._position is None:
            return
        found = self.wanted[self._position]
        # A change within one tick of the clock has no other time; such a file is read again the next time.
        seen = (found.ctime_ns, found.inode) if found.ctime_ns <= self._settled_ns else None
        kind = KINDS[found.type]
        if kind == "l":
            if target := bytes(self._held):
                self.done[found.path] = Entry(found.path, kind, target=target, mtime_ns=found.mtime_ns, seen=seen)
        else:
            if self._held:
                self._blobs.append(self._packer.add(bytes(self._held)))
            entry = Entry(found.path, kind, found.mode, self._size, found.mtime_ns, blobs=tuple(self._blobs), seen=seen)
            self.done[found.path] = self.by_inode[found.inode] = entry
        self._position, self._size = None, 0
        self._held.clear()
        self._blobs.clear()
