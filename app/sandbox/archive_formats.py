"""Archives that clients send, read as a stream of entries: tar, also compressed with gzip or zstd, and zip. All of it
blocks, and holds little more than one entry in memory."""

from __future__ import annotations

import calendar
import gzip
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import IO, Literal, Protocol, cast

from app.errors import InvalidRequestError, TooLargeError
from app.sandbox import paths

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 64 * 1024
"""Bytes of content read at a time."""
HEADER_BYTES = 1024 * 1024
"""Largest header of a tar entry, with its extensions: `tarfile` reads it whole, and a name has 4,095 bytes at most."""
DIGIT_STEPS = 2 * 17 * 255**2
"""What the digits of a header may cost: a name and a link of digits alone. Before Python 3.11.10 and 3.12.6, `tarfile`
looks at each digit again for each one before it (CVE-2024-6232): one header of 1 MiB stopped the server for half an
hour."""
DIRECTORY_BYTES = 32 * 1024 * 1024
"""Largest central directory of a zip file, which `zipfile` reads whole."""
WINDOW_LOG = 27
"""Largest window of a zstd stream, 128 MiB: what the `zstd` command takes without `--long`."""
_DIGITS = bytes(byte if chr(byte).isdecimal() else ord(" ") for byte in range(256))
"""Makes spaces of all but digits."""
_OLDEST = 315_532_800
"""1980-01-01, the earliest time that a zip file can have."""
_ZIPPED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ZIP_ENTRY = b"PK\x01\x02"
_UNIX, _UTF_8 = 3, 0x800
"""The system that made an entry, and the flag of names in UTF-8."""
Kind = Literal["file", "directory", "symlink", "hardlink", "other"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most bytes and entries of an unpacked archive."""

    bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """An entry as the archive has it, unchecked. `mode` includes the special bits; `target` is a link's. `content`
    yields `size` bytes, and can be read until the next entry."""

    name: bytes
    kind: Kind
    mode: int
    mtime: int
    size: int
    target: bytes
    content: Callable[[], Iterator[bytes]]


def entries(file: IO[bytes], bounds: Bounds) -> Iterator[ArchiveEntry]:
    """The entries of an archive. Its end, with the checksum there, is checked after the last one.

    Raises `InvalidRequestError` (`invalid_archive`) for what is no such archive, is damaged or cut off, and
    `TooLargeError` (`archive_too_large`) if it would be larger than `bounds` allows.
    """
    file.seek(0)
    head = file.read(4)
    file.seek(0)
    with _readable():
        if head in (b"PK\x03\x04", b"PK\x05\x06"):
            yield from _zip_entries(file, bounds)
        elif head[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
                yield from _tar_entries(cast(IO[bytes], unzipped), bounds)
        elif head == b"\x28\xb5\x2f\xfd":
            limited: Mapping[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
            with zstd.ZstdFile(file, options=limited) as unpacked:
                yield from _tar_entries(cast(IO[bytes], unpacked), bounds)
        else:
            yield from _tar_entries(file, bounds)


def too_large(bounds: Bounds) -> TooLargeError:
    return TooLargeError(
        f"The archive would unpack to more than {bounds.bytes:,} bytes or {bounds.entries:,} files and directories.",
        code="archive_too_large",
        limit_bytes=bounds.bytes,
        limit_entries=bounds.entries,
    )


def unreadable(reason: str, name: bytes | None = None) -> InvalidRequestError:
    """The archive is refused as a whole; `name` is the entry that is the reason."""
    if name is None:
        return InvalidRequestError(f"The archive {reason}.", code="invalid_archive", entry=None)
    shown = paths.clean_name(name)
    return InvalidRequestError(
        f"The entry {paths.show(shown)} {reason}; nothing was unpacked.", code="invalid_archive", entry=shown[:4096]
    )


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zstd.ZstdError,
        zlib.error,
        gzip.BadGzipFile,
        EOFError,
        NotImplementedError,
        RecursionError,
        RuntimeError,
        ValueError,
        OverflowError,
    ) as exc:
        raise unreadable("is damaged, cut off, or none of tar, tar.gz, tar.zst and zip") from exc


class _Readable(Protocol):
    """What is read of a file, compressed or not."""

    def read(self, size: int, /) -> bytes: ...


class _Forward:
    """What `TarFile` reads an archive from: it moves only forward, and bounds what is read for a header, since
    `tarfile` believes the sizes there."""

    def __init__(self, source: _Readable, bounds: Bounds) -> None:
        self._source = source
        self._bounds = bounds
        self._place = 0
        # Each entry has a header, and in the worst case another one with its extensions.
        self._most = bounds.bytes + 4 * tarfile.BLOCKSIZE * bounds.entries + HEADER_BYTES
        self._header_left = HEADER_BYTES
        self._extended = HEADER_BYTES + 2 * tarfile.BLOCKSIZE * bounds.entries
        self.last = b""
        """What was read last."""

    def begin_header(self) -> None:
        self._header_left = min(HEADER_BYTES, self._extended)

    def tell(self) -> int:
        return self._place

    def seek(self, place: int) -> None:
        if place < self._place:
            raise tarfile.ReadError("it leads back")
        while self._place < place:
            if not self._take(min(PIECE, place - self._place)):
                raise EOFError

    def read(self, size: int) -> bytes:
        """Reads for a header."""
        if size > tarfile.BLOCKSIZE:
            self._extended -= size
        self._header_left -= size
        if self._header_left < 0:
            raise tarfile.ReadError("a header is too large")
        self.last = self._take(size)
        if sum(len(digits) ** 2 for digits in self.last.translate(_DIGITS).split()) > DIGIT_STEPS:
            raise tarfile.ReadError("a header has too many digits")
        return self.last

    def content(self, size: int) -> Iterator[bytes]:
        with _readable():
            while size > 0:
                data = self._take(min(PIECE, size))
                if not data:
                    raise EOFError
                size -= len(data)
                yield data

    def drain(self) -> None:
        """Reads what is after the last entry, for the checksum at the end of what is compressed."""
        while self._take(PIECE):
            pass

    def _take(self, size: int) -> bytes:
        data = self._source.read(size)
        while data and len(data) < size and (more := self._source.read(size - len(data))):
            data += more
        self._place += len(data)
        if self._place > self._most:
            raise too_large(self._bounds)
        return data


def _tar_entries(source: _Readable, bounds: Bounds) -> Iterator[ArchiveEntry]:
    forward = _Forward(source, bounds)
    with tarfile.TarFile(
        fileobj=cast(IO[bytes], forward), mode="r", encoding="utf-8", errors="surrogateescape"
    ) as archive:
        while True:
            forward.begin_header()
            member = archive.next()
            if member is None:
                break
            # It would keep all of them.
            archive.members.clear()  # type: ignore[attr-defined]  # not in its published types
            yield _tar_entry(member, forward)
    if forward.last != bytes(tarfile.BLOCKSIZE):
        # `tarfile` takes a header that it cannot read for the end.
        raise EOFError
    forward.drain()


def _tar_entry(member: tarfile.TarInfo, forward: _Forward) -> ArchiveEntry:
    kind: Kind = "other"
    if member.isreg() and not member.issparse():
        kind = "file"
    elif member.isdir():
        kind = "directory"
    elif member.issym():
        kind = "symlink"
    elif member.islnk():
        kind = "hardlink"
    if member.size < 0:
        raise tarfile.ReadError("a negative size")
    size = member.size if kind == "file" else 0
    name, target = (text.encode("utf-8", "surrogateescape") for text in (member.name, member.linkname))
    return ArchiveEntry(name, kind, member.mode, int(member.mtime), size, target, lambda: forward.content(size))


class _ZipSource:
    """A file of which `zipfile` may not read too much at once, which it does only for the central directory."""

    def __init__(self, file: IO[bytes], bounds: Bounds) -> None:
        self._file = file
        self._bounds = bounds
        self.seek, self.tell, self.seekable = file.seek, file.tell, lambda: True

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > DIRECTORY_BYTES:
            size = DIRECTORY_BYTES + 1
        data = self._file.read(size)
        if len(data) > DIRECTORY_BYTES or (len(data) > PIECE and data.count(_ZIP_ENTRY) > self._bounds.entries):
            raise too_large(self._bounds)
        return data


def _zip_entries(file: IO[bytes], bounds: Bounds) -> Iterator[ArchiveEntry]:
    with zipfile.ZipFile(cast(IO[bytes], _ZipSource(file, bounds))) as archive:
        for info in archive.infolist():
            yield _zip_entry(archive, info)


def _zip_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ArchiveEntry:
    name = _zip_name(info)
    if b"\\" in name or b"\0" in name:
        raise unreadable("has a name with a backslash or NUL character", name)
    if info.flag_bits & 1:
        raise unreadable("is encrypted", name)
    if info.compress_type not in _ZIPPED:
        raise unreadable("is compressed by another method than deflate", name)
    mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
    kind = _zip_kind(info, mode)
    mode = stat.S_IMODE(mode) or (0o755 if kind == "directory" else 0o644)
    size, target = (info.file_size, b"") if kind == "file" else (0, b"")
    if kind == "symlink":
        if info.file_size > paths.MAX_PATH_BYTES:
            raise unreadable("is a link with a target that is too long", name)
        target = b"".join(_unzipped(archive, info))
    return ArchiveEntry(name, kind, mode, _zip_time(info), size, target, lambda: _unzipped(archive, info))


def _zip_name(info: zipfile.ZipInfo) -> bytes:
    """The bytes of a name. On Unix, `zip` writes those of the file system and does not mark them as UTF-8; `zipfile`
    reads them as code page 437, which loses none."""
    if info.create_system == _UNIX and not info.flag_bits & _UTF_8:
        return info.orig_filename.encode("cp437")
    return info.orig_filename.encode("utf-8", "surrogateescape")


def _zip_kind(info: zipfile.ZipInfo, mode: int) -> Kind:
    if info.is_dir():
        return "directory"
    if stat.S_IFMT(mode) in (0, stat.S_IFREG):
        return "file"
    return "symlink" if stat.S_ISLNK(mode) else "directory" if stat.S_ISDIR(mode) else "other"


def _unzipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content, of exactly the size that is promised."""
    left = info.file_size
    with _readable(), closing(archive.open(info)) as source:
        while data := source.read(PIECE):
            left -= len(data)
            if left < 0:
                raise EOFError
            yield data
        if left:
            raise EOFError


def _zip_time(info: zipfile.ZipInfo) -> int:
    try:
        return calendar.timegm((*info.date_time, 0, 0, 0))
    except ValueError:
        return _OLDEST
