"""A network connection between the browser and the server that can fail."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.passing_on import PassedOn, Streams


class Network:
    """A TCP proxy in the running loop that forwards connections until it is cut."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._passed_on = PassedOn(self._connect)
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.restore()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.cut()

    async def restore(self) -> None:
        """Accepts connections, on the same port as before."""
        self._server = await asyncio.start_server(self._passed_on.accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Drops all connections and rejects new ones."""
        if self._server is not None:
            await self._passed_on.close(self._server)
            self._server = None

    async def drop(self) -> None:
        """Drops all connections and accepts new ones."""
        await self._passed_on.drop()

    async def _connect(self) -> Streams:
        return await asyncio.open_connection(self._target.hostname, self._target.port)
