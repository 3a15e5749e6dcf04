"""The tools of a server by name: their schemas for a model, a model's arguments parsed into values, and the set for a
session that names none."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.errors import ToolError
from app.llm.base import ToolSchema
from app.messages import MAX_ARGUMENT_VALUES, clean_text, has_too_many_values
from app.tools.background import CommandOutput, StopCommand
from app.tools.base import Arguments, Tool
from app.tools.delegate import Delegate
from app.tools.edit import EditFile
from app.tools.files import READ_CHARS, ListDirectory, ReadFile, WriteFile
from app.tools.memory import MemoryRead, MemorySearch, MemoryWrite, UpdatePlan
from app.tools.recall import HistorySearch, Recall
from app.tools.search import SearchFiles
from app.tools.shell import ExecuteCommand, ExecuteCommandArguments

MAX_NAMED_ERRORS = 10
MAX_SHORT_CHARS = 2_000
"""Longest short form of a tool: a session's own may have a large schema."""
MAX_OUR_FILES = 20
"""Palimpsest's own files that are found in one command."""
AnyTool = Tool[Any]

_LEAST = (ExecuteCommand.name, WriteFile.name, Recall.name)
_FILES = (*_LEAST, ReadFile.name, EditFile.name)
_SEARCH = (*_FILES, SearchFiles.name, HistorySearch.name)
LEAN_SETS: tuple[tuple[int, tuple[str, ...]], ...] = ((3_071, _LEAST), (6_143, _FILES), (8_192, _SEARCH))
"""Largest window in tokens of each set. `recall` is in all of them, since a small window soon clears old outputs and
their placeholders name it; a command can do whatever else is left out."""

_FILE_TOOLS = frozenset(tool.name for tool in (ReadFile, WriteFile, EditFile, ListDirectory, SearchFiles))
"""The tools whose `path` is a file or a folder of the workspace."""
_IN_SANDBOX = _FILE_TOOLS | {ExecuteCommand.name}
_CD = re.compile(r"\s*cd\s+([\w./@+-]+)\s*(?:&&|;|\n)")
"""How a command begins that works in a folder."""
_OUR_FILES = re.compile(r"(?<![\w.-])\.palimpsest/[\w./@+-]+")
"""Palimpsest's own files in a command: some are only there once they are used."""
_DROPPED = frozenset({"title", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "maxItems"})
"""Keywords that cost tokens in every request. Bounds are checked when a call is parsed, with an error that names them;
several providers ignore or refuse them in a schema."""


class ToolRegistry:
    """All tools that sessions of this server may use, in the order in which models see them."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._schemas = {
            name: ToolSchema(name, tool.description, provider_schema(tool.arguments))
            for name, tool in self._tools.items()
        }

    def plus(self, *own: tuple[AnyTool, ToolSchema]) -> ToolRegistry:
        """These tools and the session's own, each with what its model sees of it."""
        more = ToolRegistry(())
        more._tools = {**self._tools, **{tool.name: tool for tool, _ in own}}
        more._schemas = {**self._schemas, **{tool.name: schema for tool, schema in own}}
        return more

    def schema(self, name: str) -> ToolSchema:
        """A tool as the model sees it."""
        return self._schemas[name]

    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def schemas(self, allowed: Sequence[str] | None = None, *, hidden: Collection[str] = ()) -> list[ToolSchema]:
        """The tools as a model sees them: all, or those `allowed`, without those `hidden` for now. The order is always
        the registry's, since a changed order would lose the provider's prompt cache; unknown names are ignored.
        Commands only run in the background if the model may look at them."""
        found = [schema for name, schema in self._schemas.items() if allowed is None or name in allowed]
        if allowed is not None and CommandOutput.name not in allowed:
            found = [
                _without(schema, "background") if schema.name == ExecuteCommand.name else schema for schema in found
            ]
        return [schema for schema in found if schema.name not in hidden]

    def get(self, name: str, allowed: Sequence[str] | None = None) -> AnyTool:
        """Raises `ToolError`, which lists the tools, for an unknown name."""
        if name in self._tools and (allowed is None or name in allowed):
            return self._tools[name]
        known = ", ".join(schema.name for schema in self.schemas(allowed))
        raise ToolError(f"There is no tool {clean_text(name)[:100]!r}. The tools are: {known}.")

    def parse(self, name: str, arguments_text: str, allowed: Sequence[str] | None = None) -> tuple[AnyTool, Arguments]:
        """The tool and its arguments. Raises `ToolError`, which says what to fix and shows the tool's short form."""
        tool = self.get(name, allowed)
        usage = f"Call it as {short_form(self._schemas[name])}."
        try:
            return tool, tool.arguments.model_validate(load_object(arguments_text))
        except ValidationError as exc:
            raise ToolError(clean_text(f"Invalid arguments of {name}: {describe_errors(exc)}. {usage}")) from exc
        except ValueError as exc:
            raise ToolError(clean_text(f"The arguments of {name} {exc}. {usage}")) from exc


def uses_sandbox(names: Iterable[str]) -> bool:
    """Whether one of these tools works in the session's sandbox."""
    return not _IN_SANDBOX.isdisjoint(names)


def default_tools(*, read_chars: int = READ_CHARS) -> list[AnyTool]:
    """The tools of every server. `read_chars` limits one `read_file`, `recall` or `memory_read`; it should equal the
    limit of what a model sees of an output, so that a long text is read in ranges of lines rather than clipped in its
    middle."""
    return [
        ExecuteCommand(),
        CommandOutput(),
        StopCommand(),
        ReadFile(read_chars),
        WriteFile(),
        EditFile(),
        ListDirectory(),
        SearchFiles(),
        Recall(read_chars),
        HistorySearch(),
        MemoryRead(read_chars),
        MemoryWrite(),
        MemorySearch(),
        UpdatePlan(),
        Delegate(),
    ]


def load_object(text: str) -> dict[str, Any]:
    """The JSON object in `text`; empty text is an empty object. Raises `ValueError`, worded to follow `The arguments`.

    Models write line breaks and halves of surrogate pairs into strings, which JSON's grammar or orjson forbids; the
    standard library accepts both, so a slip in a long file's content does not cost another step.
    """
    if not text.strip():
        return {}
    if has_too_many_values(text):
        raise ValueError(f"have more than {MAX_ARGUMENT_VALUES:,} values")
    try:
        value = orjson.loads(text)
    except ValueError:
        value = _load_leniently(text)
    if not isinstance(value, dict):
        raise ValueError(f"are a JSON {_kind(value)}, not an object")
    return value


def _load_leniently(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as exc:
        raise ValueError(f"are not valid JSON ({exc})") from exc
    except (ValueError, RecursionError) as exc:
        raise ValueError("are not JSON that can be read: a number too long or nesting too deep") from exc


def _kind(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array"}
    return kinds.get(type(value), "null")


def describe_errors(exc: ValidationError) -> str:
    """The first errors in arguments, in words for a model."""
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    named = "; ".join(_describe_one(error) for error in errors[:MAX_NAMED_ERRORS])
    more = len(errors) - MAX_NAMED_ERRORS
    return f"{named}; and {more} more" if more > 0 else named


def _describe_one(error: ErrorDetails) -> str:
    where = ".".join(str(step) for step in error["loc"])[:100]
    match error["type"]:
        case "missing":
            return f"{where} is missing"
        case "extra_forbidden":
            return f"{where!r} is not an argument"
        case "value_error":
            return f"{where}: {error['msg'].removeprefix('Value error, ')}"
        case _:
            return f"{where}: {error['msg'][:1].lower()}{error['msg'][1:]}"


def _without(schema: ToolSchema, name: str) -> ToolSchema:
    """A tool without one of its optional arguments."""
    fields = {key: value for key, value in schema.parameters["properties"].items() if key != name}
    return replace(schema, parameters={**schema.parameters, "properties": fields})


def paths_of(tool: AnyTool, arguments: Arguments) -> list[str]:
    """The files and folders that a call uses, as far as that can be told: of a command, the folder of a `cd` in front,
    and Palimpsest's own files."""
    if tool.name in _FILE_TOOLS:
        return [str(getattr(arguments, "path", None) or ".")]
    if isinstance(arguments, ExecuteCommandArguments):
        folder = _CD.match(arguments.command)
        ours = islice(_OUR_FILES.finditer(arguments.command), MAX_OUR_FILES)
        return [*([folder[1]] if folder else []), *(found[0] for found in ours)]
    return []


def tools_for(window: int) -> tuple[str, ...] | None:
    """The names of the tools for a window of this many tokens, None for all of them. Depends on nothing else, so that a
    window always gives the same set and a provider's cache matches."""
    return next((names for most, names in LEAN_SETS if window <= most), None)


@cache
def provider_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of `model` without references, titles, bounds and `null`: several providers refuse references, titles
    and bounds cost tokens, and a field that may be null may as well be omitted. Computed once for each model; callers
    must not modify it."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    cleaned: dict[str, Any] = _clean(schema, definitions)
    cleaned.pop("description", None)
    cleaned.setdefault("properties", {})
    cleaned["additionalProperties"] = False
    return cleaned


def short_form(schema: ToolSchema) -> str:
    """A tool's arguments on one line: `read_file{path: string, start_line?: integer}`."""
    text = schema.name + _short(schema.parameters)
    return text if len(text) <= MAX_SHORT_CHARS else f"{text[:MAX_SHORT_CHARS]}…"


def _clean(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_clean(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    node = _resolve(node, definitions)
    kept = {key: value for key, value in node.items() if key not in _DROPPED and not _is_obvious(key, value)}
    return {
        key: {name: _clean(field, definitions) for name, field in value.items()}
        if key == "properties"
        else _clean(value, definitions)
        for key, value in kept.items()
    }


def _is_obvious(key: str, value: Any) -> bool:
    """Whether it is a default that need not be mentioned."""
    return key == "default" and (value is None or value is False)


def _resolve(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """`node` with its reference and its only non-null alternative inlined; its own keys win."""
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _resolve({**definitions[node["$ref"].rpartition("/")[2]], **rest}, definitions)
    alternatives = [option for option in node.get("anyOf", []) if option.get("type") != "null"]
    if len(alternatives) == 1:
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return _resolve({**alternatives[0], **rest}, definitions)
    return node


def _short(node: Any) -> str:
    if not isinstance(node, dict):
        return "any"
    if "enum" in node:
        return " | ".join(f'"{value}"' for value in node["enum"])
    match node.get("type"):
        case "object":
            return f"{{{', '.join(_short_fields(node))}}}"
        case "array":
            return f"[{_short(node.get('items', {}))}, …]"
        case str(kind):
            return kind
        case _:
            return "any"


def _short_fields(node: dict[str, Any]) -> list[str]:
    required = node.get("required", [])
    fields = node.get("properties", {}).items()
    return [f"{name}{'' if name in required else '?'}: {_short(field)}" for name, field in fields]
