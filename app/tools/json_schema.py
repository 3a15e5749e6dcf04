"""JSON Schemas (draft 2020-12) of outputs and of tools that are not built in. Anyone may have written them: what could
reach outside is refused, patterns run on RE2, and the work of an evaluation is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import unquote

import orjson
import structlog

from app.errors import ToolError
from app.messages import clean_text
from app.tools.text import Pattern, PatternError

MAX_SCHEMA_BYTES = 32 * 1024
"""Largest schema as JSON: it is part of every request to the model."""
MAX_PATTERNS = 100
MAX_NAMED = 5
"""Maximum problems of a value that are reported."""
MAX_MESSAGE_CHARS = 300
WORK = 2_000_000
"""Units of work per evaluation, which take seconds at most. A keyword costs ten, and one for each item that it may have
to look at: nested references could otherwise double the work with each level."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ONE = ("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_UNSUPPORTED = ("unevaluatedItems", "unevaluatedProperties")
"""Keywords whose evaluation has costs that cannot be bounded here."""

Check = Callable[[Any, Any, Any, Any], Iterator[Any] | None]
"""A keyword's check in `jsonschema`: of a validator, the keyword's value, the instance, and the schema around it."""

log = structlog.get_logger(__name__)


class SchemaError(ValueError):
    """A schema that cannot be used; the text says why."""


def checked_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without the keywords that name it, `$schema` and `$id`. Raises `SchemaError`. Takes up to a second, so
    call it in a thread."""
    if len(orjson.dumps(schema)) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"it may have at most {MAX_SCHEMA_BYTES:,} bytes")
    if (dialect := schema.get("$schema", DIALECT)) not in (DIALECT, DIALECT + "#"):
        raise SchemaError(f"$schema is {str(dialect)[:100]!r}; only draft 2020-12 is supported, {DIALECT}")
    kept = {name: value for name, value in schema.items() if name not in ("$schema", "$id")}
    # Imported when it is needed: it takes as long as a tenth of the server's start.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError as NotASchemaError

    try:
        Draft202012Validator.check_schema(kept, format_checker=None)
    except NotASchemaError as error:
        raise SchemaError(f"{error.json_path}: {error.message[:MAX_MESSAGE_CHARS]}") from error
    except RecursionError as error:
        raise SchemaError("it is nested too deeply") from error
    _check_parts(kept)
    return kept


def _check_parts(schema: dict[str, Any]) -> None:
    """Raises `SchemaError` for a part that is not supported, or refers to anything but a part of this schema."""
    places, refs, patterns = set[str](), list[str](), list[str]()
    for pointer, part in subschemas(schema):
        places.add(f"#{pointer}")
        if not isinstance(part, dict):
            continue
        for name in _UNSUPPORTED:
            if name in part:
                raise SchemaError(f"{name} is not supported")
        if pointer and ("$id" in part or "$schema" in part):
            raise SchemaError(f"#{pointer}: $id and $schema are supported only at the top level")
        places |= {f"#{part[name]}" for name in ("$anchor", "$dynamicAnchor") if name in part}
        refs += [part[name] for name in ("$ref", "$dynamicRef") if name in part]
        patterns += [*part.get("patternProperties", ()), *([part["pattern"]] if "pattern" in part else [])]
    for ref in refs:
        if unquote(ref) not in places:
            raise SchemaError(f"{ref[:100]!r} does not refer to a part of this schema")
    if len(patterns) > MAX_PATTERNS:
        raise SchemaError(f"it may have at most {MAX_PATTERNS} patterns")
    for pattern in patterns:
        try:
            Pattern(pattern)
        except PatternError as error:
            raise SchemaError(f"{pattern[:100]!r} is not a valid regular expression in RE2 syntax: {error}") from error


def subschemas(schema: Any) -> Iterator[tuple[str, Any]]:
    """A valid schema and all schemas in it, each with its JSON pointer."""
    left: list[tuple[str, Any]] = [("", schema)]
    while left:
        pointer, part = left.pop()
        yield pointer, part
        if isinstance(part, dict):
            left += [(f"{pointer}/{name}", part[name]) for name in _ONE if name in part]
            left += [(f"{pointer}/{name}/{at}", s) for name in _LISTS for at, s in enumerate(part.get(name, ()))]
            left += [(f"{pointer}/{name}/{_token(at)}", s) for name in _MAPS for at, s in part.get(name, {}).items()]


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Why a value does not meet a checked schema: path, reason and rule of at most `MAX_NAMED` problems; empty if it
    does. May take seconds, so call it in a thread."""
    try:
        return [_describe(error) for error in islice(_validator(schema).iter_errors(value), MAX_NAMED)]
    except _TooMuchWorkError:
        return ["$: checking it against the schema takes too much work; submit something simpler or smaller"]
    except RecursionError:
        return ["$: the schema or the value is nested without end, or too deeply"]
    except Exception as error:
        # Whatever a strange schema makes the library raise must not end the run with an error of the service.
        log.warning("output_schema_failed", error=type(error).__name__)
        return [f"$: the schema cannot be applied to it ({type(error).__name__})"]
    except BaseException as error:
        # A recursion error inside the library's compiled part, which turns it into a panic.
        if type(error).__name__ != "PanicException":
            raise
        return ["$: the schema or the value is nested without end, or too deeply"]


async def check_arguments(tool: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raises `ToolError`, which tells the model what is wrong, for arguments that do not meet a checked schema."""
    if found := await asyncio.to_thread(problems, schema, arguments):
        reasons = "\n".join(found)
        raise ToolError(clean_text(f"Invalid arguments of {tool}. Fix this and call it again:\n{reasons}"))


def _describe(error: Any) -> str:
    from jsonschema.exceptions import best_match

    inner = best_match([error])
    text = f"{error.json_path}: {error.message[:MAX_MESSAGE_CHARS]} (rule {error.validator})"
    if inner is None or inner is error:
        return text
    return f"{text}; closest: {inner.json_path}: {inner.message[:MAX_MESSAGE_CHARS]} (rule {inner.validator})"


class _TooMuchWorkError(Exception):
    """An evaluation has used all its work."""


class _Meter:
    """Counts the work of one evaluation."""

    def __init__(self) -> None:
        self._left = WORK

    def metered(self, name: str, check: Check) -> Check:
        def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            size = _size(instance)
            self._left -= 10 + _size(value) + (size * size // 4 if name == "uniqueItems" else size)
            if self._left < 0:
                raise _TooMuchWorkError
            yield from check(validator, value, instance, schema) or ()

        return run


def _size(value: Any) -> int:
    return len(value) // 16 if isinstance(value, str) else len(value) if isinstance(value, list | dict) else 0


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    meter = _Meter()
    checks = {**Draft202012Validator.VALIDATORS, **_with_re2()}
    metered = {name: meter.metered(name, check) for name, check in checks.items()}
    # An empty registry: the default one fetches what a reference names.
    return validators.extend(Draft202012Validator, metered)(schema, registry=Registry(), format_checker=None)


def _with_re2() -> dict[str, Check]:
    """The keywords that have patterns, which the library would give to Python's `re`."""
    from jsonschema.exceptions import ValidationError

    compiled: dict[str, Pattern] = {}

    def matches(pattern: str, text: str) -> bool:
        if pattern not in compiled:
            compiled[pattern] = Pattern(pattern)
        return compiled[pattern].search(text) is not None

    def pattern(validator: Any, value: str, instance: Any, _: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not matches(value, instance):
            yield ValidationError(f"{instance[:MAX_MESSAGE_CHARS]!r} does not match {value!r}")

    def pattern_properties(validator: Any, value: dict[str, Any], instance: Any, _: Any) -> Iterator[Any]:
        for name, inner in instance.items() if isinstance(instance, dict) else ():
            for each, schema in value.items():
                if matches(each, name):
                    yield from validator.descend(inner, schema, path=name, schema_path=each)

    def additional(validator: Any, value: Any, instance: Any, around: dict[str, Any]) -> Iterator[Any]:
        known, patterns = around.get("properties", {}), around.get("patternProperties", {})
        for name, inner in instance.items() if isinstance(instance, dict) else ():
            if name in known or any(matches(each, name) for each in patterns):
                continue
            if value is False:
                yield ValidationError(f"{name[:MAX_MESSAGE_CHARS]!r} is not allowed here")
            else:
                yield from validator.descend(inner, value, path=name)

    return {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": additional}
