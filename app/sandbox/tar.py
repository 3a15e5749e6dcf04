"""Tar archives as streams of pieces: written for workspaces on the host, filtered for those of an Engine."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import BinaryIO, TypeVar

from app.errors import SandboxError
from app.sandbox.base import FilePiece
from app.sandbox.host.process import write_all
from app.sandbox.tar_parser import BLOCK as BLOCK
from app.sandbox.tar_parser import Parser, Part

END = b"\0" * (2 * BLOCK)
"""The end-of-archive marker."""
PIECE = 64 * 1024
"""Bytes read from a file at a time; a stalled download holds one or two of them."""
GATHERED = 1024 * 1024
"""Bytes gathered of many small files that are handed on together."""
PARSED = 256 * 1024
"""Bytes of an archive that are parsed at once, in a thread; a client or an Engine waits for them."""
T = TypeVar("T")


def header(name: bytes, kind: bytes, status: os.stat_result, *, link: bytes = b"", size: int = 0) -> bytes:
    """The header of one entry in GNU format, which allows any bytes and any length as a name.

    Owners are left out: they are specific to this machine.
    """
    info = tarfile.TarInfo(os.fsdecode(name))
    info.type, info.linkname, info.size = kind, os.fsdecode(link), size
    info.mode, info.mtime = status.st_mode & 0o777, max(0, int(status.st_mtime))
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def regular(name: bytes, file: int) -> Iterator[bytes]:
    """Header and content of an open regular file. The content always has the size in the header: if the file shrinks
    meanwhile, it is padded with zeros; if it grows, the rest is left out."""
    status = os.fstat(file)
    yield header(name, tarfile.REGTYPE, status, size=status.st_size)
    left = status.st_size
    while left > 0:
        data = os.read(file, min(left, PIECE)) or bytes(min(left, PIECE))
        left -= len(data)
        yield data
    if padding := -status.st_size % BLOCK:
        yield bytes(padding)


async def in_batches(pieces: AsyncIterator[FilePiece]) -> AsyncGenerator[list[FilePiece], None]:
    """The same pieces, about `GATHERED` bytes of them at once: whoever takes them switches threads for each batch."""
    batch: list[FilePiece] = []
    size = 0
    async for piece in pieces:
        batch.append(piece)
        size += len(piece.data) + BLOCK
        if size >= GATHERED:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: an archive of many small files has three per file, and every piece that leaves a
    thread costs a thread switch."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= PIECE:
            yield bytes(held)
            held.clear()
    yield bytes(held)


@asynccontextmanager
async def piped(pieces: AsyncIterator[bytes]) -> AsyncIterator[BinaryIO]:
    """The pieces as a file that a thread can read. An error of theirs ends the file early, and is raised at the end."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=PIECE) as reader, io.FileIO(writing, "w") as writer:
        feeding = asyncio.create_task(_feed(pieces, writer))
        try:
            yield reader
        except BaseException as error:
            # The cause, if its error broke the archive off.
            if feeding.done() and not feeding.cancelled() and (cause := feeding.exception()) is not None:
                raise cause from error
            raise
        finally:
            feeding.cancel()
            await asyncio.wait({feeding})
            feeding.cancelled() or feeding.exception()
    if not feeding.cancelled():
        feeding.result()


async def _feed(pieces: AsyncIterator[bytes], writer: io.FileIO) -> None:
    """Writes and closes the pipe itself: uvloop's `connect_write_pipe` closes the descriptor twice
    (MagicStack/uvloop#763), which may close one that another thread has opened in between."""
    os.set_blocking(writer.fileno(), False)
    with writer:
        async for piece in pieces:
            await write_all(writer.fileno(), piece)


async def parsed(
    pieces: AsyncIterator[bytes], take: Callable[[list[Part]], T], size: int = PARSED, *, only_first: bool = False
) -> AsyncGenerator[T, None]:
    """What `take` makes of the parts of an archive, or of its first member, in a thread, for about `size` bytes at a
    time. A small archive is parsed in the event loop, which costs less than a thread switch. Raises `SandboxError` if
    the archive breaks off or is invalid."""
    parser = Parser(only_first=only_first)

    def make(batch: list[bytes]) -> T:
        return take(list(parser.feed(batch)))

    async with aclosing(_batches(pieces, size)) as batches:
        async for batch in batches:
            yield make(batch) if sum(map(len, batch)) <= PIECE else await asyncio.to_thread(make, batch)
            if parser.has_ended:
                return
    raise SandboxError("The archive of the workspace ended unexpectedly.")


async def _batches(pieces: AsyncIterator[bytes], size: int) -> AsyncGenerator[list[bytes], None]:
    batch: list[bytes] = []
    held = 0
    async for piece in pieces:
        batch.append(piece)
        held += len(piece)
        if held >= size:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


async def without_special_files(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """An archive's regular files, directories and links, without devices, FIFOs and sockets. Names are relative,
    without the `./` that an Engine adds, and headers are like those of `header`. Raises as `parsed`."""

    def head(member: tarfile.TarInfo) -> bytes:
        name = _relative(member.name)
        return _header(member, name, _target(member)) if member.type in _KEPT and name else b""

    async with aclosing(parsed(pieces, partial(_rewritten, head))) as batches:
        async for data in batches:
            yield data
    yield END


async def in_folder(folder: str, pieces: AsyncIterator[bytes], owner: int | None = None) -> AsyncGenerator[bytes, None]:
    """An archive's members in a folder, with their owners or this one. Raises as `parsed`."""

    def head(member: tarfile.TarInfo) -> bytes:
        target = f"{folder}/{_target(member)}" if member.islnk() else member.linkname
        uid, gid = (member.uid, member.gid) if owner is None else (owner, owner)
        return _header(member, f"{folder}/{_relative(member.name)}", target, uid, gid)

    async with aclosing(parsed(pieces, partial(_rewritten, head))) as batches:
        async for data in batches:
            yield data
    yield END


async def file_content(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The content of an archive's first member; nothing if it is not a regular file. Raises as `parsed`."""

    def content(parts: list[Part]) -> bytes:
        return b"".join(part.data for part in parts if part.member.isreg())

    async with aclosing(parsed(pieces, content, PIECE, only_first=True)) as batches:
        async for data in batches:
            yield data


def whole_members(archive: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The members of an archive, each with its content, of a link its target. What is cut off or invalid ends them."""
    held: list[bytes] = []
    with suppress(SandboxError):
        for part in Parser().feed([archive]):
            held.append(part.content)
            if part.start + len(part.data) == part.member.size:
                yield part.member, b"".join(held)
                held.clear()


def relative_name(member: tarfile.TarInfo) -> bytes:
    """A member's path, relative to the workspace."""
    return os.fsencode(_relative(member.name).rstrip("/"))


_KEPT = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE)


def _rewritten(head: Callable[[tarfile.TarInfo], bytes], parts: list[Part]) -> bytes:
    """The parts as an archive with other headers; members without one are left out."""
    made: list[bytes] = []
    for member, start, data in parts:
        if header := head(member):
            if not start:
                made.append(header)
            made.append(data)
            if start + len(data) == member.size:
                made.append(bytes(-member.size % BLOCK))
    return b"".join(made)


def _header(member: tarfile.TarInfo, name: str, target: str, uid: int = 0, gid: int = 0) -> bytes:
    """A new header for a member of a foreign archive."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.mtime = member.type, member.size, member.mode & 0o777, int(member.mtime)
    info.linkname, info.uid, info.gid = target, uid, gid
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _target(member: tarfile.TarInfo) -> str:
    return _relative(member.linkname) if member.islnk() else member.linkname


def _relative(name: str) -> str:
    """`a/b` of `./a/b`; empty for the workspace itself."""
    return "" if name in (".", "./") else name.removeprefix("./")
