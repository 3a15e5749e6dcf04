"""The tools of a server by name: their schemas for a model, and the parsing of a model's arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.errors import ToolError
from app.llm.base import ToolSchema
from app.messages import MAX_ARGUMENT_VALUES, clean_text, has_too_many_values
from app.tools.base import Arguments, Tool
from app.tools.edit import EditFile
from app.tools.files import READ_CHARS, ListDirectory, ReadFile, WriteFile
from app.tools.history_search import HistorySearch
from app.tools.memory import MemoryRead, MemorySearch, MemoryWrite
from app.tools.plan import UpdatePlan
from app.tools.recall import Recall
from app.tools.schema import provider_schema, short_form
from app.tools.search import SearchFiles
from app.tools.shell import ExecuteCommand

MAX_NAMED_ERRORS = 10

AnyTool = Tool[Any]


class ToolRegistry:
    """All tools that sessions of this server may use, in the order in which models see them."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._schemas = {
            name: ToolSchema(name, tool.description, provider_schema(tool.arguments))
            for name, tool in self._tools.items()
        }

    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def schemas(self, allowed: Sequence[str] | None = None) -> list[ToolSchema]:
        """The tools as a model sees them: all, or those `allowed`. The order is always the registry's, since a changed
        order would lose the provider's prompt cache; unknown names are ignored."""
        return [schema for name, schema in self._schemas.items() if allowed is None or name in allowed]

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
            raise ToolError(clean_text(f"Invalid arguments of {name}: {_describe(exc)}. {usage}")) from exc
        except ValueError as exc:
            raise ToolError(clean_text(f"The arguments of {name} {exc}. {usage}")) from exc


def default_tools(*, read_chars: int = READ_CHARS) -> list[AnyTool]:
    """The tools of every server. `read_chars` limits one `read_file`, `recall` or `memory_read`; it should equal the
    limit of what a model sees of an output, so that a long text is read in ranges of lines rather than clipped in its
    middle."""
    return [
        ExecuteCommand(),
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


def _describe(exc: ValidationError) -> str:
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
