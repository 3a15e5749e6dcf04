"""Tar archives as streams of pieces: written here for the host's workspaces, filtered here for an Engine's."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator

BLOCK = tarfile.BLOCKSIZE
END = b"\0" * (2 * BLOCK)
"""What closes an archive."""
PIECE = 256 * 1024
"""Bytes read from a file at a time."""


def header(name: bytes, kind: bytes, status: os.stat_result, *, link: bytes = b"", size: int = 0) -> bytes:
    """The header of one entry in GNU format, which carries any bytes as a name and any length of it.

    Owners are left out: they are of this machine alone.
    """
    info = tarfile.TarInfo(os.fsdecode(name))
    info.type, info.linkname, info.size = kind, os.fsdecode(link), size
    info.mode, info.mtime = status.st_mode & 0o777, max(0, int(status.st_mtime))
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def regular(name: bytes, file: int) -> Iterator[bytes]:
    """Header and content of an open regular file. The content has the size that the header says even where the file
    shrinks or grows meanwhile: zeros follow, or the rest is left out."""
    status = os.fstat(file)
    yield header(name, tarfile.REGTYPE, status, size=status.st_size)
    left = status.st_size
    while left > 0:
        data = os.read(file, min(left, PIECE)) or bytes(min(left, PIECE))
        left -= len(data)
        yield data
    yield bytes(-status.st_size % BLOCK)
