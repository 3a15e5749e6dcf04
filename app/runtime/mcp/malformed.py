"""Messages of servers as the `mcp` package gets them: within bounds, and with lists of tools without malformed ones,
since it would refuse the whole list."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp.client._transport import ReadStream
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

MAX_MALFORMED = 1_000
"""Maximum number of errors in a list that is still read; with more, it is refused."""
MAX_PROBLEM_CHARS = 200

Received = SessionMessage | Exception


class LenientStream:
    """Messages from a server, with every list of tools made readable. `protocol` returns the version in use, and
    `malformed` gets the name of each tool that is taken out, with what is wrong with it. `check` gets the content of
    each message and raises an error for one that would take too long to read."""

    def __init__(
        self,
        stream: ReadStream[Received],
        protocol: Callable[[], str | None],
        malformed: Callable[[str, str], None],
        check: Callable[[Any], None],
    ) -> None:
        self._stream = stream
        self._protocol = protocol
        self._malformed = malformed
        self._check = check

    @property
    def last_context(self) -> Any:
        """As the package's own streams have it: the context of who sent the message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Received:
        return self._checked(await self._stream.receive())

    async def __anext__(self) -> Received:
        return self._checked(await self._stream.__anext__())

    def _checked(self, received: Received) -> Received:
        message = received.message if isinstance(received, SessionMessage) else None
        self._check(_content(message))
        # Only the result of a list has this key.
        if isinstance(message, JSONRPCResponse) and isinstance(message.result.get("tools"), list):
            for name, problem in take_out(message.result, self._protocol()):
                self._malformed(name, problem)
        return received

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)


def _content(message: JSONRPCMessage | None) -> Any:
    """What the package checks of a message; structured content can be anything."""
    match message:
        case JSONRPCResponse():
            return {name: value for name, value in message.result.items() if name != "structuredContent"}
        case JSONRPCError():
            return message.error.data
        case None:
            return None
    return message.params


def take_out(result: dict[str, Any], protocol: str | None) -> list[tuple[str, str]]:
    """Removes the malformed tools from the result of a list; returns their names, and what is wrong with each. Leaves a
    result alone that has other errors, or very many."""
    tools: list[Any] = result["tools"]
    bad: dict[int, str] = {}
    for check in (_as_its_version, _as_ours):
        try:
            check(result, protocol)
        except ValidationError as error:
            if error.error_count() > MAX_MALFORMED:
                return []
            for each in error.errors(include_url=False, include_context=False, include_input=False):
                match each["loc"]:
                    case ("tools", int(index), *steps):
                        where = ".".join(str(step) for step in steps) or "the tool"
                        bad.setdefault(index, f"it is malformed: {where}: {each['msg']}"[:MAX_PROBLEM_CHARS])
    if protocol in MODERN_PROTOCOL_VERSIONS:
        # The package drops these silently.
        for index, tool in enumerate(tools):
            if index not in bad and (why := find_invalid_x_mcp_header(tool.get("inputSchema"))) is not None:
                bad[index] = f"it is malformed: {why}"[:MAX_PROBLEM_CHARS]
    result["tools"] = [tool for index, tool in enumerate(tools) if index not in bad]
    return [(_name(tools[index], index), problem) for index, problem in sorted(bad.items())]


def _as_its_version(result: dict[str, Any], protocol: str | None) -> None:
    if protocol is not None:
        validate_server_result("tools/list", protocol, result)


def _as_ours(result: dict[str, Any], _: str | None) -> None:
    types.ListToolsResult.model_validate(result, by_name=False)


def _name(tool: Any, index: int) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) and name else f"tool {index + 1}"
