"""HTTP on one connection of the egress proxy."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import h11

from app.sandbox.egress.requests import Peer

CHUNKS = 500


async def test_a_body_in_tiny_chunks_leaves_the_event_loop_to_others() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * CHUNKS)
    reader.feed_data(b"0\r\n\r\n")
    peer = Peer(h11.SERVER, reader, Mock())
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    while not isinstance(await peer.event(), h11.EndOfMessage):
        pass
    waiting.cancel()
    assert turns >= CHUNKS
