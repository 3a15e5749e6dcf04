"""The servers of one owned session: connected before its first step, checked between steps, connected again when they
are gone, and closed when its runs end. A failure costs the server's tools, never the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import structlog

from app.errors import PalimpsestError, ToolError
from app.runtime.mcp.bounds import ServerError
from app.runtime.mcp.catalog import Catalog, Definition, make_catalog
from app.runtime.mcp.config import MissingSecretError, ServerConfig, resolved, servers_of
from app.runtime.mcp.connection import Connection, OnProgress, Transport, UnansweredError
from app.runtime.mcp.host import McpHost
from app.runtime.mcp.http import http_streams, tls_context
from app.runtime.mcp.results import read_result
from app.runtime.mcp.stdio import stdio_streams
from app.sandbox.base import Sandbox
from app.tools.base import ToolOutcome
from app.tools.masking import Masking

FIRST_WAIT_S = 10.0
"""Seconds that a step waits for servers that were never connected; slower ones come with a later step."""
AGAIN_WAIT_S = 5.0
"""Seconds that a step waits for a server whose connection has ended, and a call for one that is being connected."""
BACKOFF_S = (1.0, 5.0, 30.0, 60.0)
"""Seconds until a server that failed is tried again; the last value repeats."""
MAX_CHANGES = 20
"""Maximum number of changed lists of a server that are used: each makes the model read everything again."""
MAX_DETAIL_CHARS = 2_000

log = structlog.get_logger(__name__)


class Session(Protocol):
    """The session as its servers see it."""

    @property
    def masking(self) -> Masking: ...

    async def sandbox(self) -> Sandbox: ...

    def using_workspace(self) -> AbstractAsyncContextManager[None]:
        """Entered while a server in the sandbox may change files."""
        ...


class Reports(Protocol):
    """Stores what becomes of servers, with its events."""

    async def uses(self) -> Counter[str]:
        """How often each tool was called."""
        ...

    async def ready(self, catalog: Catalog) -> None: ...

    async def failed(self, server: str, error: ServerError) -> None: ...


@dataclass(slots=True, eq=False)
class _Server:
    """One server. `catalog` is what is offered of it; `fresh` is a connection that no step knows yet. After a failure
    was `reported`, the next connection is news."""

    config: ServerConfig
    connection: Connection | None = None
    catalog: Catalog | None = None
    opening: asyncio.Task[tuple[Connection, Catalog]] | None = None
    fresh: bool = False
    reported: bool = False
    tried: bool = False
    error: ServerError | None = None
    failures: int = 0
    due_at: float = 0.0
    changes: int = 0

    @property
    def is_open(self) -> bool:
        return self.connection is not None and self.connection.is_open


class SessionServers:
    """Made with the first step that has servers; closed by `aclose`."""

    def __init__(self, host: McpHost, session: Session, reports: Reports) -> None:
        self._host = host
        self._session = session
        self._reports = reports
        self._servers: dict[str, _Server] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._traceparent: str | None = None

    @property
    def catalogs(self) -> tuple[Catalog, ...]:
        """What can be offered now, by the names of the servers."""
        return tuple(server.catalog for server in self._servers.values() if server.catalog is not None)

    async def prepare(self, row: Any) -> None:
        """Brings the servers of the session with this row up to date before a step, in bounded time. May be cancelled:
        what was begun continues."""
        self._traceparent = row.run_traceparent
        self._adopt(servers_of(row, self._host.defaults))
        for server in self._servers.values():
            self._begin(server)
        await self._wait_for_new([s for s in self._servers.values() if not s.tried])
        await self._wait([s for s in self._servers.values() if s.catalog and not s.is_open], AGAIN_WAIT_S)
        for server in self._servers.values():
            await self._settle(server)

    def _adopt(self, configs: Mapping[str, ServerConfig]) -> None:
        for name, server in self._servers.items():
            if configs.get(name) != server.config:
                self._close(server)
        kept = {name: server for name, server in self._servers.items() if configs.get(name) == server.config}
        self._servers = {name: kept.get(name) or _Server(config) for name, config in configs.items()}

    def _begin(self, server: _Server, *, at_once: bool = False) -> None:
        """Starts to connect a server that is due."""
        if server.is_open or server.opening is not None:
            return
        if at_once or asyncio.get_running_loop().time() >= server.due_at:
            server.opening = asyncio.create_task(self._open(server.config))

    async def _wait(self, servers: Sequence[_Server], timeout_s: float) -> None:
        opening = [server.opening for server in servers if server.opening is not None]
        if opening:
            await asyncio.wait(opening, timeout=timeout_s)

    async def _wait_for_new(self, servers: Sequence[_Server]) -> None:
        """Slow servers are reported now, since the run may end before they are ready or fail."""
        await self._wait(servers, FIRST_WAIT_S)
        for server in servers:
            server.tried = True
            if server.opening is not None and not server.opening.done():
                detail = f"The server was not ready after {FIRST_WAIT_S:g} seconds. The run continues without it."
                server.error = ServerError("timeout", detail)

    async def _open(self, config: ServerConfig) -> tuple[Connection, Catalog]:
        transport = await self._transport(config)
        connection = Connection(remote=config.server.url is not None)
        try:
            await connection.open(transport)
            return connection, await self._catalog(config, connection)
        except BaseException:
            await connection.aclose()
            raise

    async def _catalog(self, config: ServerConfig, connection: Connection) -> Catalog:
        listed = await connection.list_tools()
        uses = await self._reports.uses()
        mask = self._session.masking.text
        return await asyncio.to_thread(make_catalog, config, connection.protocol, listed, mask, uses)

    async def _transport(self, config: ServerConfig) -> Transport:
        server, secrets = config.server, self._session.masking.values
        try:
            values = resolved(server.headers if server.url is not None else server.env, secrets)
        except MissingSecretError as missing:
            raise ServerError("secret_missing", f"The session has no secret {missing}.") from missing
        if server.url is not None:
            url, context = server.url, await tls_context()
            destinations = self._host.destinations(config)
            return lambda received, lost: http_streams(
                url, values, destinations, context, received, lambda: self._traceparent
            )
        assert server.command is not None
        command = [server.command, *(server.args or ())]
        sandbox = await self._session.sandbox()
        return partial(stdio_streams, sandbox, command, values)

    async def _settle(self, server: _Server) -> None:
        """Applies what has happened to a server since the last step."""
        if server.opening is not None and server.opening.done():
            self._take(server)
        if server.is_open:
            if server.fresh:
                server.fresh = False
                await self._report(server)
            elif server.connection is not None and server.connection.changed and server.changes < MAX_CHANGES:
                await self._list_again(server)
        elif server.error is not None or (server.catalog is not None):
            await self._report_failure(server)

    def _take(self, server: _Server) -> None:
        """The result of an attempt to connect."""
        assert server.opening is not None
        opened, server.opening = server.opening, None
        try:
            server.connection, catalog = opened.result()
        except (ServerError, PalimpsestError) as error:
            self._fail(server, error)
        except asyncio.CancelledError:
            self._fail(server, ServerError("closed", "The connection was closed."))
        except Exception as error:
            log.exception("mcp_connection_crashed", server=server.config.name)
            self._fail(server, ServerError("protocol_error", f"The connection failed ({type(error).__name__})."))
        else:
            server.fresh = catalog != server.catalog or server.reported
            server.catalog, server.error, server.failures, server.reported = catalog, None, 0, False

    def _fail(self, server: _Server, error: ServerError | PalimpsestError) -> None:
        server.connection = None
        server.error = ServerError(error.code, error.detail)
        server.due_at = asyncio.get_running_loop().time() + BACKOFF_S[min(server.failures, len(BACKOFF_S) - 1)]
        server.failures += 1

    async def _report(self, server: _Server) -> None:
        assert server.catalog is not None
        await self._reports.ready(server.catalog)

    async def _report_failure(self, server: _Server) -> None:
        """Once for each failure that differs from the one before."""
        error = server.error or (server.connection.failure if server.connection is not None else None)
        error = error or ServerError("closed", "The connection ended.")
        server.catalog = server.connection = None
        server.error = None
        server.reported = True
        detail = self._session.masking.text(error.detail)[:MAX_DETAIL_CHARS]
        await self._reports.failed(server.config.name, ServerError(error.code, detail))

    async def _list_again(self, server: _Server) -> None:
        assert server.connection is not None
        server.changes += 1
        try:
            catalog = await self._catalog(server.config, server.connection)
        except ServerError as error:
            self._close(server)
            self._fail(server, error)
            await self._report_failure(server)
            return
        if catalog != server.catalog:
            server.catalog = catalog
            await self._report(server)

    async def call(
        self, server_name: str, tool: Definition, arguments: dict[str, Any], on_progress: OnProgress
    ) -> tuple[str, ToolOutcome]:
        """Calls a tool, once. Returns the text of its result, and how it ended. Raises `ToolError`."""
        server = self._servers.get(server_name)
        if server is None:
            raise ToolError(f"The session no longer has the MCP server {server_name}.")
        connection = await self._connected(server)
        calling = connection.call(tool.tool, arguments, self._host.call_s, on_progress, self._traceparent)
        try:
            if server.config.server.url is not None:
                result = await calling
            else:
                async with self._session.using_workspace():
                    result = await calling
        except ServerError as error:
            raise ToolError(f"The MCP server {server_name} refused the call: {error.detail}") from error
        except UnansweredError as error:
            raise ToolError(
                f"The MCP server {server_name} gave no result: {error} The call may still have been carried out;"
                " check that before you repeat it."
            ) from error
        return await asyncio.to_thread(read_result, result)

    async def _connected(self, server: _Server) -> Connection:
        """The server's connection; a new one if it has ended."""
        if not server.is_open:
            self._begin(server, at_once=True)
            opening = server.opening
            assert opening is not None
            await asyncio.wait({opening}, timeout=AGAIN_WAIT_S)
            # Another call may have been faster.
            if opening.done() and server.opening is opening:
                self._take(server)
        if server.connection is None or not server.connection.is_open:
            error = server.error or (server.connection.failure if server.connection is not None else None)
            detail = f": {error.detail}" if error else "."
            raise ToolError(f"The MCP server {server.config.name} cannot be reached now{detail}")
        return server.connection

    def _close(self, server: _Server) -> None:
        """In the background; `aclose` waits for it."""
        for work in _ends(server):
            task = asyncio.ensure_future(work)
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        server.connection = server.opening = None

    async def aclose(self) -> None:
        """Ends all connections and their processes, in a few seconds."""
        for server in self._servers.values():
            self._close(server)
        self._servers.clear()
        if self._closing:
            await asyncio.wait(self._closing)


def _ends(server: _Server) -> Iterator[Awaitable[None]]:
    if server.connection is not None:
        yield server.connection.aclose()
    if server.opening is not None:
        yield _end(server.opening)


async def _end(opening: asyncio.Task[tuple[Connection, Catalog]]) -> None:
    opening.cancel()
    await asyncio.wait({opening})
    if not opening.cancelled() and opening.exception() is None:
        connection, _ = opening.result()
        await connection.aclose()
