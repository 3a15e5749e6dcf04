"""What a server says about its tools, made fit to show to a model: names that every provider accepts, bounded texts,
and schemas that no provider refuses. All of it is untrusted; what cannot be used is left out, with a reason. Pure
functions of values, without the `mcp` package."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from app.llm.base import ToolSchema
from app.messages import clean_text, is_deeper
from app.runtime.mcp.config import ServerConfig
from app.runtime.mcp.shortening import shortened
from app.tools.json_schema import MAX_SCHEMA_BYTES, SchemaError, checked_schema, subschemas

PREFIX = "mcp__"
MAX_NAME_CHARS = 64
"""Longest name of a function with OpenAI; Anthropic takes twice as many."""
MAX_DESCRIPTION_CHARS = 1_024
"""Longest description of a function with OpenAI."""
MAX_TOOLS = 256
"""Tools of one server; the rest is left out."""
MAX_SERVER_NAME_CHARS = 128
"""Longest name that a server may give a tool, as the protocol recommends."""
MAX_DEPTH = 32
"""Levels of nesting of a schema; real ones have fewer than ten."""
CHECK_S = 2.0
"""Seconds of processor time for checking the schemas of one server; an ordinary one takes a millisecond."""
MAX_LEFT_OUT = 20
"""Tools that are left out of which the reason is kept."""
_HASH_CHARS = 8
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of properties that Anthropic accepts."""
_AT_TOP = ("$schema", "$id", "title", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const")
"""Keywords that providers refuse at the top of a tool's arguments, or that say nothing to a model. Arguments are
checked against the whole schema."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as its server lists it. `problem` is why it cannot be read."""

    name: str
    description: str
    schema: dict[str, Any]
    read_only: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool that can be offered. `tool` is the server's own name for it; `schema` is what the model sees, and `check`
    what its arguments must meet, None if only the server can tell. `uses` counts the session's calls of it when it was
    listed. A `read_only` tool may run at the same time as others."""

    name: str
    tool: str
    description: str
    schema: dict[str, Any]
    check: dict[str, Any] | None = None
    read_only: bool = False
    uses: int = 0

    @property
    def shown(self) -> ToolSchema:
        return ToolSchema(self.name, self.description, self.schema)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tools of one server, sorted by name. `left_out` says why others cannot be offered, by the server's names."""

    server: str
    protocol: str
    tools: tuple[Definition, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def stored(self) -> dict[str, Any]:
        return {"tools": [asdict(tool) for tool in self.tools], "left_out": dict(self.left_out)}

    @classmethod
    def load(cls, server: str, protocol: str | None, stored: Mapping[str, Any]) -> Catalog:
        return cls(
            server, protocol or "", tuple(Definition(**tool) for tool in stored["tools"]), dict(stored["left_out"])
        )


def make_catalog(
    config: ServerConfig,
    protocol: str,
    listed: Sequence[Listed],
    mask: Callable[[str], str],
    uses: Mapping[str, int] | None = None,
) -> Catalog:
    """The catalog of what a server has listed; `mask` removes secrets from a text. Takes up to `CHECK_S` seconds and a
    few more, so call it in a thread."""
    tools: dict[str, Definition] = {}
    left_out: dict[str, str] = {}
    deadline = time.thread_time() + CHECK_S
    wanted = sorted((each for each in listed if config.offers(each.name)), key=lambda each: _order(each.name))
    for each in wanted:
        try:
            if each.problem:
                raise _UnusableError(clean_text(mask(each.problem)))
            if len(tools) == MAX_TOOLS:
                raise _UnusableError(f"the server has more than {MAX_TOOLS} tools")
            if time.thread_time() > deadline:
                raise _UnusableError("checking the server's schemas takes too long")
            name = _full_name(config.name, each.name, tools, mask)
            schema, check = _schemas(each.schema, mask)
        except _UnusableError as error:
            if len(left_out) < MAX_LEFT_OUT:
                left_out[clean_text(mask(each.name))[:MAX_SERVER_NAME_CHARS]] = str(error)
            continue
        description = _description(mask(each.description))
        tools[name] = Definition(name, each.name, description, schema, check, each.read_only, (uses or {}).get(name, 0))
    return Catalog(config.name, protocol, tuple(tools[name] for name in sorted(tools)), left_out)


class _UnusableError(Exception):
    """Why a tool cannot be offered."""


def _order(name: str) -> tuple[bool, str]:
    """Names that need no change come first, so that a changed one never takes their place."""
    return (_OTHER.search(name) is not None, name)


def _full_name(server: str, tool: str, taken: Iterable[str], mask: Callable[[str], str]) -> str:
    """The name that the model sees. Raises `_UnusableError`."""
    if not tool or len(tool) > MAX_SERVER_NAME_CHARS or not tool.isprintable() or mask(tool) != tool:
        raise _UnusableError("its name is empty, too long or not printable, or has a secret in it")
    plain = _OTHER.sub("_", tool)
    name = f"{PREFIX}{server}__{plain}"
    if len(name) > MAX_NAME_CHARS or name in taken:
        digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
        name = f"{name[: MAX_NAME_CHARS - _HASH_CHARS - 1]}_{digest}"
    if name in taken:
        raise _UnusableError("the server has another tool with this name")
    return name


def _description(text: str) -> str:
    text = clean_text(text).strip()
    return text if len(text) <= MAX_DESCRIPTION_CHARS else f"{text[: MAX_DESCRIPTION_CHARS - 1]}…"


def _schemas(schema: Any, mask: Callable[[str], str]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What the model sees of a tool's arguments, and what they are checked against. Raises `_UnusableError`."""
    if not isinstance(schema, dict) or is_deeper(schema, MAX_DEPTH):
        raise _UnusableError(f"its schema is not an object, or has more than {MAX_DEPTH} levels")
    try:
        # As it will be stored, without what standard JSON cannot hold.
        text = clean_text(mask(orjson.dumps(schema).decode()))
        clean: dict[str, Any] = orjson.loads(text)
    except (TypeError, ValueError) as error:
        raise _UnusableError("its schema cannot be stored as JSON") from error
    if len(text) > MAX_SCHEMA_BYTES:
        raise _UnusableError(f"its schema has more than {MAX_SCHEMA_BYTES:,} bytes")
    if clean.setdefault("type", "object") != "object":
        raise _UnusableError("its arguments are not an object")
    check = _check(clean)
    shown = {name: value for name, value in clean.items() if name not in _AT_TOP}
    shown.setdefault("properties", {})
    try:
        for _, part in subschemas(shown):
            _refuse_unsendable(part)
    except (AttributeError, TypeError) as error:
        # A keyword of a later draft with a value that the older one does not check.
        raise _UnusableError("its schema is invalid") from error
    return shortened(shown), check


def _check(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema as arguments are checked against it; None for one of an older draft, or with keywords that are not
    checked here. Raises `_UnusableError` for anything that is not a schema."""
    plain = {name: value for name, value in schema.items() if name not in ("$schema", "$id")}
    try:
        return checked_schema(plain)
    except SchemaError as refused:
        from jsonschema import Draft7Validator
        from jsonschema.exceptions import SchemaError as NotASchemaError

        try:
            Draft7Validator.check_schema(plain)
        except (NotASchemaError, RecursionError) as error:
            raise _UnusableError(f"its schema is invalid: {refused}"[:300]) from error
        return None


def _refuse_unsendable(part: Any) -> None:
    """Raises `_UnusableError` for what some provider refuses, with the whole request. An array says what it holds, as
    OpenAI demands."""
    if not isinstance(part, dict):
        return
    for name in part.get("properties", ()):
        if not _PROPERTY.fullmatch(name):
            raise _UnusableError("an argument has a name that providers refuse")
    if not str(part.get("$ref", "#")).startswith("#"):
        raise _UnusableError("its schema refers to another document")
    if part.get("type") == "array":
        part.setdefault("items", {})


def counted(calls: Iterable[tuple[str, Mapping[str, Any] | str]]) -> Counter[str]:
    """How often each tool was called; calls are names with arguments."""
    names: Counter[str] = Counter()
    for name, arguments in calls:
        inner = arguments.get("tool") if isinstance(arguments, Mapping) else None
        names[inner if isinstance(inner, str) else name] += 1
    return names
