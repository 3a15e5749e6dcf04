"""Takes a snapshot of a workspace: what has changed since the last one is read, packed and stored."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from app.errors import SandboxError, TooLargeError
from app.runtime.workspaces.packing import KINDS, Pack, Packer, Reader
from app.runtime.workspaces.store import SessionObjects
from app.runtime.workspaces.tree import Blob, Entry, Manifest, Tree, cut, encode
from app.sandbox.base import Scan, Scannable, TreeEntry

MAX_ENTRIES = 200_000
"""Files and directories of a workspace that can be stored; their list takes some 100 MiB of memory meanwhile."""
READS = 5
"""Attempts to read a workspace whose files keep changing."""
UPLOADS = 3
"""Packs that are stored at the same time for one snapshot."""
LOOK_S = 0.2
"""How often, in seconds, a reading that waits for the store looks whether a command waits for it."""
SPARSE = 0.5
"""A pack of which less is in use is replaced, unless it is small: the files with the rest are stored again."""
SMALL_BYTES, MANY_SMALL = 1024 * 1024, 32
"""Packs smaller than this are joined when there are more than so many of them, since each step leaves one."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stored snapshot; `packs` has the size of each of its packs. The empty one has no id."""

    id: str | None = None
    tree: Tree = field(default_factory=Tree)
    packs: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Progress:
    """What an unfinished attempt has stored: entries by path, and the packs, which no snapshot may use yet."""

    entries: dict[bytes, Entry] = field(default_factory=dict)
    packs: dict[str, int] = field(default_factory=dict)

    def clear(self) -> None:
        self.entries.clear()
        self.packs.clear()


@dataclass(frozen=True, slots=True)
class Fence:
    """How a snapshot shares the workspace with commands. `is_wanted` says whether one waits and the reading must stop;
    `has_read` is called when everything has been read."""

    is_wanted: Callable[[], bool]
    has_read: Callable[[], None]


async def take(
    objects: SessionObjects,
    files: Scannable,
    base: Snapshot,
    progress: Progress,
    fence: Fence,
    *,
    tenure: int,
    max_bytes: int,
) -> Snapshot | None:
    """As `_take`, which begins again if a background process changes a file so that its reading breaks off."""
    for again in reversed(range(READS)):
        try:
            return await _take(objects, files, base, progress, fence, tenure=tenure, max_bytes=max_bytes)
        except SandboxError:
            if not again:
                raise
    return None


async def _take(
    objects: SessionObjects,
    files: Scannable,
    base: Snapshot,
    progress: Progress,
    fence: Fence,
    *,
    tenure: int,
    max_bytes: int,
) -> Snapshot | None:
    """Stores a new snapshot and returns it; `base` itself if nothing has changed, and None if a command had to run
    before all was read: `progress` then has what the next attempt need not store again.

    Raises `TooLargeError` (code `workspace_too_large`), `WorkspaceStoreError`, and what the sandbox raises.
    """
    scan = await files.scan(MAX_ENTRIES)
    if (total := sum(entry.size for entry in scan.entries)) > max_bytes:
        raise TooLargeError(
            f"The files of the workspace have {total:,} bytes, holes included; at most {max_bytes:,} are stored.",
            code="workspace_too_large",
        )
    plan = await asyncio.to_thread(Plan, scan, base, progress)
    packer = Packer(tenure, plan.blobs)
    reader = Reader(plan.changed, scan.settled_ns, packer)
    async with Uploads(objects, progress) as uploads:
        left = await _read(files, reader, uploads, fence)
        if left is None:
            await asyncio.to_thread(reader.end)
        fence.has_read()
        if left is not None:
            packer.flush()
            await uploads.add([*left, *packer.take()])
            await uploads.finish()
            progress.entries.update(reader.done)
            return None
        tree = await asyncio.to_thread(plan.tree, reader, packer)
        await uploads.add(packer.take())
        await uploads.finish()
        return await _conclude(objects, base, progress, tree, tenure)


async def _read(files: Scannable, reader: Reader, uploads: Uploads, fence: Fence) -> Sequence[Pack] | None:
    """Reads what has changed, as fast as it is stored. Returns None at its end; if the reading must stop, the packs
    that are not on their way yet."""
    async with aclosing(files.read_entries(reader.wanted)) as batches:
        async for batch in batches:
            packs = await asyncio.to_thread(reader.feed, batch)
            left = await uploads.add(packs, fence.is_wanted)
            if left or fence.is_wanted():
                return left
    return None


async def _conclude(objects: SessionObjects, base: Snapshot, progress: Progress, tree: Tree, tenure: int) -> Snapshot:
    """Writes the manifest, last, so that a snapshot is complete or not there."""
    if base.id is not None and tree.lists == base.tree.lists:
        return replace(base, tree=tree)
    sizes = {**base.packs, **progress.packs}
    packs = {name: sizes[name] for name in tree.packs()}
    snapshot = Snapshot(f"{tenure:08d}-{secrets.token_hex(8)}", tree, packs)
    assert snapshot.id is not None
    data = await asyncio.to_thread(Manifest(tree.lists, packs).dump)
    await objects.put(objects.manifest(snapshot.id), data)
    return snapshot


def superseded(objects: SessionObjects, old: Snapshot, new: Snapshot, others: Iterable[str] = ()) -> list[str]:
    """The keys of the objects that only an older snapshot needs, or none of the packs `others`."""
    if old.id == new.id:
        return [objects.pack(name) for name in others if name not in new.packs]
    unused = {*old.packs, *others} - {*new.packs}
    manifest = [] if old.id is None else [objects.manifest(old.id)]
    return manifest + [objects.pack(name) for name in sorted(unused)]


class Plan:
    """What a snapshot keeps of the last one, and what has to be read. Blocks."""

    def __init__(self, scan: Scan, base: Snapshot, progress: Progress) -> None:
        replaced = _replaced(base)
        earlier = {entry.path: entry for entry in base.tree.entries} | progress.entries
        self._entries = _connected(scan.entries)
        self.blobs: dict[str, Blob] = {
            blob.digest: blob
            for source in (base.tree.blobs(), (b for e in progress.entries.values() for b in e.blobs))
            for blob in source
            if blob.pack not in replaced
        }
        self._kept: dict[bytes, Entry] = {}
        self.changed: list[TreeEntry] = []
        for found in self._entries:
            if found.type == "directory":
                continue
            entry = earlier.get(found.path)
            if entry is not None and _is_same(entry, found) and replaced.isdisjoint(b.pack for b in entry.blobs):
                self._kept[found.path] = entry
            else:
                self.changed.append(found)

    def tree(self, reader: Reader, packer: Packer) -> Tree:
        """The new tree, with the content that was read; its list is put into the last pack."""
        entries: list[Entry] = []
        first: dict[int, Entry] = {}
        for found in self._entries:
            entry = self._entry(found, reader, first)
            if entry is not None:
                entries.append(entry)
        lists = tuple(packer.add(encode(run)) for run in cut(entries))
        packer.flush()
        return Tree(tuple(entries), lists)

    def _entry(self, found: TreeEntry, reader: Reader, first: dict[int, Entry]) -> Entry | None:
        """None for what was gone when it was to be read."""
        if found.type == "directory":
            return Entry(found.path, KINDS[found.type], found.mode, mtime_ns=found.mtime_ns)
        if found.type == "symlink":
            return self._kept.get(found.path) or reader.done.get(found.path)
        if (original := first.get(found.inode)) is not None:
            return replace(original, path=found.path, link=original.path, blobs=())
        entry = self._kept.get(found.path) or reader.by_inode.get(found.inode)
        if entry is not None:
            # The name of the file that was read may be another of its hard links.
            entry = first[found.inode] = entry if entry.path == found.path else replace(entry, path=found.path)
        return entry


def _is_same(entry: Entry, found: TreeEntry) -> bool:
    same = entry.seen == (found.ctime_ns, found.inode) and entry.kind == KINDS[found.type] and not entry.link
    return same and entry.mtime_ns == found.mtime_ns and (entry.kind == "l" or entry.size == found.size)


def _connected(entries: Sequence[TreeEntry]) -> list[TreeEntry]:
    """The entries whose directory is among them: it may have been made after it was looked for."""
    directories = {b""} | {entry.path for entry in entries if entry.type == "directory"}
    return [entry for entry in entries if entry.path.rpartition(b"/")[0] in directories]


def _replaced(base: Snapshot) -> set[str]:
    """The packs that the next snapshot no longer uses."""
    used = base.tree.packs()
    small = {name for name, size in base.packs.items() if size < SMALL_BYTES}
    replaced = {name for name, size in base.packs.items() if used.get(name, 0) < size * SPARSE} - small
    return replaced | small if len(small) > MANY_SMALL else replaced


class Uploads:
    """Packs on their way to the store, a few at a time. They are named in `progress` before they are stored."""

    def __init__(self, objects: SessionObjects, progress: Progress) -> None:
        self._objects = objects
        self._progress = progress
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Uploads:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        for task in self._running:
            task.cancelled() or task.exception()

    async def add(self, packs: Sequence[Pack], gives_up: Callable[[], bool] = lambda: False) -> Sequence[Pack]:
        """Starts to store packs; waits if too many are on their way, unless that `gives_up`. Returns those that were
        not started. Raises the error of an earlier one."""
        for place, (name, data) in enumerate(packs):
            while len(self._running) >= UPLOADS:
                await self._await(asyncio.FIRST_COMPLETED, LOOK_S)
                if gives_up():
                    return packs[place:]
            self._progress.packs[name] = len(data)
            self._running.add(asyncio.create_task(self._objects.put(self._objects.pack(name), data)))
        return ()

    async def finish(self) -> None:
        """Waits until all are stored."""
        if self._running:
            await self._await(asyncio.ALL_COMPLETED)

    async def _await(self, when: str, timeout_s: float | None = None) -> None:
        done, self._running = await asyncio.wait(self._running, return_when=when, timeout=timeout_s)
        failed = [error for task in done if (error := task.exception()) is not None]
        if failed:
            raise failed[0]
