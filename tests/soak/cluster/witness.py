"""Hears of each command that runs, from the command itself: what nodes, logs and workspaces say is held against it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Self


class Witness:
    """Listens on a port of this machine while the context lasts."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        """How often each token was reported."""
        self.port = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._hear, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            self.times.update((await reader.read(100)).decode().split())
        writer.close()

    def ran(self, tokens: set[str]) -> list[str]:
        """Those of the tokens that were reported, each as often as it was."""
        return [token for token in sorted(tokens & self.times.keys()) for _ in range(self.times[token])]
