"""Values that often break programs, and JSON with such values in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

DEEP_LIST: Any = []
DEEP_DICT: Any = {}
for _ in range(300):
    DEEP_LIST, DEEP_DICT = [DEEP_LIST], {"a": DEEP_DICT}

HOSTILE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    255,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    10**40,
    -(2**63),
    0.5,
    1e308,
    -1e308,
    5e-324,
    "",
    " ",
    "x",
    "0",
    "null",
    "\x00",
    "\ud800",
    "\udfff\ud800",
    "\u202e\ufeff\u2028",
    "e\u0301\U0001f600",
    "\r\n\n",
    "data: {}\n\n",
    "../../etc/passwd",
    "%00%2e%2e%2f",
    "'; DROP TABLE event; --",
    "${HOME}$(id)`id`",
    "a" * 300,
    "b" * 10_000,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": []}},
    {"type": "text", "text": 1},
    DEEP_LIST,
    DEEP_DICT,
)
"""Unexpected values. The deep ones are deeper than some serializers can write."""

hostile = st.sampled_from(HOSTILE)
texts = st.one_of(
    st.sampled_from([value for value in HOSTILE if isinstance(value, str)]),
    st.text(st.characters(codec=None, categories=None), max_size=20),
)
anything = st.recursive(
    st.one_of(hostile, texts, st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to every value in a document, including the root; very deep values are left out."""
    yield path
    if len(path) > 20:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from places(inner, (*path, at))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = replaced(document[path[0]], path[1:], value)
    return copy


def removed(document: Any, path: tuple[Any, ...]) -> Any:
    """The document without the value at a place."""
    if not path:
        return None
    copy = dict(document) if isinstance(document, dict) else list(document)
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = removed(document[path[0]], path[1:])
    return copy


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """A document with one value changed or removed."""
    path = draw(st.sampled_from(list(places(document))))
    if draw(st.integers(0, 4)) == 0:
        return removed(document, path)
    return replaced(document, path, draw(st.one_of(hostile, anything)))


def encoded(value: Any) -> bytes:
    """JSON bytes; lone surrogates are escaped."""
    return json.dumps(value).encode()
