"""Hostile servers of the newest protocol: each costs its tools, or gives an error for its call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.errors import ToolError
from app.runtime.mcp.servers import SessionServers
from tests.mcp_servers import Answer, raw_server, result
from tests.unit.runtime.test_mcp import HOST, Reports, Session, row

VERSION = "2026-07-28"
ASKS = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
SCHEMA = {"type": "object", "properties": {}}
FORM = {"method": "elicitation/create", "params": {"mode": "form", "message": "Password?", "requestedSchema": SCHEMA}}
ASKS_PERSON = {"resultType": "input_required", "inputRequests": {"a": FORM}}


def complete(asked: dict[str, Any], value: dict[str, Any]) -> tuple[int, str, Iterator[bytes]]:
    return result(asked, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **value})


def event(message: Any) -> tuple[int, str, Iterator[bytes]]:
    """A stream that ends after one message."""
    return 200, "text/event-stream", iter([b"data: " + json.dumps(message).encode() + b"\n\n"])


def server(method: str, said: Answer) -> Answer:
    """An honest server but for its answer to one method."""

    def answer(asked: dict[str, Any]) -> tuple[int, str, Iterator[bytes]] | None:
        match asked.get("method"):
            case None:
                return 202, "application/json", iter([])
            case name if name == method:
                return said(asked)
            case "server/discover":
                return complete(asked, {"supportedVersions": [VERSION], "capabilities": {"tools": {}}})
            case "tools/list":
                return complete(asked, {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]})
            case _:
                return complete(asked, {"content": [{"type": "text", "text": "done"}]})

    return answer


async def outcome(answer: Answer) -> str:
    """The code of the failure, or what a call gets."""
    reports = Reports()
    servers = SessionServers(HOST, Session(), reports)
    try:
        with raw_server(answer) as url:
            await servers.prepare(row(hostile={"url": url}))
            if reports.errors:
                return reports.errors[0][1]
            (catalog,) = servers.catalogs
            assert catalog.protocol == VERSION
            text, _ = await servers.call("hostile", catalog.tools[0], {}, lambda *_: None)
            return text
    except ToolError as error:
        return str(error)
    finally:
        await servers.aclose()


@pytest.mark.parametrize(
    ("method", "said", "ends"),
    [
        ("", lambda _: None, "done"),
        ("server/discover", lambda a: complete(a, {"supportedVersions": [], "capabilities": {}}), "protocol_error"),
        ("tools/list", lambda a: result(a, {"resultType": "input_required", "inputRequests": {}}), "protocol_error"),
        ("tools/list", lambda a: result(a, {"resultType": "other", "tools": []}), "protocol_error"),
        (
            "tools/call",
            lambda a: result(a, {"resultType": "input_required", "inputRequests": {"a": FORM}}),
            "requests user input",
        ),
        ("tools/call", lambda a: result(a, {"resultType": "other"}), "answer is invalid"),
        ("tools/call", lambda _: event(PROGRESS), "ended before the server answered"),
        ("tools/call", lambda _: event(ASKS), "ended before the server answered"),
    ],
)
async def test_a_server_of_the_newest_protocol_is_contained(method: str, said: Answer, ends: str) -> None:
    assert ends in await outcome(server(method, said))
