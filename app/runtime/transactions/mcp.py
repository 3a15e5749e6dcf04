"""The transactions that note what has become of a session's MCP servers, and what is read of them."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection

from app.db.repositories import mcp
from app.eventlog.log import Appender, StreamItem
from app.events import McpFailed, McpReady
from app.runtime.mcp.catalog import Catalog, counted


def ready(connection: Connection, session_id: str, epoch: int, catalog: Catalog) -> tuple[None, list[StreamItem]]:
    appender = Appender(connection, session_id, epoch=epoch)
    mcp.put(connection, session_id, catalog.server, catalog.protocol, catalog.stored())
    names = tuple(tool.name for tool in catalog.tools)
    appender.emit(
        McpReady, server=catalog.server, protocol=catalog.protocol, tools=names, left_out=dict(catalog.left_out)
    )
    return None, appender.flush()


def failed(
    connection: Connection, session_id: str, epoch: int, server: str, code: str, detail: str
) -> tuple[None, list[StreamItem]]:
    appender = Appender(connection, session_id, epoch=epoch)
    mcp.fail(connection, session_id, server, code, detail)
    appender.emit(McpFailed, server=server, code=code, detail=detail)
    return None, appender.flush()


def catalogs(connection: Connection, session_id: str) -> list[Catalog]:
    """What the servers that can be used offer, by their names."""
    return [
        Catalog.load(row.server, row.protocol, row.catalog)
        for row in mcp.of_session(connection, session_id)
        if row.code is None and row.catalog is not None
    ]


def uses(connection: Connection, session_id: str) -> Counter[str]:
    """How often each tool was called."""
    return counted(mcp.calls(connection, session_id))
