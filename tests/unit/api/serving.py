"""A real server around an application, in the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from app.connection_limits import BoundedProtocol
from tests.accepting import UvicornServer


class Server(UvicornServer):
    """A real server in the test's own loop."""

    @property
    def port(self) -> int:
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(app: FastAPI, http: type[BoundedProtocol] | None = None) -> AsyncIterator[Server]:
    """Serves `app` on a free loopback port and stops within a few seconds at the end; pass the product's own protocol
    as `http` if its limits matter."""
    ready = asyncio.Event()

    class Announcing(Server):
        async def startup(self, *args: object, **kwargs: object) -> None:
            await super().startup(*args, **kwargs)  # type: ignore[arg-type]
            ready.set()

    config = uvicorn.Config(
        app, http=http or "auto", port=0, log_level="error", timeout_graceful_shutdown=5, access_log=False
    )
    server = Announcing(config)
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(60):
            await ready.wait()
        yield server
    finally:
        server.should_exit = True
        await task
