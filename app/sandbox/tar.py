"""Tar archives as streams of pieces: written for workspaces on the host, filtered for those of an Engine."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import BinaryIO, NamedTuple, TypeVar

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


class Part(NamedTuple):
    """Some content of a member, which starts at this place of it. A member without content has one part."""

    member: tarfile.TarInfo
    start: int
    data: bytes

    @property
    def content(self) -> bytes:
        """The data, of a link its target."""
        return self.data if self.member.isreg() else os.fsencode(self.member.linkname)


async def parsed(
    pieces: AsyncIterator[bytes], take: Callable[[list[Part]], T], size: int = PARSED
) -> AsyncGenerator[T, None]:
    """What `take` makes of an archive's parts in a thread, for about `size` bytes at a time. A small archive is parsed
    in the event loop, which costs less than a thread switch. Raises `SandboxError` if the archive breaks off or is
    invalid."""
    parser = _Parser()

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
    """The content of the only file of an archive; nothing if it is not a regular file. Raises as `parsed`."""

    def content(parts: list[Part]) -> bytes:
        return b"".join(part.data for part in parts if part.member.isreg())

    async with aclosing(parsed(pieces, content, PIECE)) as batches:
        async for data in batches:
            yield data


def whole_members(pieces: Iterable[bytes]) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The members of archives that follow each other, each with its content, of a link its target. What is cut off or
    invalid ends them."""
    parser = _Parser(several=True)
    held: list[bytes] = []
    with suppress(SandboxError):
        for piece in pieces:
            for part in parser.feed([piece]):
                held.append(part.content)
                if part.start + len(part.data) == part.member.size:
                    yield part.member, b"".join(held)
                    held.clear()


def relative_name(member: tarfile.TarInfo) -> bytes:
    """A member's path, relative to the workspace."""
    return os.fsencode(_relative(member.name).rstrip("/"))


_KEPT = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE)
_EXTENSIONS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_ZEROS = bytes(BLOCK)
_CHARSET = b"21 hdrcharset=BINARY\n"
_MAX_EXTENSIONS = 1024 * 1024


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


class _Parser:
    """Splits an archive, or `several`, into parts. It is fed with pieces of any size, and reads and writes nothing
    itself."""

    def __init__(self, *, several: bool = False) -> None:
        self._several = several
        self._held = b""
        self._place = 0
        self._parts = self._parse()
        self.has_ended = False

    def feed(self, pieces: Iterable[bytes]) -> Iterator[Part]:
        """The parts in the next pieces, which have to be taken before it is fed again. Raises `SandboxError`."""
        self._held, self._place = b"".join((self._held[self._place :], *pieces)), 0
        return iter(partial(next, self._parts, None), None)

    def _parse(self) -> Generator[Part | None, None, None]:
        """The parts, and None whenever more bytes are needed."""
        while (member := (yield from self._member())) is not None:
            start = 0
            if not member.size:
                yield Part(member, start, b"")
            while start < member.size:
                data = self._held[self._place : self._place + member.size - start]
                self._place += len(data)
                yield Part(member, start, data) if data else None
                start += len(data)
            yield from self._take(-member.size % BLOCK)

    def _member(self) -> Generator[None, None, tarfile.TarInfo | None]:
        """The next header with the extensions before it; None at the end."""
        extensions = b""
        while (block := (yield from self._take(BLOCK))) != _ZEROS or self._several:
            if block == _ZEROS:
                continue
            if block[156:157] not in _EXTENSIONS:
                return _parse_header(extensions + block)
            size = _parse_header(block).size
            if len(extensions) + size > _MAX_EXTENSIONS:
                raise SandboxError("The archive of the workspace cannot be read.")
            data = yield from self._take(size + -size % BLOCK)
            extensions += _with_charset(data[:size]) if block[156:157] == tarfile.XHDTYPE else block + data
        self.has_ended = True
        return None

    def _take(self, size: int) -> Generator[None, None, bytes]:
        while len(self._held) - self._place < size:
            yield None
        self._place += size
        return self._held[self._place - size : self._place]


def _parse_header(head: bytes) -> tarfile.TarInfo:
    """Parses a header with the extensions before it. An extension by itself is parsed as a header."""
    try:
        if len(head) == BLOCK:
            member = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        else:
            file = io.BytesIO(head + END)
            with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
                found = archive.next()
            if found is None:
                raise tarfile.ReadError("no member")
            member = found
    except (tarfile.TarError, ValueError) as exc:
        raise SandboxError("The archive of the workspace cannot be read.") from exc
    if member.size < 0:
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
