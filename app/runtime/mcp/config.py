"""The MCP servers that a session has: its own, and the operator's that it has not left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.errors import InvalidRequestError
from app.runtime.values.mcp import MAX_CONFIG_BYTES, MAX_SERVERS, McpApproval, McpServer, SecretRef


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server by name. `given` is whether a request named it: its URL may then only be a public address."""

    name: str
    server: McpServer
    given: bool

    def needs_approval(self, tool: str) -> bool:
        """Whether calls of a tool, by the server's own name, need approval."""
        approval = self.server.approval
        return tool in approval.tools if isinstance(approval, McpApproval) else approval == "always"

    def offers(self, tool: str) -> bool:
        return self.server.tools is None or tool in self.server.tools


def merged(
    own: Mapping[str, Any] | None, asked: Mapping[str, McpServer | None] | None, defaults: Mapping[str, McpServer]
) -> dict[str, Any] | None:
    """The column of a session after a request: its `own` servers with those that are `asked` for; null leaves out an
    operator's server, and removes any other. Raises `InvalidRequestError` (code `too_many_mcp_servers`)."""
    if asked is None:
        return None
    kept = dict(own or {})
    for name, server in asked.items():
        kept.pop(name, None)
        if server is not None or name in defaults:
            kept[name] = server and server.stored()
    if len(kept) > MAX_SERVERS or len(orjson.dumps(kept)) > MAX_CONFIG_BYTES:
        raise InvalidRequestError(
            f"mcp_servers: a session may have at most {MAX_SERVERS} servers, 32 KiB in total.",
            code="too_many_mcp_servers",
        )
    return kept or None


class MissingSecretError(Exception):
    """A server needs a secret that the session does not have; the message is its name."""


def servers_of(row: Any, defaults: Mapping[str, McpServer]) -> dict[str, ServerConfig]:
    """The servers of the session with this row, by name."""
    own: dict[str, Any] = row.mcp_servers or {}
    found = {name: ServerConfig(name, server, False) for name, server in defaults.items() if name not in own}
    found |= {
        name: ServerConfig(name, McpServer.model_validate(server), True)
        for name, server in own.items()
        if server is not None
    }
    return dict(sorted(found.items()))


def resolved(values: Mapping[str, Any] | None, secrets: Mapping[str, str]) -> dict[str, str]:
    """Headers or variables with the secrets they name. Raises `MissingSecretError`."""
    found = {}
    for name, value in (values or {}).items():
        if isinstance(value, SecretRef):
            if value.secret not in secrets:
                raise MissingSecretError(value.secret)
            value = value.prefix + secrets[value.secret]
        found[name] = value
    return found
