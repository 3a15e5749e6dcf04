"""Schemas of MCP servers are shortened, and accept the same arguments."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app.runtime.mcp.shortening import shortened

NAMES = st.sampled_from(["a", "user_id", "title", "x/y", "p~q", "$ref", "100%"])
KEYWORDS = st.sampled_from(["$defs", "definitions"])


def pointer(keyword: str, name: str, rest: str) -> str:
    return f"#/{keyword}/{name.replace('~', '~0').replace('/', '~1').replace('%', '%25')}{rest}"


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    titles = st.sampled_from([{}, {"title": "User Id"}, {"title": "a"}, {"title": "Title"}, {"title": "Other"}])
    leaves = st.one_of(
        st.sampled_from([{"type": "string"}, {"type": "integer"}, {"enum": [1, {"title": "User Id"}]}]),
        st.builds(lambda *parts: {"$ref": pointer(*parts)}, KEYWORDS, NAMES, st.just("")),
    )

    def larger(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        maps = st.dictionaries(NAMES, inner, max_size=3)
        return st.one_of(
            st.builds(lambda title, properties: {**title, "properties": properties}, titles, maps),
            st.builds(lambda title, items: {**title, "items": items}, titles, inner),
            st.builds(lambda title, part: {**part, **title}, titles, inner),
        )

    parts = st.recursive(leaves, larger, max_leaves=6)
    # All names are defined, so that each reference leads somewhere.
    defined = st.fixed_dictionaries(dict.fromkeys(["a", "user_id", "title", "x/y", "p~q", "$ref", "100%"], leaves))
    return st.builds(
        lambda part, defs, old: {**part, "$defs": _ending(defs), "definitions": _ending(old)}, parts, defined, defined
    )


def _ending(definitions: dict[str, Any]) -> dict[str, Any]:
    """Without circles: a definition refers only to those before it."""
    names = list(definitions)
    for place, name in enumerate(names):
        if "$ref" in definitions[name]:
            definitions[name] = {"$ref": pointer("$defs", names[0], "")} if place else {"type": "integer"}
    return definitions


VALUES = st.recursive(
    st.one_of(st.integers(0, 2), st.sampled_from(["", "x"]), st.just({"title": "User Id"})),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)


@given(schemas(), st.lists(VALUES, max_size=4))
def test_the_same_values_are_accepted(schema: dict[str, Any], values: list[Any]) -> None:
    before = deepcopy(schema)
    short = shortened(schema)
    assert schema == before
    assert shortened(short) == short
    whole, shorter = Draft202012Validator(schema), Draft202012Validator(short)
    assert [shorter.is_valid(value) for value in values] == [whole.is_valid(value) for value in values]


def test_what_repeats_or_is_unused_is_dropped() -> None:
    text = {"type": "string"}
    schema = {
        "properties": {
            "user_id": {"title": "User Id", **text},
            "q": {"title": "Search query", **text},
            "title": {"title": "Title", **text},
            "filter": {"$ref": "#/$defs/Filter/properties/deep"},
        },
        "$defs": {
            "Filter": {"title": "Filter", "properties": {"deep": {"items": {"$ref": "#/definitions/x~1y"}}}},
            "Unused": {"properties": {"other": {"$ref": "#/$defs/Only unused"}}},
            "Only unused": text,
        },
        "definitions": {"x/y": text, "z": text},
    }
    assert shortened(schema) == {
        "properties": {
            "user_id": text,
            "q": {"title": "Search query", **text},
            "title": text,
            "filter": {"$ref": "#/$defs/Filter/properties/deep"},
        },
        "$defs": {"Filter": {"properties": {"deep": {"items": {"$ref": "#/definitions/x~1y"}}}}},
        "definitions": {"x/y": text},
    }


def test_definitions_that_may_have_an_anchor_are_kept() -> None:
    anchored = {"items": {"$ref": "#there"}, "$defs": {"a": {"$anchor": "there", "type": "string"}, "b": {}}}
    assert shortened(anchored) == anchored
    whole = {"items": {"$ref": "#/$defs"}, "$defs": {"a": {}}}
    assert shortened(whole) == whole
    assert shortened({"items": {"$ref": "#"}, "$defs": {"a": {}}}) == {"items": {"$ref": "#"}}
