"""uvicorn's protocol with access to its sockets, so that a script can reset a connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, TypeAlias

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Address: TypeAlias = tuple[str, int]


class Connections:
    """The open connections, by the client's address as the ASGI scope has it."""

    def __init__(self) -> None:
        self._transports: dict[Address, asyncio.Transport] = {}

    def add(self, client: Address, transport: asyncio.Transport) -> None:
        self._transports[client] = transport

    def remove(self, client: Address) -> None:
        self._transports.pop(client, None)

    def reset(self, client: Address) -> None:
        """Drops the connection with a TCP reset: a socket closed with a linger time of zero sends one."""
        transport = self._transports.get(client)
        if transport is None:
            return
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    def close(self, client: Address) -> None:
        """Closes the connection once what was written is sent."""
        transport = self._transports.get(client)
        if transport is not None:
            transport.close()

    def abort_all(self) -> None:
        for transport in list(self._transports.values()):
            transport.abort()


class TrackedProtocol(HttpToolsProtocol):
    """Registers its transport for as long as it is open."""

    def __init__(self, connections: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client is not None:
            self._open.add(self.client, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.client is not None:
            self._open.remove(self.client)
        super().connection_lost(exc)
