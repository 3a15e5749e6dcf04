"""The MCP servers of a session as its owner keeps them. Without servers, nothing of the client is loaded."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

import structlog

from app.runtime.mcp.bounds import ServerError
from app.runtime.mcp.catalog import Catalog
from app.runtime.mcp.config import servers_of
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import mcp as transactions
from app.sandbox.base import Sandbox
from app.tools.masking import Masking

if TYPE_CHECKING:
    from app.runtime.mcp.servers import SessionServers

log = structlog.get_logger(__name__)


class McpServers:
    """Made with the owner; `prepare` before each step, `aclose` when its runs end."""

    def __init__(self, setup: RuntimeSetup, session: SessionState, recorder: Recorder) -> None:
        self._setup = setup
        self._session = session
        self._recorder = recorder
        self._servers: SessionServers | None = None

    async def prepare(self) -> None:
        """Connects servers that are due, and updates what the next step offers. May be cancelled."""
        row = self._session.row
        if self._servers is None:
            if not servers_of(row, self._setup.mcp.defaults):
                return
            self._servers = await self._make()
            self._session.mcp_servers = self._servers
        try:
            await self._servers.prepare(row)
        finally:
            self._session.offer_mcp(self._servers.catalogs)

    async def recall(self) -> None:
        """Puts what the servers offered last into the context without connecting them, for a round between runs."""
        session_id = self._session.id
        if servers_of(self._session.row, self._setup.mcp.defaults):
            found = await self._setup.database.read(lambda c: transactions.catalogs(c, session_id))
            self._session.offer_mcp(tuple(found))

    async def _make(self) -> SessionServers:
        module = await asyncio.to_thread(_load)
        return module(self._setup.mcp, _Session(self._setup, self._session), _Reports(self._recorder, self._setup))

    async def aclose(self) -> None:
        """Ends the connections and their processes."""
        if self._servers is not None:
            servers, self._servers, self._session.mcp_servers = self._servers, None, None
            await servers.aclose()


def _load() -> type[SessionServers]:
    """In a thread: the first time it takes about a second."""
    from app.runtime.mcp.servers import SessionServers

    return SessionServers


class _Session:
    """See `servers.Session`."""

    def __init__(self, setup: RuntimeSetup, session: SessionState) -> None:
        self._setup = setup
        self._session = session

    @property
    def masking(self) -> Masking:
        return self._session.masking

    async def sandbox(self) -> Sandbox:
        return await self._session.sandbox()

    def using_workspace(self) -> AbstractAsyncContextManager[None]:
        workspaces = self._setup.workspaces
        return nullcontext() if workspaces is None else workspaces.using(self._session.id)


class _Reports:
    """See `servers.Reports`."""

    def __init__(self, recorder: Recorder, setup: RuntimeSetup) -> None:
        self._recorder = recorder
        self._database = setup.database

    async def uses(self) -> Counter[str]:
        session_id = self._recorder.session_id
        return await self._database.read(lambda c: transactions.uses(c, session_id))

    async def ready(self, catalog: Catalog) -> None:
        session_id, epoch = self._recorder.session_id, self._recorder.epoch
        log.info("mcp_ready", session_id=session_id, server=catalog.server, tools=len(catalog.tools))
        await asyncio.shield(self._recorder.submit(lambda c: transactions.ready(c, session_id, epoch, catalog)))

    async def failed(self, server: str, error: ServerError) -> None:
        session_id, epoch = self._recorder.session_id, self._recorder.epoch
        log.warning("mcp_failed", session_id=session_id, server=server, code=error.code, reason=error.detail)
        await asyncio.shield(
            self._recorder.submit(lambda c: transactions.failed(c, session_id, epoch, server, error.code, error.detail))
        )
