"""The MCP client that all sessions share, with the operator's servers."""

from __future__ import annotations

import ipaddress

from pydantic import TypeAdapter, ValidationError

from app.errors import InvalidRequestError
from app.runtime.destinations import Destinations
from app.runtime.mcp.host import McpHost
from app.runtime.values.mcp import McpServer, McpServers
from app.settings import Settings

_ALL = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_SERVERS: TypeAdapter[McpServers] = TypeAdapter(McpServers)


def mcp_host(settings: Settings) -> McpHost:
    """Raises `InvalidRequestError` for an invalid server."""
    try:
        servers = _SERVERS.validate_python(settings.mcp_servers)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InvalidRequestError(f"PALIMPSEST_MCP_SERVERS ({place}): {first['msg']}.") from error
    # Without a key, the server answers callers on this machine alone, who can reach its other services themselves.
    networks = settings.mcp_networks if settings.api_keys else (*settings.mcp_networks, *_LOOPBACK)
    return McpHost(
        defaults={name: McpServer.model_validate(server) for name, server in servers.items() if server is not None},
        public=Destinations(networks, setting="PALIMPSEST_MCP_NETWORKS"),
        anywhere=Destinations(_ALL),
        call_s=settings.mcp_call_s,
    )
