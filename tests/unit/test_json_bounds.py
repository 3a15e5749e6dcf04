"""What a JSON text will cost is counted in pieces of any size, and refused before it is parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.json_bounds import MAX_DEPTH, MAX_VALUES, JsonBounds, JsonBoundsError, has_more_values

texts = st.text(st.sampled_from('"\\[]{},:aä\n'), max_size=8)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def count(value: Any) -> tuple[int, int]:
    """Values and levels; an empty list or object counts as one more, which is what its text tells."""
    if not isinstance(value, list | dict):
        return 1, 0
    inner = [count(item) for item in (value.values() if isinstance(value, dict) else value)]
    return 1 + max(1, sum(n for n, _ in inner)), 1 + max((depth for _, depth in inner), default=0)


@given(values, st.integers(1, 7))
def test_values_and_levels_are_counted_outside_strings_alone(value: Any, size: int) -> None:
    bounds = JsonBounds()
    bounds._depth = MAX_DEPTH // 2
    text = json.dumps(value).encode()
    for start in range(0, len(text), size):
        bounds.feed(text[start : start + size])
    assert bounds._values == count(value)[0]
    assert (bounds._depth, bounds._in_string, bounds._escaped) == (MAX_DEPTH // 2, False, False)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("opened", [b"[", b'{"a":', b'["\\\\",{"[":'])
def test_nesting_ends_at_its_limit(opened: bytes, size: int) -> None:
    levels = opened.count(b"[") + opened.count(b"{") - opened.count(b'"["')
    deepest = opened * (MAX_DEPTH // levels) + b"1"
    bounds = JsonBounds()
    for start in range(0, len(deepest), size):
        bounds.feed(deepest[start : start + size])
    with pytest.raises(JsonBoundsError, match="nested deeper"):
        JsonBounds().feed(opened + deepest)
    with pytest.raises(JsonBoundsError, match="nested deeper"):
        bounds.feed(b"[")


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"1,", b'{"a":1},', b'"",'])
def test_values_end_at_their_number(piece: bytes) -> None:
    bounds = JsonBounds()
    values = JsonBounds()
    values.feed(piece)
    bounds.feed(piece * ((MAX_VALUES - 1) // (values._values - 1)))
    with pytest.raises(JsonBoundsError, match="1,000,000 values"):
        bounds.feed(piece)
    JsonBounds().feed(b'"' + piece.replace(b'"', b"'") * MAX_VALUES + b'"')


@given(values, st.integers(1, 30))
def test_a_whole_text_s_values_are_counted(value: Any, most: int) -> None:
    assert has_more_values(json.dumps(value).encode(), most) == (count(value)[0] > most)


def test_levels_do_not_hide_values() -> None:
    assert has_more_values(b"[" * 1000 + b"1," * 2000, 2000)
    assert not has_more_values(b"[" * 500 + b'"' + b"," * 100_000 + b'"' + b"]" * 500, 2000)
