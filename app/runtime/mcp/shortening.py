"""Shorter schemas for the same arguments. Some servers send all their definitions with each tool, and some libraries
add titles that repeat the names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from app.tools.json_schema import subschemas

_DEFINITIONS = ("$defs", "definitions")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NOT_LETTERS = re.compile(r"[\W_]+")


def shortened(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy of a valid schema that accepts the same values, without the definitions that nothing refers to and the
    titles that repeat the name of their property or definition."""
    short = deepcopy(schema)
    _drop_unused(short)
    for _, part in subschemas(short):
        if isinstance(part, dict):
            for keyword in ("properties", *_DEFINITIONS):
                for name, value in part.get(keyword, {}).items():
                    if isinstance(value, dict) and _letters(value.get("title")) == _letters(name):
                        del value["title"]
    return short


def _letters(name: object) -> str | None:
    return _NOT_LETTERS.sub("", name).casefold() if isinstance(name, str) else None


def _drop_unused(schema: dict[str, Any]) -> None:
    """Drops definitions at the top, unless something refers to an anchor, which may be in any of them."""
    maps = {keyword: schema[keyword] for keyword in _DEFINITIONS if keyword in schema}
    left: list[Any] = [{keyword: value for keyword, value in schema.items() if keyword not in maps}]
    used: set[tuple[str, str]] = set()
    while left:
        for reference in _references(left.pop()):
            fragment, *path = unquote(reference).split("/")
            if fragment != "#" or (path and path[0] in maps and len(path) == 1):
                return
            if path and path[0] in maps:
                place = (path[0], path[1].replace("~1", "/").replace("~0", "~"))
                if place not in used:
                    used.add(place)
                    left.append(maps[place[0]].get(place[1]))
    for keyword, definitions in maps.items():
        schema[keyword] = {name: value for name, value in definitions.items() if (keyword, name) in used}
        if not schema[keyword]:
            del schema[keyword]


def _references(value: Any) -> Iterator[str]:
    """All in a value, also where it is not a schema."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield from (each[keyword] for keyword in _REFERENCES if isinstance(each.get(keyword), str))
            left += each.values()
        elif isinstance(each, list):
            left += each
