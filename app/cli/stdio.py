"""Standard input and output for a protocol: nothing else in the process reads or writes them."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import IO

from app.cli.screen import UsageError

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Longest line that is read: several images in one message."""


@asynccontextmanager
async def protocol_streams(speaks: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The process's standard input and output. Anything else that is printed goes to standard error, and other readers
    get nothing. SIGTERM and SIGINT end the input, as a client that disconnects does; a second one ends the process.

    Raises `UsageError` if they are files or the null device: `speaks` is the protocol that it names.
    """
    if not (_is_connected(0) and _is_connected(1)):
        raise UsageError(
            f"This command speaks {speaks} on standard input and output, which must be pipes. Start it from a client.",
            code="no_client",
        )
    loop = asyncio.get_running_loop()
    source, sink = _taken()
    reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
    incoming, _ = await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), source)
    outgoing, protocol = await loop.connect_write_pipe(
        partial(asyncio.StreamReaderProtocol, asyncio.StreamReader()), sink
    )

    def end() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        incoming.close()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        yield reader, asyncio.StreamWriter(outgoing, protocol, None, loop)
    finally:
        incoming.close()
        outgoing.close()


def _is_connected(descriptor: int) -> bool:
    """Whether a descriptor can be waited for: files and the null device cannot."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _taken() -> tuple[IO[bytes], IO[bytes]]:
    """Moves both streams to descriptors that no other part of the process and no child has."""
    source, sink = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, sink
