"""Archives from clients on their way into a workspace: checked and unpacked in threads, a few at a time."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from typing import IO

from app.sandbox.archive_formats import Bounds
from app.sandbox.incoming import Contents, as_tar, check
from app.sessions import SandboxSpec

MAX_ENTRIES = 100_000
"""Files and directories of an archive: more than the Linux kernel has. Their names are in memory, some 20 MB."""
AT_ONCE = 2
"""Archives being checked at the same time: each takes a core, and up to 150 MB for the window of a zstd stream and the
names."""
DIGEST_BYTES = 1024 * 1024
"""Bytes read at a time for a digest."""


class IncomingArchives:
    """Those of one server. Files are what `tempfile` makes; all methods read them from the beginning."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes` of what an archive unpacks to."""
        self._most_bytes = most_bytes
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def check(self, file: IO[bytes], folder: Sequence[str], spec: SandboxSpec) -> Contents:
        """See `app.sandbox.incoming.check`; an archive must also fit the disk of a sandbox of this spec."""
        async with self._turns:
            return await asyncio.to_thread(check, file, folder, self._bounds(spec))

    async def pieces(self, file: IO[bytes], folder: Sequence[str], spec: SandboxSpec) -> AsyncGenerator[bytes, None]:
        """A checked archive as `Sandbox.unpack` takes it."""
        async with self._turns:
            found: Iterator[bytes] = as_tar(file, folder, self._bounds(spec))
            while (piece := await asyncio.to_thread(next, found, None)) is not None:
                yield piece

    def _bounds(self, spec: SandboxSpec) -> Bounds:
        return Bounds(self._most_bytes, MAX_ENTRIES)


async def digest(file: IO[bytes]) -> str:
    """The SHA-256 of a whole file."""
    return await asyncio.to_thread(_digest, file)


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    made = hashlib.sha256()
    for piece in iter(partial(file.read, DIGEST_BYTES), b""):
        made.update(piece)
    return made.hexdigest()
