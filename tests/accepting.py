"""How asyncio servers of tests stop accepting connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

import uvicorn

ACCEPT_TURNS = 3
"""Turns of the loop that asyncio takes from a connection it has accepted to `connection_made`."""


async def stop_accepting(servers: Iterable[asyncio.Server]) -> None:
    """Call it before closing the servers: asyncio leaves a connection open that it accepted just before and has not yet
    made, and a later test would fail with its warning."""
    loop = asyncio.get_running_loop()
    for server in servers:
        for listening in server.sockets:
            loop.remove_reader(listening)
    for _ in range(ACCEPT_TURNS):
        await asyncio.sleep(0)


class UvicornServer(uvicorn.Server):
    """uvicorn's server, which leaves no connection open."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await stop_accepting(self.servers)
        await super().shutdown(sockets)
