"""Connections that are passed on both ways until they are dropped, for tests in which a network fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.accepting import stop_accepting

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class PassedOn:
    """The connections of one listener; `accept` is its callback. What `connect` gives is the other side, None one that
    takes all and says nothing; `pause_s` are the seconds between two pieces of what is sent there."""

    def __init__(self, connect: Callable[[], Awaitable[Streams | None]], pause_s: float = 0) -> None:
        self._connect = connect
        self._pause_s = pause_s
        self._open: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        # Here, since a task that is canceled before it starts runs nothing.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def stall(self) -> None:
        """Keeps all of them open, and passes nothing on until `flow`."""
        self._flowing.clear()

    async def flow(self) -> None:
        self._flowing.set()

    async def drop(self) -> None:
        """Ends all of them at once, as a network does."""
        tasks, self._open = self._open, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self, server: asyncio.Server) -> None:
        """Closes the listener and ends all connections, also one that was just accepted."""
        await stop_accepting([server])
        server.close()
        await self.drop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = await self._connect()
        except OSError:  # the other side is away
            return
        if target is None:
            await reader.read()
            return
        there, back = target
        try:
            # If one way breaks, both do. uvloop's transports say with a RuntimeError that they were closed.
            with suppress(OSError, RuntimeError):
                await asyncio.gather(self._pass_on(reader, back, self._pause_s), self._pass_on(there, writer))
        finally:
            back.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause_s: float = 0) -> None:
        while data := await reader.read(65536):
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if writer.can_write_eof():
            writer.write_eof()
