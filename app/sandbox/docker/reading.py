"""The contents of entries of a container's workspace: a few through the Engine, many by `tar` in the container, which
reads nothing else."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing

import aiodocker

from app.sandbox import tar
from app.sandbox.base import WORKSPACE, FilePiece, TreeEntry
from app.sandbox.docker.engine import Engine, refused, translated_refusals
from app.sandbox.docker.files import ContainerArchives
from app.sandbox.docker.scripts import run_in_pieces

SINGLE_FETCHES = 20
"""Small entries up to which each is fetched alone from the Engine, which takes 5 to 50 ms."""
BATCH = 8 * 1024 * 1024
"""Bytes of contents that one `tar` reads, and that are held in memory; a larger file is fetched alone."""
_BATCH_ENTRIES = 4_000
_OVERHEAD = 4 * tar.BLOCK
"""Bytes of headers and padding for an entry, in addition to its name."""
# $1 bytes of the names in the input, each ended by a NUL, $2 bytes of output. What cannot be read is left out. `xargs`
# may start `tar` several times.
_TAR_SCRIPT = """
cd /workspace && command -v tar >/dev/null || exit 1
head -c "$1" | xargs -0 -r tar -cf - -- 2>/dev/null | head -c "$2"
exit 0
"""


async def read_entries(
    engine: Engine, container: str, archives: ContainerArchives, entries: Sequence[TreeEntry]
) -> AsyncGenerator[Sequence[FilePiece], None]:
    """See `MovableSandbox.read_entries`; the container must run if there are more than `SINGLE_FETCHES`."""
    read: set[int] = set()
    if len(entries) > SINGLE_FETCHES:
        for positions in await asyncio.to_thread(lambda: list(_batches(entries))):
            found = await _from_tar(engine, container, entries, positions)
            if found is None:
                break
            yield found
            read.update(piece.position for piece in found)
    # Large files, and what `tar` has not read: it runs as a command of the agent, the Engine may read all.
    left = await asyncio.to_thread(_left, entries, read)
    async with aclosing(_from_engine(archives, entries, left)) as batches:
        async for batch in batches:
            yield batch


def _batches(entries: Sequence[TreeEntry]) -> Iterator[list[int]]:
    """The positions of entries for one `tar` after the other, without large files and other links to a file."""
    batch: list[int] = []
    size = 0
    linked: set[int] = set()
    for position, entry in enumerate(entries):
        if entry.size > BATCH or (entry.type == "file" and entry.inode in linked):
            continue
        if batch and (size + entry.size > BATCH or len(batch) == _BATCH_ENTRIES):
            yield batch
            batch, size = [], 0
        batch.append(position)
        size += entry.size
        linked.add(entry.inode)
    if batch:
        yield batch


def _left(entries: Sequence[TreeEntry], read: Collection[int]) -> list[int]:
    """The positions of entries that were not read, without other links to a file that was."""
    linked = {entries[position].inode for position in read}
    return [
        position
        for position, entry in enumerate(entries)
        if position not in read and not (entry.type == "file" and entry.inode in linked)
    ]


async def _from_tar(
    engine: Engine, container: str, entries: Sequence[TreeEntry], positions: Sequence[int]
) -> list[FilePiece] | None:
    """What `tar` has read of entries; None if the image has no `tar`."""
    names = await asyncio.to_thread(lambda: b"".join(b"./%b\0" % entries[position].path for position in positions))
    size = sum(entries[position].size + _OVERHEAD for position in positions) + len(names) + tarfile.RECORDSIZE
    arguments = (str(len(names)), str(size))
    code, output, _ = await run_in_pieces(engine, container, _TAR_SCRIPT, arguments, stdin=names, limit=2 * size)

    def pieces() -> list[FilePiece]:
        paths = {entries[position].path: position for position in positions}
        return [
            FilePiece(position, content)
            for member, content in tar.whole_members(output)
            if (position := paths.get(tar.relative_name(member))) is not None and _is_as(entries[position], member)
        ]

    return await asyncio.to_thread(pieces) if code == 0 else None


def _is_as(entry: TreeEntry, member: tarfile.TarInfo) -> bool:
    """Whether a member has the type of the entry, which may have been replaced."""
    return member.issym() if entry.type == "symlink" else member.isreg()


async def _from_engine(
    archives: ContainerArchives, entries: Sequence[TreeEntry], positions: Sequence[int]
) -> AsyncGenerator[Sequence[FilePiece], None]:
    """Each entry alone, or the archive of the whole workspace if too many of them are small."""
    try:
        small = sum(entries[position].size <= BATCH for position in positions)
        names = [entries[position].path.decode() for position in positions] if small <= SINGLE_FETCHES else None
    except UnicodeDecodeError:
        names = None  # an address can only have text
    if names is None:
        paths = await asyncio.to_thread(lambda: {entries[position].path: position for position in positions})
        with translated_refusals():
            async with aclosing(_fetch(archives, ".", entries, paths)) as found:
                async for batch in found:
                    yield batch
        return
    for position, name in zip(positions, names, strict=True):
        last = entries[position].path.rpartition(b"/")[2]
        try:
            async with aclosing(_fetch(archives, name, entries, {last: position})) as found:
                async for batch in found:
                    yield batch
        except aiodocker.DockerError as exc:
            if exc.status != 404:  # it is gone
                raise refused(exc) from exc


async def _fetch(
    archives: ContainerArchives, place: str, entries: Sequence[TreeEntry], positions: Mapping[bytes, int]
) -> AsyncGenerator[list[FilePiece], None]:
    """The contents of the entries at these positions, by their names in the Engine's archive of a place."""

    def pieces(parts: Sequence[tar.Part]) -> list[FilePiece]:
        return [
            FilePiece(position, part.content)
            for part in parts
            if (position := positions.get(tar.relative_name(part.member))) is not None
            and _is_as(entries[position], part.member)
        ]

    async with (
        aclosing(archives.fetch(f"{WORKSPACE}/{place}")) as archive,
        aclosing(tar.parsed(archive, pieces)) as batches,
    ):
        async for batch in batches:
            if batch:
                yield batch
