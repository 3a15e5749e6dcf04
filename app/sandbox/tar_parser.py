"""Splits tar archives into parts. They come from an Engine, or from a process that an agent controls: nothing in them
may take more time or memory than their size."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from app.errors import SandboxError

BLOCK = tarfile.BLOCKSIZE
_ZEROS = bytes(BLOCK)
_MAX_EXTENSIONS = 1024 * 1024
"""Bytes of the headers before the one of a member. An Engine's have the extended attributes, of up to 64 KiB each."""
_EXTENSIONS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_WITHOUT_CONTENT = (
    *(tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE),
    *(tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE),
)
_TEXTS = {b"path": "name", b"linkpath": "linkname"}
_NUMBERS = {b"size": "size", b"uid": "uid", b"gid": "gid"}
_MAX_DIGITS = 16


class Part(NamedTuple):
    """Some content of a member, which starts at this place of it. A member without content has one part."""

    member: tarfile.TarInfo
    start: int
    data: bytes

    @property
    def content(self) -> bytes:
        """The data, of a link its target."""
        if self.member.isreg():
            return self.data
        return b"" if self.start else os.fsencode(self.member.linkname)


class Parser:
    """Parses an archive, or its first member. It is fed with pieces of any size, and does no I/O."""

    def __init__(self, *, only_first: bool = False) -> None:
        self._only_first = only_first
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
        while not self.has_ended and (member := (yield from self._member())) is not None:
            start = 0
            self.has_ended = self._only_first and not member.size
            if not member.size:
                yield Part(member, start, b"")
            while start < member.size:
                data = self._held[self._place : self._place + member.size - start]
                self._place += len(data)
                start += len(data)
                self.has_ended = self._only_first and start == member.size
                yield Part(member, start - len(data), data) if data else None
            yield from self._take(-member.size % BLOCK)
        self.has_ended = True

    def _member(self) -> Generator[None, None, tarfile.TarInfo | None]:
        """The next header with the extensions before it; None at the end."""
        extensions: dict[bytes, bytes] = {}
        left = _MAX_EXTENSIONS
        while (block := (yield from self._take(BLOCK))) != _ZEROS:
            if block[156:157] not in _EXTENSIONS:
                return _extended(block, extensions)
            size = _header(block).size
            left -= BLOCK + size
            if left < 0:
                raise _invalid()
            data = yield from self._take(size + -size % BLOCK)
            extensions |= _extension(block[156:157], data[:size])
        return None

    def _take(self, size: int) -> Generator[None, None, bytes]:
        while len(self._held) - self._place < size:
            yield None
        self._place += size
        return self._held[self._place - size : self._place]


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as exc:
        raise _invalid() from exc
    if header.size < 0:
        raise _invalid()
    return header


def _extended(block: bytes, extensions: Mapping[bytes, bytes]) -> tarfile.TarInfo:
    """The header of a member, with what the extensions before it say instead."""
    member = _header(block)
    for keyword, value in extensions.items():
        if keyword in _TEXTS:
            setattr(member, _TEXTS[keyword], os.fsdecode(value))
        elif value.isdigit() and len(value) <= _MAX_DIGITS:
            setattr(member, _NUMBERS[keyword], int(value))
        else:
            raise _invalid()
    if member.isdir():
        member.name = member.name.rstrip("/")
    if "\0" in member.name + member.linkname or (member.size and member.type in _WITHOUT_CONTENT):
        raise _invalid()
    return member


def _extension(kind: bytes, data: bytes) -> dict[bytes, bytes]:
    """What counts of a header for the next member. Not `tarfile`'s parser, which takes quadratic time for hostile ones
    before Python 3.11.10 and 3.12.6 (CVE-2024-6232), and calls itself for each."""
    match kind:
        case tarfile.GNUTYPE_LONGNAME:
            return {b"path": data.partition(b"\0")[0]}
        case tarfile.GNUTYPE_LONGLINK:
            return {b"linkpath": data.partition(b"\0")[0]}
        case tarfile.XHDTYPE:
            return dict(_records(data))
    return {}


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The records of a pax header that count. One is `13 path=name\\n`, with its own length in front."""
    place = 0
    while place < len(data):
        space = data.find(b" ", place, place + _MAX_DIGITS)
        digits = data[place : max(space, place)]
        end = place + int(digits) if digits.isdigit() else 0
        if not space < end <= len(data) or data[end - 1 : end] != b"\n":
            raise _invalid()
        keyword, _, value = data[space + 1 : end - 1].partition(b"=")
        if keyword in _TEXTS or keyword in _NUMBERS:
            yield keyword, value
        place = end


def _invalid() -> SandboxError:
    return SandboxError("The archive of the workspace cannot be read.")
