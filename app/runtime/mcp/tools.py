"""The tools of MCP servers as the agent runs them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from pydantic import ConfigDict

from app.errors import ToolError
from app.messages import ToolStatus, clean_text
from app.runtime.mcp.catalog import PREFIX, Definition
from app.runtime.mcp.offer import SEARCH, Offer, Search, SearchArguments, search_schema, server_of
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.json_schema import check_arguments
from app.tools.masking import Masking
from app.tools.registry import AnyTool, ToolRegistry

PIECE = 256 * 1024
PROGRESS_S = 0.2
"""Minimum seconds between two progress reports that are shown."""
MAX_PROGRESS_CHARS = 300


class CallArguments(Arguments):
    """The arguments of a server's tool, checked against its schema when it runs."""

    model_config = ConfigDict(extra="allow")


class Servers(Protocol):
    """Where calls go to."""

    async def call(
        self,
        server_name: str,
        tool: Definition,
        arguments: dict[str, Any],
        on_progress: Callable[[float, float | None, str | None], None],
    ) -> tuple[str, ToolOutcome]: ...


class Session(Protocol):
    """The session as its registry sees it."""

    masking: Masking
    mcp_offer: Offer
    mcp_servers: Servers | None


class McpTool:
    """One tool of a server."""

    arguments: type[Arguments] = CallArguments

    def __init__(self, definition: Definition, servers: Servers, mask: Callable[[str], str]) -> None:
        self.name = definition.name
        self.description = definition.description
        self.parallel_safe = definition.read_only
        self._definition = definition
        self._servers = servers
        self._mask = mask

    async def run(self, args: CallArguments, context: ToolContext) -> ToolOutcome:
        value = dict(args.model_extra or {})
        if self._definition.check is not None:
            await check_arguments(self.name, self._definition.check, value)
        progress = _Progress(context.progress, self._mask)
        text, outcome = await self._servers.call(server_of(self.name), self._definition, value, progress.report)
        data = text.encode("utf-8", "replace")
        for start in range(0, len(data), PIECE):
            context.output.write("stdout", data[start : start + PIECE])
            await asyncio.sleep(0)
        return outcome if text or outcome.status is ToolStatus.ERROR else replace(outcome, note="[no output]")


class _Progress:
    """Shows the progress of a call, no more often than is useful."""

    def __init__(self, show: Callable[[str], None], mask: Callable[[str], str]) -> None:
        self._show = show
        self._mask = mask
        self._next = 0.0

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PROGRESS_S
        text = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        about = clean_text(self._mask(message or ""))[:MAX_PROGRESS_CHARS]
        self._show(f"[{text}{': ' if about else ''}{about}]\n")


class McpTools(ToolRegistry):
    """A registry with the tools of the session's servers, which may change from step to step."""

    def __init__(self, base: ToolRegistry, session: Session) -> None:
        super().__init__(())
        self._base = base
        self._session = session

    def get(self, name: str, allowed: Sequence[str] | None = None) -> AnyTool:
        return self._registry(name, allowed).get(name, allowed if not self._is_hidden(name, allowed) else None)

    def parse(self, name: str, arguments_text: str, allowed: Sequence[str] | None = None) -> tuple[AnyTool, Arguments]:
        """As in the base; a call of `mcp_search` for a tool is that tool's call."""
        within = allowed if not self._is_hidden(name, allowed) else None
        tool, arguments = self._registry(name, allowed).parse(name, arguments_text, within)
        if not isinstance(arguments, SearchArguments) or not arguments.tool:
            return tool, arguments
        found = self._definitions().get(arguments.tool)
        if found is None:
            raise ToolError(f"There is no tool {arguments.tool!r}. Search for one with `query` alone.")
        return self._tool(found), CallArguments.model_validate(arguments.arguments)

    def _registry(self, name: str, allowed: Sequence[str] | None) -> ToolRegistry:
        """The base, with the tool of this name if it is a server's."""
        offer = self._session.mcp_offer
        if name == SEARCH and offer.hidden:
            return self._base.plus((Search(offer.hidden), search_schema(offer.hidden)))
        if name.startswith(PREFIX) and (found := self._definitions().get(name)) is not None:
            return self._base.plus((self._tool(found), found.shown))
        if name in self._base.names():
            return self._base
        # An error names all that are offered.
        return self._base.plus(*((self._tool(tool), tool.shown) for tool in offer.whole))

    def _definitions(self) -> Mapping[str, Definition]:
        offer = self._session.mcp_offer
        return {tool.name: tool for tool in (*offer.whole, *offer.hidden)}

    def _is_hidden(self, name: str, allowed: Sequence[str] | None) -> bool:
        """Whether it is a tool that the model can only have found by a search; it may still call it by its name."""
        return (
            allowed is not None
            and SEARCH in allowed
            and any(tool.name == name for tool in self._session.mcp_offer.hidden)
        )

    def _tool(self, definition: Definition) -> AnyTool:
        if (servers := self._session.mcp_servers) is None:
            raise ToolError(f"The MCP server {server_of(definition.name)} is not connected.")
        return McpTool(definition, servers, lambda text: self._session.masking.text(text))
