"""The tools of a session as `GET /v1/sessions/{id}/tools` lists them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.messages import Value
from app.runtime.values.history import SystemSection


class SessionTool(Value):
    """A tool of a session. `tokens` is what its definition takes in each request if it is offered `whole`; the others
    are found and called through `mcp_search`. `server` and `server_tool` are set for a tool of an MCP server."""

    name: str
    source: Literal["builtin", "client", "mcp", "output"]
    server: str | None = None
    server_tool: str | None = None
    description: str
    tokens: int
    whole: bool = True


class McpServerView(Value):
    """An MCP server of a session, as of its last connection. `source` is who named it. Neither headers nor variables
    are shown. `left_out` says why tools of the server are not offered, by their names; `code` and `detail` why it could
    not be used."""

    name: str
    source: Literal["session", "server"]
    url: str | None = None
    command: str | None = None
    status: Literal["unknown", "ready", "failed"]
    protocol: str | None = None
    tools: int = 0
    left_out: dict[str, str] = Field(default_factory=dict)
    code: str | None = None
    detail: str | None = None


class ToolList(Value):
    """The tools that the next step offers, in the order of the request. `tokens` is the sum of those offered whole,
    and `window` what the model's context can hold. `system` are the parts of the system text, with the files of the
    workspace as they were last read."""

    items: tuple[SessionTool, ...]
    system: tuple[SystemSection, ...]
    servers: tuple[McpServerView, ...]
    tokens: int
    window: int
    last_seq: int
