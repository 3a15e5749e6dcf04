"""What requests that only read a session know of its MCP servers: what was stored when they were last connected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import Connection

from app.agent.protocols import AgentConfig
from app.context.prompts import with_plan
from app.context.tokens import estimate_tools
from app.db.repositories import mcp, sessions
from app.runtime.agents import AgentSetup
from app.runtime.mcp.catalog import Catalog, Definition
from app.runtime.mcp.config import servers_of
from app.runtime.mcp.host import McpHost
from app.runtime.mcp.offer import NOTHING, Offer, make_offer, server_of
from app.runtime.transactions.mcp import catalogs
from app.runtime.values.history import SystemSection
from app.runtime.values.tools import McpServerView, SessionTool, ToolList
from app.sessions import PlanItem
from app.tools import client
from app.tools.submit import NAME as SUBMIT_OUTPUT


def stored_offer(connection: Connection, row: Any, host: McpHost) -> Callable[[int], Offer]:
    """What the session with this row offered last, for a window of so many tokens."""
    servers = servers_of(row, host.defaults)
    if not servers:
        return lambda _: NOTHING
    found = catalogs(connection, row.id)
    return lambda window: make_offer(found, servers, window)


def read_tools(connection: Connection, session_id: str, agents: AgentSetup, host: McpHost) -> ToolList:
    """Every tool of a session. Raises `NotFoundError`."""
    row = sessions.row(connection, session_id)
    offer = stored_offer(connection, row, host)
    config = agents.config(row, offer=offer)
    known = offer(config.budget.limit)
    listed = {tool.name: tool for tool in (*known.whole, *known.hidden)}
    clients = {spec.name for spec in client.load(row.client_tools)}
    whole = _whole(config, listed, clients)
    hidden = [_of_server(tool, whole=False) for tool in known.hidden]
    plan = [PlanItem(**item) for item in row.plan]
    return ToolList(
        items=(*whole, *hidden),
        system=SystemSection.all_of(with_plan(config.system, plan)),
        servers=_servers(connection, row, host),
        tokens=sum(tool.tokens for tool in whole),
        window=config.budget.limit,
        last_seq=row.last_seq,
    )


def _whole(config: AgentConfig, listed: Mapping[str, Definition], clients: Collection[str]) -> list[SessionTool]:
    """The tools in the request."""
    return [
        _of_server(listed[tool.name], whole=True)
        if tool.name in listed
        else SessionTool(
            name=tool.name,
            source="client" if tool.name in clients else "output" if tool.name == SUBMIT_OUTPUT else "builtin",
            description=tool.description,
            tokens=estimate_tools([tool]),
        )
        for tool in config.tools
    ]


def _of_server(tool: Definition, *, whole: bool) -> SessionTool:
    return SessionTool(
        name=tool.name,
        source="mcp",
        server=server_of(tool.name),
        server_tool=tool.tool,
        description=tool.description,
        tokens=estimate_tools([tool.shown]),
        whole=whole,
    )


def _servers(connection: Connection, row: Any, host: McpHost) -> tuple[McpServerView, ...]:
    stored = {found.server: found for found in mcp.of_session(connection, row.id)}
    views = []
    for name, config in servers_of(row, host.defaults).items():
        found = stored.get(name)
        catalog = Catalog.load(name, found.protocol, found.catalog) if found is not None and found.catalog else None
        views.append(
            McpServerView(
                name=name,
                source="session" if config.given else "server",
                url=config.server.url if config.given else None,
                command=config.server.command if config.given else None,
                status="unknown" if found is None else "failed" if found.code is not None else "ready",
                protocol=None if found is None else found.protocol,
                tools=0 if catalog is None or (found is not None and found.code is not None) else len(catalog.tools),
                left_out={} if catalog is None else dict(catalog.left_out),
                code=None if found is None else found.code,
                detail=None if found is None else found.detail,
            )
        )
    return tuple(views)
