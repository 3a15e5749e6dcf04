"""Tar archives as streams of pieces: written for workspaces on the host, filtered for those of an Engine."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import BinaryIO

from app.errors import SandboxError
from app.sandbox.base import FilePiece
from app.sandbox.host.process import write_all

BLOCK = tarfile.BLOCKSIZE
END = b"\0" * (2 * BLOCK)
"""The end-of-archive marker."""
PIECE = 64 * 1024
"""Bytes read from a file at a time; a stalled download holds one or two of them."""
GATHERED = 1024 * 1024
"""Bytes gathered of many small files that are handed on together."""


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


async def without_special_files(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """An archive's regular files, directories and links, without devices, FIFOs and sockets. Names are relative,
    without the `./` that an Engine adds, and headers are like those of `header`.

    Raises `SandboxError` if the archive breaks off or is invalid.
    """
    reader = _Reader(pieces)
    while (member := await reader.member()) is not None:
        keep = member.type in _KEPT and _relative(member.name) != ""
        if keep:
            yield _plain(member)
        async for data in reader.stream(member.size + -member.size % BLOCK):
            if keep:
                yield data
    yield END


async def in_folder(folder: str, pieces: AsyncIterator[bytes], owner: int | None = None) -> AsyncIterator[bytes]:
    """An archive's members in a folder, with their owners or this one. Raises as `without_special_files`."""
    reader = _Reader(pieces)
    while (member := await reader.member()) is not None:
        member.name = f"{folder}/{_relative(member.name)}"
        if owner is not None:
            member.uid = member.gid = owner
        if member.islnk():
            member.linkname = f"{folder}/{_relative(member.linkname)}"
        yield member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        async for data in reader.stream(member.size + -member.size % BLOCK):
            yield data
    yield END


async def file_content(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The content of the only file of an archive; nothing if it is not a regular file. Raises as
    `without_special_files`."""
    reader = _Reader(pieces)
    member = await reader.member()
    if member is not None and member.isreg():
        async for data in reader.stream(member.size):
            yield data


async def contents(pieces: AsyncIterator[bytes]) -> AsyncGenerator[tuple[tarfile.TarInfo, bytes], None]:
    """All members, each with at least one piece of its content: of a link its target, of a directory none. Raises as
    `without_special_files`."""
    reader = _Reader(pieces)
    while (member := await reader.member()) is not None:
        if not member.isreg():
            yield member, os.fsencode(member.linkname)
        left = member.size
        if member.isreg() and not left:
            yield member, b""
        async for data in reader.stream(member.size + -member.size % BLOCK):
            if left > 0 and member.isreg():
                yield member, data[:left]
            left -= len(data)


def relative_name(member: tarfile.TarInfo) -> bytes:
    """A member's path, relative to the workspace."""
    return os.fsencode(_relative(member.name).rstrip("/"))


_KEPT = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE)
_EXTENSIONS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_CHARSET = b"21 hdrcharset=BINARY\n"
_MAX_EXTENSION = 1024 * 1024


def _member(head: bytes) -> tarfile.TarInfo:
    """Parses a header with the extensions before it. An extension by itself is parsed as a header."""
    try:
        if head[156:157] in _EXTENSIONS and len(head) == BLOCK:
            return tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        with tarfile.open(
            fileobj=io.BytesIO(head + END), mode="r:", encoding="utf-8", errors="surrogateescape"
        ) as archive:
            member = archive.next()
    except (tarfile.TarError, ValueError) as exc:
        raise SandboxError("The archive of the workspace cannot be read.") from exc
    if member is None:
        raise SandboxError("The archive of the workspace cannot be read.")
    return member


def _with_charset(records: bytes) -> bytes:
    """An extension with these records, and in front of them one that `tarfile` looks for in all: before Python 3.11.10
    and 3.12.6 it takes quadratic time over the digits of a name or a link without that (CVE-2024-6232). It says what
    holds anyway: names are bytes."""
    info = tarfile.TarInfo("names")
    info.type, data = tarfile.XHDTYPE, _CHARSET + records
    info.size = len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % BLOCK)


def _relative(name: str) -> str:
    """`a/b` of `./a/b`; empty for the workspace itself."""
    return "" if name in (".", "./") else name.removeprefix("./")


def _plain(member: tarfile.TarInfo) -> bytes:
    """A new header for a member of a foreign archive."""
    info = tarfile.TarInfo(_relative(member.name))
    info.type, info.size, info.mode, info.mtime = member.type, member.size, member.mode & 0o777, int(member.mtime)
    info.linkname = _relative(member.linkname) if member.islnk() else member.linkname
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


class _Reader:
    """Takes counted bytes from a stream of pieces of any size."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    async def member(self) -> tarfile.TarInfo | None:
        """The next header with the extensions before it; None at the end."""
        extension = b""
        while (block := await self.take(BLOCK)) != bytes(BLOCK):
            if block[156:157] not in _EXTENSIONS:
                return _member(extension + block)
            head = _member(block)
            data = await self.take(head.size + -head.size % BLOCK, _MAX_EXTENSION)
            extension += _with_charset(data[: head.size]) if head.type == tarfile.XHDTYPE else block + data
        return None

    async def take(self, size: int, limit: int | None = None) -> bytes:
        if limit is not None and size > limit:
            raise SandboxError("The archive of the workspace cannot be read.")
        return b"".join([data async for data in self.stream(size)])

    async def stream(self, size: int) -> AsyncIterator[bytes]:
        while size > 0:
            if not self._held:
                self._held = await anext(self._pieces, b"")
            if not self._held:
                raise SandboxError("The archive of the workspace ended unexpectedly.")
            data, self._held = self._held[:size], self._held[size:]
            size -= len(data)
            yield data
