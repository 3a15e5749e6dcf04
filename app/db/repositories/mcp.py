"""What the MCP servers of sessions offered when they were last connected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Text, bindparam, func, select, type_coerce

from app.db.dialects import upsert
from app.db.models import mcp_catalogs, message_parts, sessions
from app.messages import parse_arguments
from app.sessions import Status

_PUT = upsert(
    mcp_catalogs,
    key=("session_id", "server"),
    changed=lambda new: {name: new[name] for name in ("protocol", "catalog", "code", "detail")},
)
_FAIL = upsert(
    mcp_catalogs,
    key=("session_id", "server"),
    changed=lambda new: {name: new[name] for name in ("code", "detail")},
)
_OF_SESSION = select(mcp_catalogs).where(mcp_catalogs.c.session_id == bindparam("sid")).order_by(mcp_catalogs.c.server)
_CALLS = select(message_parts.c.body).where(
    message_parts.c.session_id == bindparam("sid"),
    message_parts.c.type == "tool_call",
    type_coerce(message_parts.c.body, Text).contains('"mcp_', autoescape=True),
)


def put(connection: Connection, session_id: str, server: str, protocol: str, catalog: dict[str, Any]) -> None:
    """Stores what a server offers."""
    row = {"session_id": session_id, "server": server, "protocol": protocol, "catalog": catalog}
    connection.execute(_PUT, {**row, "code": None, "detail": None})


def fail(connection: Connection, session_id: str, server: str, code: str, detail: str) -> None:
    """Notes why a server cannot be used; what it offered stays known."""
    connection.execute(_FAIL, {"session_id": session_id, "server": server, "code": code, "detail": detail})


def of_session(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """By name."""
    return connection.execute(_OF_SESSION, {"sid": session_id}).all()


def count_ready(connection: Connection) -> int:
    """Number of servers that are ready, of all sessions that run."""
    query = select(func.count()).join_from(mcp_catalogs, sessions, mcp_catalogs.c.session_id == sessions.c.id)
    ready = query.where(sessions.c.status != Status.IDLE, mcp_catalogs.c.code.is_(None))
    return connection.execute(ready).scalar_one()


def calls(connection: Connection, session_id: str) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """The session's calls of tools of MCP servers: names and arguments."""
    for (body,) in connection.execute(_CALLS, {"sid": session_id}):
        yield body["name"], parse_arguments(body["arguments_text"]) if body["name"] == "mcp_search" else ""
