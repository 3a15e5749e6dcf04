"""Which tools of a session's MCP servers are offered to its model in full, and the tool through which it finds and
calls the others. It does not import the `mcp` package, since requests that only read a session need it too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson
from pydantic import Field

from app.context.tokens import estimate_tools
from app.llm.base import ToolSchema
from app.runtime.mcp.catalog import Catalog, Definition
from app.runtime.mcp.config import ServerConfig
from app.sessions import Approval, ApprovalPolicy, ApprovalRules
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.registry import provider_schema
from app.tools.text import CleanText

SHARE = 0.1
"""Share of the model's window that definitions of MCP servers may take."""
SEARCH = "mcp_search"
FOUND = 5
"""Definitions that one search returns."""
MAX_QUERY_CHARS = 1_000
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Offer:
    """`whole` are in the request, in its order; `hidden` are found through `mcp_search`. `held` are the names of all
    that need approval."""

    whole: tuple[Definition, ...] = ()
    hidden: tuple[Definition, ...] = ()
    held: tuple[str, ...] = ()

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        search = (search_schema(self.hidden),) if self.hidden else ()
        return (*(tool.shown for tool in self.whole), *search)

    def approval(self, own: Approval) -> Approval:
        """The session's approval, with the tools that their servers' configuration holds."""
        return own if not self.held else own.model_copy(update={"policy": _with(own.policy, self.held)})


NOTHING = Offer()


def _with(policy: ApprovalPolicy, held: Sequence[str]) -> ApprovalPolicy:
    if policy == "always":
        return policy
    rules = policy if isinstance(policy, ApprovalRules) else ApprovalRules()
    return rules.model_copy(update={"tools": tuple(dict.fromkeys((*rules.tools, *held)))})


def make_offer(catalogs: Iterable[Catalog], servers: Mapping[str, ServerConfig], window: int) -> Offer:
    """The offer for a model with a window of this many tokens: everything that fits in a tenth of it, else what was
    used most, the smaller first. Depends on nothing else, so that the same tools are offered from step to step."""
    known = [(servers[each.server], tool) for each in catalogs if each.server in servers for tool in each.tools]
    tools = [tool for _, tool in known]
    held = tuple(tool.name for server, tool in known if server.needs_approval(tool.tool))
    sizes = {tool.name: estimate_tools([tool.shown]) for tool in tools}
    room = int(window * SHARE)
    if sum(sizes.values()) <= room:
        return Offer(tuple(tools), (), held)
    room -= estimate_tools([search_schema(tools)])
    whole = set()
    for tool in sorted(tools, key=lambda tool: (-tool.uses, sizes[tool.name], tool.name)):
        if sizes[tool.name] <= room:
            room -= sizes[tool.name]
            whole.add(tool.name)
    shown = tuple(tool for tool in tools if tool.name in whole)
    return Offer(shown, tuple(tool for tool in tools if tool.name not in whole), held)


class SearchArguments(Arguments):
    query: CleanText = Field(default="", max_length=MAX_QUERY_CHARS, description="Words of what a tool should do.")
    tool: CleanText = Field(default="", max_length=100, description="A tool that a search has found, to call it.")
    arguments: dict[str, Any] = Field(default={}, description="Its arguments.")


_PARAMETERS = provider_schema(SearchArguments)


def search_schema(hidden: Sequence[Definition]) -> ToolSchema:
    """The search tool for these tools. It names their servers, whose names a user has chosen."""
    counts: dict[str, int] = {}
    for tool in hidden:
        server = server_of(tool.name)
        counts[server] = counts.get(server, 0) + 1
    named = ", ".join(f"{server} ({count})" for server, count in counts.items())
    return ToolSchema(
        SEARCH,
        f"Finds more tools, of these servers: {named}. Give `query` to get the definitions of tools that match, then"
        " `tool` and `arguments` to call one.",
        _PARAMETERS,
    )


def server_of(name: str) -> str:
    """The server in a tool's name."""
    return name.split("__", 2)[1]


def found(query: str, hidden: Sequence[Definition]) -> list[Definition]:
    """The tools that match a query, best first: each of its words counts where it is in the tool's name, and less in
    its description. Without words, the first ones."""
    words = set(_words(query))
    scores = {tool.name: _score(words, tool) for tool in hidden}
    matching = [tool for tool in hidden if scores[tool.name] > 0 or not words]
    return sorted(matching, key=lambda tool: -scores[tool.name])[:FOUND]


def _score(words: set[str], tool: Definition) -> int:
    name, description = list(_words(tool.name)), set(_words(tool.description))
    return sum(4 * (word in name) + 2 * any(word in part for part in name) + (word in description) for word in words)


def _words(text: str) -> Iterator[str]:
    """In lower case; `getUserName` and `get_user_name` have the same ones."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return (match.group().lower() for match in _WORD.finditer(split))


class Search:
    """`mcp_search` with a query; with `tool` it is that tool's call, see `tools.McpTools`."""

    name: ClassVar[str] = SEARCH
    description: ClassVar[str] = ""
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = SearchArguments

    def __init__(self, hidden: Sequence[Definition]) -> None:
        self._hidden = hidden

    async def run(self, args: SearchArguments, context: ToolContext) -> ToolOutcome:
        tools = found(args.query, self._hidden)
        for tool in tools:
            shown = {"tool": tool.name, "description": tool.description, "arguments": tool.schema}
            context.output.write("stdout", orjson.dumps(shown) + b"\n")
        if not tools:
            return ToolOutcome(note=f"None of the {len(self._hidden)} tools matches. Try other words.")
        return ToolOutcome(note=f"[{len(tools)} of {len(self._hidden)} tools; call one with `tool` and `arguments`]")
