"""A Docker Engine that can go away: a separate socket in front of the real one, which stays usable by others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.passing_on import PassedOn, Streams

ENGINE = "/var/run/docker.sock"
TIMEOUT_S = 60.0


class EngineProxy:
    """Forwards connections to `path` until it is cut, from a thread with its own event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._passed_on = PassedOn(self._connect)
        self._answers = True

    @property
    def host(self) -> str:
        return f"unix://{self.path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    def repair(self) -> None:
        """Listens and answers again."""
        self._answers = True
        self._do(self._passed_on.flow())
        self._do(self._listen())

    def cut(self) -> None:
        """Refuses all connections, including open ones."""
        self._do(self._close())

    def mute(self) -> None:
        """Accepts connections but sends nothing."""
        self._answers = False
        self._do(self._passed_on.drop())

    def stall(self) -> None:
        """Keeps open connections and accepts new ones, but sends nothing on any."""
        self._do(self._passed_on.stall())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._passed_on.accept, self.path)

    async def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await self._passed_on.close(server)
            self.path.unlink(missing_ok=True)

    async def _connect(self) -> Streams | None:
        return await asyncio.open_unix_connection(ENGINE) if self._answers else None
