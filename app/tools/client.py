"""Tools that a client of the API carries out: the model calls them like any other, the client posts their results."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from pydantic import ConfigDict

from app.llm.base import ToolSchema
from app.tools.base import Arguments, WaitingTool
from app.tools.delegate import NAME as DELEGATE
from app.tools.json_schema import SchemaError, check_arguments, checked_schema
from app.tools.submit import NAME as SUBMIT_OUTPUT
from app.tools.submit import TOP_REFUSED

MAX_TOOLS = 32
"""Client tools of one session."""
MAX_DESCRIPTION_CHARS = 4_000
MAX_DEFINITIONS_BYTES = 64 * 1024
"""Their names, descriptions and parameters together, as JSON: they are part of every request to the model."""
MAX_TIMEOUT_S = 30 * 24 * 3600
"""Longest wait for a result, in seconds: 30 days."""
NAME_PATTERN = r"^[a-zA-Z0-9_-]{1,64}$"
"""Both wire formats take this; one of them more."""
_RESERVED = frozenset({SUBMIT_OUTPUT, DELEGATE, "mcp_search"})
"""Names of tools that only some sessions have."""
_MCP_PREFIX = "mcp__"


@dataclass(frozen=True, slots=True)
class ClientToolSpec:
    """A client tool of a session. `timeout_s` is how long a call waits for its result, in seconds; None waits without
    end."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    timeout_s: float | None

    @property
    def schema(self) -> ToolSchema:
        """The tool as a model sees it."""
        return ToolSchema(self.name, self.description, dict(self.parameters))


def dump(specs: Sequence[ClientToolSpec]) -> str | None:
    """The column `client_tools`: JSON text, None without any."""
    return orjson.dumps([asdict(spec) for spec in specs]).decode() if specs else None


def load(text: str | None) -> tuple[ClientToolSpec, ...]:
    """The tools in the column `client_tools`."""
    return () if text is None else tuple(ClientToolSpec(**each) for each in orjson.loads(text))


def check(specs: Sequence[ClientToolSpec], taken: Collection[str]) -> None:
    """Raises `SchemaError`, worded to follow a name, for tools that a session cannot have; `taken` are the names of the
    built-in tools. Takes up to a second for each, so call it in a thread."""
    if len(specs) > MAX_TOOLS:
        raise SchemaError(f"a session may have at most {MAX_TOOLS} client tools")
    names: set[str] = set()
    for spec in specs:
        try:
            _check_name(spec.name, {*taken, *names})
            _check_parameters(spec.parameters)
        except SchemaError as error:
            raise SchemaError(f"client tool {spec.name[:64]!r}: {error}") from error
        names.add(spec.name)
    if len(orjson.dumps([asdict(spec) for spec in specs])) > MAX_DEFINITIONS_BYTES:
        raise SchemaError(f"the definitions may have at most {MAX_DEFINITIONS_BYTES:,} bytes in total")


def _check_name(name: str, taken: Collection[str]) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise SchemaError("the name may have up to 64 letters, digits, _ and -")
    if name in taken:
        raise SchemaError("another tool has this name")
    if name in _RESERVED or name.startswith(_MCP_PREFIX):
        raise SchemaError("the name is reserved")


def _check_parameters(parameters: Mapping[str, Any]) -> None:
    if parameters.get("type") != "object":
        raise SchemaError("parameters: the top-level type must be object")
    if found := next((keyword for keyword in TOP_REFUSED if keyword in parameters), None):
        raise SchemaError(f"parameters: providers refuse {found} at the top level")
    try:
        checked_schema(parameters)
    except SchemaError as error:
        raise SchemaError(f"parameters are not a valid JSON Schema (draft 2020-12): {error}") from error


class ClientToolArguments(Arguments):
    model_config = ConfigDict(extra="allow")


class ClientTool(WaitingTool):
    """A client tool as the tools of one session have it."""

    arguments: type[Arguments] = ClientToolArguments

    def __init__(self, spec: ClientToolSpec) -> None:
        self.name = spec.name
        self.description = spec.description
        self.timeout_s = spec.timeout_s
        self._parameters = spec.parameters

    async def check(self, args: Arguments) -> None:
        """Raises `ToolError` for arguments that do not meet the tool's parameters."""
        await check_arguments(self.name, self._parameters, args.model_extra or {})
