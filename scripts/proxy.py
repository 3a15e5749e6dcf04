"""A small proxy before several servers on this machine: each connection goes to the next server that accepts it, and
its bytes are passed on as they come, so that event streams are not held back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress

BLOCK = 1 << 16


class Proxy:
    """Passes connections on to the `ports` in turn, and leaves out those that refuse."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[str]:
        """Its URL. Leaving the context cuts all connections. Raises `OSError` if the port is taken."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError):
            server_reader, server_writer = await self._connect()
            with closing(server_writer):
                forth = asyncio.create_task(_pass_on(reader, server_writer))
                try:
                    # A server's end is the end: it answers whatever it still got.
                    await _pass_on(server_reader, writer)
                finally:
                    forth.cancel()
                    await asyncio.gather(forth, return_exceptions=True)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the next server. Raises `OSError` if none accepts one."""
        for _ in self._ports:
            self._ports.append(port := self._ports.pop(0))
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        raise ConnectionRefusedError


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(BLOCK):
        target.write(data)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()
