"""Schemas of clients: what is refused, what a value lacks, and that neither takes long or reaches outside."""

from __future__ import annotations

import time
from typing import Any

import pytest

from app.errors import ToolError
from app.tools.json_schema import DIALECT, SchemaError, checked_schema, problems
from app.tools.submit import OutputFormat

TREE: dict[str, Any] = {
    "$schema": DIALECT,
    "$id": "https://example.com/tree",
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "next": {"oneOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["n", "next"],
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "thing"}, "is not valid under any"),
        ({"properties": []}, r"\$\.properties: \[\] is not of type"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "draft 2020-12"),
        ({"$ref": "https://example.com/other.json"}, "does not refer to a part"),
        ({"$ref": "file:///etc/passwd"}, "does not refer to a part"),
        ({"$ref": "#/$defs/gone"}, "does not refer to a part"),
        ({"$ref": "#/default", "default": {"pattern": "(?=x)"}}, "does not refer to a part"),
        ({"items": {"$id": "https://example.com/x"}}, "only at the top level"),
        ({"pattern": r"(?=a)b"}, "RE2"),
        ({"unevaluatedProperties": False}, "not supported"),
        ({"description": "x" * 40_000}, "bytes"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        checked_schema(schema)


def test_problems_name_path_and_rule() -> None:
    schema = checked_schema(TREE)
    assert "$id" not in schema
    assert problems(schema, {"n": 1, "next": {"n": 2, "next": None}}) == []
    (found,) = problems(schema, {"n": 1, "next": {"n": "2", "next": None}})
    assert found.startswith("$.next: ")
    assert "(rule oneOf)" in found
    assert "$.next.n: '2' is not of type 'integer' (rule type)" in found
    (found,) = problems(schema, {"n": 1, "next": None, "more": 1})
    assert found == "$: 'more' is not allowed here (rule additionalProperties)"


def doubling(levels: int) -> dict[str, Any]:
    """A schema that each level evaluates twice as often as the one before."""
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**parts, f"d{levels}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 50_000 + "!"),
        ({"patternProperties": {"^(a|a)*$": False}, "additionalProperties": False}, {"a" * 50_000 + "!": 1}),
        ({"$ref": "#"}, 1),
        (doubling(30), "x"),
        ({"uniqueItems": True}, [{"n": n} for n in range(9_000)]),
    ],
    ids=["regex", "names", "endless", "doubling", "unique"],
)
@pytest.mark.slow
def test_no_schema_takes_long(schema: dict[str, Any], value: Any) -> None:
    checked = checked_schema(schema)
    began = time.thread_time()
    assert len(problems(checked, value)) == 1
    assert time.thread_time() - began < 20


def test_a_tool_always_takes_an_object() -> None:
    plain = OutputFormat(checked_schema({"type": "object", "properties": {"a": {}}}), "result")
    assert plain.tool().parameters == {"type": "object", "properties": {"a": {}}}
    assert plain.value({"a": 1}) == {"a": 1}

    more = {"not": {"$ref": "#/properties/x"}, "properties": {"x": False}}
    wrapped = OutputFormat(checked_schema({**TREE, **more}))
    parameters = wrapped.tool().parameters
    assert (parameters["type"], parameters["required"]) == ("object", ["output"])
    assert parameters["properties"]["output"]["$ref"] == "#/$defs/node"
    assert parameters["properties"]["output"]["not"] == {"$ref": "#/properties/output/properties/x"}
    assert parameters["$defs"] == TREE["$defs"]
    assert wrapped.value({"output": [1]}) == [1]
    deep: Any = []
    for _ in range(90):
        deep = [deep]
    for arguments in ({"n": 1}, {"output": 2**70}, {"output": deep}, {"output": "\ud800"}):
        with pytest.raises(ToolError):
            wrapped.value(arguments)
