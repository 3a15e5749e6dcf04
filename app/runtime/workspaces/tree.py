"""A workspace as a snapshot describes it: its entries, and where the store has their content.

Content is cut into blobs of at most `BLOB_BYTES`, addressed by their SHA-256. Compressed blobs are put together in
packs, since ten thousand small objects would take ten thousand requests. The list of entries is itself cut into blobs,
at places that depend on the paths only, so that a snapshot that changes few files stores few of them. The manifest
names these blobs, and with them everything else.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from app.errors import SandboxError
from app.sandbox.base import TreeEntry

BLOB_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a blob; a larger file has several, of which a change replaces few."""
VERSION = 1
_CUT = 512
"""Average number of entries in a blob of the list."""
_PACK_NAME = re.compile(r"[0-9]{8}-[0-9a-f]{16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blob(NamedTuple):
    """Some content: its SHA-256, the pack with it, its place there, its bytes in the pack and its own bytes. It is
    stored without compression if both sizes are the same."""

    digest: str
    pack: str
    start: int
    stored: int
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A file (`f`), directory (`d`) or symbolic link (`l`). `link` is the path of an earlier hard link to the same
    file, which then has its blobs. `seen` is the file's ctime and inode on the machine of the scan, None if they cannot
    tell whether it was changed since."""

    path: bytes
    kind: str
    mode: int = 0o644
    size: int = 0
    mtime_ns: int = 0
    target: bytes = b""
    link: bytes = b""
    blobs: tuple[Blob, ...] = ()
    seen: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """All entries, sorted by path, and the blobs of their list."""

    entries: tuple[Entry, ...] = ()
    lists: tuple[Blob, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries if not entry.link)

    def blobs(self) -> Iterator[Blob]:
        """All blobs in use, some more than once."""
        yield from self.lists
        for entry in self.entries:
            yield from entry.blobs

    def packs(self) -> dict[str, int]:
        """Bytes in use of each pack."""
        used: dict[str, dict[int, int]] = {}
        for blob in self.blobs():
            used.setdefault(blob.pack, {})[blob.start] = blob.stored
        return {pack: sum(places.values()) for pack, places in used.items()}


class InvalidSnapshotError(SandboxError):
    """The store's content is not what was put there."""

    code = "snapshot_invalid"

    def __init__(self, what: str) -> None:
        super().__init__(f"The snapshot of the workspace is invalid: {what}.")


def with_seen(entries: Iterable[Entry], found: Iterable[TreeEntry]) -> tuple[Entry, ...]:
    """Entries that were just restored, with what a scan of them has seen."""
    scanned = {entry.path: entry for entry in found}
    return tuple(
        replace(entry, seen=(now.ctime_ns, now.inode), mtime_ns=now.mtime_ns)
        if (now := scanned.get(entry.path)) is not None and (entry.kind != "f" or now.size == entry.size)
        else entry
        for entry in entries
    )


def digest_of(data: bytes | bytearray | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def compressed(data: bytes) -> bytes:
    """Level 1: on text it takes a fifth of the time of the default for a tenth more bytes."""
    packed = zlib.compress(data, 1)
    return packed if len(packed) < len(data) else data


def content_of(blob: Blob, stored: bytes) -> bytes:
    """The content of a stored blob, verified. Raises `InvalidSnapshotError`."""
    data = stored
    if blob.stored != blob.size:
        try:
            # Bounded, so that a forged object cannot fill the memory.
            data = zlib.decompressobj().decompress(stored, blob.size + 1)
        except zlib.error as exc:
            raise InvalidSnapshotError("content cannot be decompressed") from exc
    if len(data) != blob.size or digest_of(data) != blob.digest:
        raise InvalidSnapshotError("content and digest differ")
    return data


def cut(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """The entries in runs. A run ends at a path whose hash says so, whatever the other paths are."""
    start = 0
    for place, entry in enumerate(entries, 1):
        if zlib.crc32(entry.path) % _CUT == 0 or place - start == 8 * _CUT:
            yield entries[start:place]
            start = place
    if start < len(entries):
        yield entries[start:]


def encode(entries: Iterable[Entry], *, seen: bool = False) -> bytes:
    """Entries as JSON; with what was seen on this machine if `seen`. Paths are bytes, in JSON as Latin-1."""
    return orjson.dumps(
        [
            [
                entry.path.decode("latin-1"),
                entry.kind,
                entry.mode,
                entry.size,
                entry.mtime_ns,
                entry.target.decode("latin-1"),
                entry.link.decode("latin-1"),
                raw(entry.blobs),
                *([entry.seen] if seen else ()),
            ]
            for entry in entries
        ]
    )


def decode(data: bytes) -> list[Entry]:
    """Entries of `encode`, not verified. Raises `InvalidSnapshotError`."""
    try:
        return [
            Entry(
                path.encode("latin-1"),
                kind,
                mode & 0o777,
                int(size),
                int(mtime_ns),
                target.encode("latin-1"),
                link.encode("latin-1"),
                tuple(blob_of(blob) for blob in blobs),
                tuple(seen[0]) if seen and seen[0] else None,
            )
            for path, kind, mode, size, mtime_ns, target, link, blobs, *seen in orjson.loads(data)
        ]
    except (ValueError, TypeError, AttributeError, IndexError) as exc:
        raise InvalidSnapshotError("its list of files cannot be read") from exc


def raw(blobs: Iterable[Blob]) -> list[tuple[object, ...]]:
    """Blobs for JSON, whose encoder refuses named tuples."""
    return [tuple(blob) for blob in blobs]


def blob_of(raw: Sequence[Any]) -> Blob:
    """Raises `ValueError` or `TypeError` for what cannot be a blob."""
    blob = Blob(str(raw[0]), str(raw[1]), int(raw[2]), int(raw[3]), int(raw[4]))
    fits = blob.start >= 0 and 0 <= blob.stored <= blob.size <= 8 * BLOB_BYTES
    if not (fits and _DIGEST.fullmatch(blob.digest) and _PACK_NAME.fullmatch(blob.pack)):
        raise ValueError("no blob")
    return blob


def verified(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries, if nothing of them can leave a workspace: each lies in a directory of the same snapshot, by names
    that are no `.` or `..`. Raises `InvalidSnapshotError`."""
    directories: set[bytes] = {b""}
    files: set[bytes] = set()
    for entry in entries:
        above, _, name = entry.path.rpartition(b"/")
        if name in (b"", b".", b"..") or b"\0" in entry.path or above not in directories:
            raise InvalidSnapshotError("a path leaves the workspace")
        if entry.path in directories or entry.path in files:
            raise InvalidSnapshotError("a path occurs twice")
        if entry.kind == "d":
            directories.add(entry.path)
        elif entry.kind not in ("f", "l") or (entry.link and entry.link not in files):
            raise InvalidSnapshotError("an entry has an unknown type")
        elif entry.kind == "f":
            files.add(entry.path)
            if sum(blob.size for blob in entry.blobs) != (0 if entry.link else entry.size):
                raise InvalidSnapshotError("a file's size does not match its content")
        elif not entry.target or b"\0" in entry.target:
            raise InvalidSnapshotError("a link has no valid target")
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot's first object has. `packs` are the names of its packs with their bytes in total."""

    lists: tuple[Blob, ...]
    packs: dict[str, int] = field(default_factory=dict)

    def dump(self) -> bytes:
        return zlib.compress(orjson.dumps({"version": VERSION, "lists": raw(self.lists), "packs": self.packs}))

    @classmethod
    def load(cls, data: bytes) -> Manifest:
        """Raises `InvalidSnapshotError`."""
        try:
            raw = orjson.loads(zlib.decompressobj().decompress(data, 64 * BLOB_BYTES))
            if raw["version"] != VERSION:
                raise InvalidSnapshotError(f"its version {raw['version']} is unknown here")
            return cls(tuple(blob_of(blob) for blob in raw["lists"]), {str(k): int(v) for k, v in raw["packs"].items()})
        except (zlib.error, ValueError, TypeError, KeyError, AttributeError) as exc:
            raise InvalidSnapshotError("its manifest cannot be read") from exc
