"""The tools that a request asks for: built-in ones by name, and those that a client carries out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from app.errors import InvalidRequestError, ValidationFailedError
from app.runtime.mcp.catalog import PREFIX
from app.runtime.values.sessions import ApprovalRequest, ClientToolRequest
from app.tools import client
from app.tools.json_schema import SchemaError

Asked = Sequence[str | ClientToolRequest] | None
"""The field `tools` of a request."""


def chosen_tools(asked: Asked, known: Sequence[str]) -> dict[str, Any]:
    """The columns of the requested tools, which `check_client_tools` has checked. Raises `InvalidRequestError` for a
    name without a tool."""
    names = [each for each in asked or () if isinstance(each, str)]
    for name in names:
        if name not in known:
            raise InvalidRequestError(
                f"There is no tool {name[:100]!r}; the tools are {', '.join(known)}.", code="unknown_tool"
            )
    own = client.dump(_client_tools(asked))
    return {"tools": names if names or (asked is not None and not asked) else None, "client_tools": own}


def _client_tools(asked: Asked) -> list[client.ClientToolSpec]:
    return [each.spec for each in asked or () if isinstance(each, ClientToolRequest)]


async def check_client_tools(asked: Asked, taken: Sequence[str]) -> None:
    """Raises `ValidationFailedError` for client tools that the session cannot have; `taken` are the built-in ones.
    Checks in a thread, since large schemas take long."""
    specs = _client_tools(asked)
    try:
        if specs:
            await asyncio.to_thread(client.check, specs, taken)
    except SchemaError as error:
        raise invalid_field("tools", f"Input should be tools that the session can have: {error}") from error


def known_tools(built_in: Sequence[str], client_tools: str | None) -> tuple[str, ...]:
    """The names of a session's tools, of which `client_tools` is its column."""
    return (*built_in, *(spec.name for spec in client.load(client_tools)))


def checked_rules(asked: ApprovalRequest | None, known: Sequence[str]) -> None:
    """Raises `InvalidRequestError` for a tool that does not exist: otherwise a typo would let its calls pass. Those of
    MCP servers are known only when they are connected."""
    tools = asked.policy.tools if asked is not None and not isinstance(asked.policy, str) else ()
    for name in tools:
        if name not in known and not name.startswith(PREFIX):
            raise InvalidRequestError(
                f"approval.policy.tools: there is no tool {name[:100]!r}; the tools are {', '.join(known)}.",
                code="unknown_tool",
            )


def invalid_field(field: str, message: str) -> ValidationFailedError:
    """The error for a field that is checked after the rest of its request."""
    found = {"field": field, "message": message[:200]}
    detail = f"The request is not valid: {field}: {message[:1].lower()}{found['message'][1:]}."
    return ValidationFailedError(detail, errors=[found])
