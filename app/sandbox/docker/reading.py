"""The contents of entries of a container's workspace: a few through the Engine, many by `tar` in the container, which
reads nothing else."""

from __future__ import annotations

import asyncio
import secrets
import tarfile
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing

import aiodocker

from app.sandbox import tar
from app.sandbox.base import WORKSPACE, FilePiece, TreeEntry
from app.sandbox.docker.engine import Engine, refused, translated_refusals
from app.sandbox.docker.files import ContainerArchives, split
from app.sandbox.docker.scripts import run_in_pieces
from app.sandbox.paths import MAX_PATH_BYTES
from app.sandbox.tar_parser import BLOCK, Part

SINGLE_FETCHES = 20
"""Small entries up to which each is fetched alone from the Engine, which takes 5 to 50 ms."""
BATCH = 8 * 1024 * 1024
"""Bytes of archive that one `tar` should make; a larger file is fetched alone."""
_GROWTH = BATCH
"""Bytes by which the files of a batch may have grown since they were listed; more would cut off those after them."""
_HEADERS = 4 * BLOCK
"""Bytes of headers and padding for a file, in addition to its name."""
_LINK = 8 * 1024
"""Bytes for a link with the longest name and target."""
_TAR_S = 60.0
"""Timeout for one `tar`, in seconds: a FIFO in the place of a file would let it wait forever."""
_NO_TAR = 44
# $1 bytes of the names in the input, each ended by a NUL, $2 bytes of output, $3 what is printed before each archive:
# `xargs` may start `tar` several times. What cannot be read is left out.
_TAR_SCRIPT = f"""
cd /workspace || exit 1
command -v tar >/dev/null || exit {_NO_TAR}
head -c "$1" | xargs -0 -r sh -c 'printf "%s " "$0"; tar -cf - -- "$@" 2>/dev/null' "$3" | head -c "$2"
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
        if batch and size + _archived(entry) > BATCH:
            yield batch
            batch, size = [], 0
        batch.append(position)
        size += _archived(entry)
        linked.add(entry.inode)
    if batch:
        yield batch


def _archived(entry: TreeEntry) -> int:
    """Bytes that an entry may take in an archive."""
    return _LINK if entry.type == "symlink" else entry.size + len(entry.path) + _HEADERS


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
    """What `tar` has read of entries in time; None if the image has no `tar`."""
    names = await asyncio.to_thread(lambda: b"".join(b"./%b\0" % entries[position].path for position in positions))
    size = sum(_archived(entries[position]) for position in positions) + _GROWTH
    mark = secrets.token_hex(16)
    arguments = (str(len(names)), str(size), mark)
    try:
        async with asyncio.timeout(_TAR_S):
            code, output, _ = await run_in_pieces(
                engine, container, _TAR_SCRIPT, arguments, stdin=names, limit=2 * size
            )
    except TimeoutError:
        return []

    def pieces() -> list[FilePiece]:
        left = {entries[position].path: position for position in positions}
        found: list[FilePiece] = []
        for archive in split(b"".join(output), mark):
            for member, content in tar.whole_members(archive):
                position = left.get(tar.relative_name(member))
                if position is not None and _is_as(entries[position], member, content):
                    del left[entries[position].path]
                    found.append(FilePiece(position, content))
        return found

    return await asyncio.to_thread(pieces) if code != _NO_TAR else None


def _is_as(entry: TreeEntry, member: tarfile.TarInfo, content: bytes) -> bool:
    """Whether a member can be the entry, which may have been replaced."""
    if entry.type == "symlink":
        return member.issym() and 0 < len(content) <= MAX_PATH_BYTES
    return member.isreg()


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
            async with aclosing(_fetch(archives, name, entries, {last: position}, only_first=True)) as found:
                async for batch in found:
                    yield batch
        except aiodocker.DockerError as exc:
            if exc.status != 404:  # it is gone
                raise refused(exc) from exc


async def _fetch(
    archives: ContainerArchives,
    place: str,
    entries: Sequence[TreeEntry],
    positions: Mapping[bytes, int],
    *,
    only_first: bool = False,
) -> AsyncGenerator[list[FilePiece], None]:
    """The contents of the entries at these positions, by their names in the Engine's archive of a place."""

    def pieces(parts: Sequence[Part]) -> list[FilePiece]:
        return [
            FilePiece(position, part.content)
            for part in parts
            if (position := positions.get(tar.relative_name(part.member))) is not None
            and _is_as(entries[position], part.member, part.content)
        ]

    async with (
        aclosing(archives.fetch(f"{WORKSPACE}/{place}")) as archive,
        aclosing(tar.parsed(archive, pieces, only_first=only_first)) as batches,
    ):
        async for batch in batches:
            if batch:
                yield batch
