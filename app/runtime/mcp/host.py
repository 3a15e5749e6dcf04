"""What the MCP connections of all sessions share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from app.errors import InvalidRequestError
from app.runtime.destinations import Destinations
from app.runtime.mcp.config import ServerConfig
from app.runtime.values.mcp import McpServer, McpServers


@dataclass(frozen=True, slots=True)
class McpHost:
    """`defaults` are the operator's servers. `public` are the addresses that the URLs of requests may have; those of
    the operator's servers may be any. `call_s` is how many seconds a call may take."""

    defaults: Mapping[str, McpServer] = field(default_factory=dict)
    public: Destinations = field(default_factory=Destinations)
    anywhere: Destinations = field(default_factory=Destinations)
    call_s: float = 300.0

    def destinations(self, config: ServerConfig) -> Destinations:
        return self.public if config.given else self.anywhere

    def close(self) -> None:
        """Ends the threads that look up names."""
        self.public.close()
        self.anywhere.close()

    def check(self, servers: McpServers | None) -> None:
        """Raises `InvalidRequestError` (code `mcp_address_refused`) for a URL with an address that is refused."""
        for name, server in (servers or {}).items():
            if server is not None and server.url is not None:
                host = httpx.URL(server.url).host
                if not self.public.may_be(host):
                    raise InvalidRequestError(
                        f"mcp_servers.{name}: {host} is refused: the address is private, this machine's or reserved,"
                        f" and {self.public.setting} does not name it.",
                        code="mcp_address_refused",
                    )


NO_DEFAULTS = McpHost()
"""For a server whose operator has configured nothing."""
