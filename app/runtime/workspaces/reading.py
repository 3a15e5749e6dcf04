"""Reads a snapshot: its tree, and its content as a tar."""

from __future__ import annotations

import asyncio
import os
import tarfile
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing

from app.runtime.workspaces.store import SessionObjects
from app.runtime.workspaces.taking import Snapshot
from app.runtime.workspaces.tree import Blob, Entry, Manifest, Tree, content_of, decode, verified
from app.sandbox import tar

AHEAD = 3
"""Groups of blobs that are fetched before they are needed."""
GROUP_BYTES = 16 * 1024 * 1024
"""Content that is fetched at once."""


async def load(objects: SessionObjects, snapshot_id: str) -> Snapshot:
    """A stored snapshot without its content. Raises `ObjectMissingError`, `WorkspaceStoreError` and
    `InvalidSnapshotError`."""
    manifest = Manifest.load(await objects.store.get(objects.manifest(snapshot_id)))
    entries: list[Entry] = []
    async with aclosing(blobs(objects, manifest.lists)) as lists:
        async for data in lists:
            entries += await asyncio.to_thread(decode, data)
    return Snapshot(snapshot_id, Tree(await asyncio.to_thread(verified, entries), manifest.lists), manifest.packs)


async def blobs(objects: SessionObjects, wanted: Sequence[Blob]) -> AsyncGenerator[bytes, None]:
    """The content of blobs, in this order, verified."""
    fetching: deque[asyncio.Task[list[bytes]]] = deque()
    groups = _groups(wanted)
    try:
        while True:
            while len(fetching) <= AHEAD and (group := next(groups, None)) is not None:
                fetching.append(asyncio.create_task(_fetch(objects, group)))
            if not fetching:
                return
            for data in await fetching.popleft():
                yield data
    finally:
        for task in fetching:
            task.cancel()
        if fetching:
            await asyncio.wait(fetching)
        for task in fetching:
            task.cancelled() or task.exception()


def _groups(wanted: Iterable[Blob]) -> Iterator[list[Blob]]:
    """Blobs of one pack that follow each other."""
    group: list[Blob] = []
    size = 0
    for blob in wanted:
        if group and (blob.pack != group[0].pack or size + blob.size > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(blob)
        size += blob.size
    if group:
        yield group


async def _fetch(objects: SessionObjects, group: Sequence[Blob]) -> list[bytes]:
    ranges = [(blob.start, blob.start + blob.stored) for blob in group]
    stored = await objects.store.get_ranges(objects.pack(group[0].pack), ranges)
    return await asyncio.to_thread(lambda: list(map(content_of, group, stored)))


async def archive(objects: SessionObjects, tree: Tree, *, owner: int = 0) -> AsyncGenerator[bytes, None]:
    """The tree as a tar in pieces, owned by this uid: directories first, then files in the order of the packs, so that
    each pack is fetched once, then links."""
    files = sorted((e for e in tree.entries if e.kind == "f" and not e.link), key=_place)
    needed = [blob for entry in files for blob in entry.blobs]
    held = bytearray(b"".join(header(entry, owner) for entry in tree.entries if entry.kind == "d"))
    async with aclosing(blobs(objects, needed)) as contents:
        for entry in files:
            held += header(entry, owner)
            for _ in entry.blobs:
                held += await anext(contents)
                if len(held) >= tar.GATHERED:
                    yield bytes(held)
                    held.clear()
            held += bytes(-entry.size % tar.BLOCK)
    for entry in tree.entries:
        if entry.link or entry.kind == "l":
            held += header(entry, owner)
    yield bytes(held) + tar.END


def _place(entry: Entry) -> tuple[str, int]:
    return (entry.blobs[0].pack, entry.blobs[0].start) if entry.blobs else ("", 0)


def header(entry: Entry, owner: int) -> bytes:
    """An entry's header in GNU format, which allows any bytes and any length as a name."""
    info = tarfile.TarInfo(os.fsdecode(entry.path) + ("/" if entry.kind == "d" else ""))
    info.uid = info.gid = owner
    info.mode, info.mtime = entry.mode, max(0, entry.mtime_ns // 1_000_000_000)
    if entry.kind == "d":
        info.type = tarfile.DIRTYPE
    elif entry.kind == "l":
        info.type, info.linkname = tarfile.SYMTYPE, os.fsdecode(entry.target)
    elif entry.link:
        info.type, info.linkname = tarfile.LNKTYPE, os.fsdecode(entry.link)
    else:
        info.size = entry.size
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
