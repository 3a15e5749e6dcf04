"""Divides a large body into the messages of its history and everything else, so that they are never parsed all at
once."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from typing import Any

from app.api.errors import MalformedJsonError
from app.raw_messages import RawMessages

_STRUCTURE = re.compile(rb"[][{},]")
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")
_ARRAY, _BACKSLASH = ord("["), ord("\\")
_NAME_BYTES = 16
"""Longer strings are neither of the two names looked for."""


Parse = Callable[[bytearray], Any]


def divided(body: bytearray, parse: Parse, parse_again: Parse) -> Any:
    """The value of `body`, with `RawMessages` for the messages of its history; None if it is not valid JSON or has no
    such messages, which `parse` then finds out. Each message was parsed once; `parse_again` may rely on that."""
    bounds = _bounds(body)
    if bounds is None:
        return None
    try:
        value = parse(body[: bounds[0] + 1] + body[bounds[-1] :])
        for _ in RawMessages(body, bounds, parse):
            pass
    except MalformedJsonError:
        return None
    value["history"]["messages"] = RawMessages(body, bounds, parse_again)
    return value


def _bounds(text: bytearray) -> array[int] | None:
    """Where the array `messages` in the object `history` of the outermost object opens, its commas, and where it
    closes. Of invalid JSON, anything."""
    bounds: array[int] = array("q")
    depth, in_history = 0, False
    for name, start, end in _outside_strings(text):
        for found in _STRUCTURE.finditer(text, start, end):
            at = found.start()
            if text[at] in _OPENING:
                depth += 1
                named = name if text[start:at].strip() == b":" else b""
                if depth == 2:
                    in_history = named == b"history"
                elif depth == 3 and in_history and named == b"messages" and text[at] == _ARRAY:
                    bounds.append(at)
            elif text[at] in _CLOSING:
                depth -= 1
                if bounds and depth == 2:
                    bounds.append(at)
                    return bounds
            elif bounds and depth == 3:
                bounds.append(at)
    return None


def _outside_strings(text: bytearray) -> Iterator[tuple[bytes, int, int]]:
    """The stretches of a JSON text between its strings, each with the string before it, unless that is long."""
    name, start = b"", 0
    while (quote := text.find(b'"', start)) >= 0:
        yield name, start, quote
        end = _end_of_string(text, quote + 1)
        name = bytes(text[quote + 1 : end]) if end - quote <= _NAME_BYTES else b""
        start = end + 1
    yield name, start, len(text)


def _end_of_string(text: bytearray, start: int) -> int:
    """Where the next quote is that no backslash escapes; the end of the text without one."""
    while (end := text.find(b'"', start)) >= 0:
        first = end
        while text[first - 1] == _BACKSLASH:
            first -= 1
        if (end - first) % 2 == 0:
            return end
        start = end + 1
    return len(text)
