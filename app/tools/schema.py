"""JSON Schemas of tool arguments, in the plain form that every provider accepts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from app.llm.base import ToolSchema

_DROPPED = frozenset({"title", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "maxItems"})
"""Keywords that cost tokens in every request. Bounds are checked when a call is parsed, with an error that names them;
several providers ignore or refuse them in a schema."""


def provider_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of `model` without references, titles, bounds and `null`: several providers refuse references, titles
    and bounds cost tokens, and a field that may be null may as well be omitted."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    cleaned: dict[str, Any] = _clean(schema, definitions)
    cleaned.pop("description", None)
    cleaned.setdefault("properties", {})
    cleaned["additionalProperties"] = False
    return cleaned


def short_form(schema: ToolSchema) -> str:
    """A tool's arguments on one line: `read_file{path: string, start_line?: integer}`."""
    return schema.name + _short(schema.parameters)


def _clean(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_clean(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    node = _resolve(node, definitions)
    kept = {key: value for key, value in node.items() if key not in _DROPPED and (key, value) != ("default", None)}
    return {
        key: {name: _clean(field, definitions) for name, field in value.items()}
        if key == "properties"
        else _clean(value, definitions)
        for key, value in kept.items()
    }


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


def _short(node: dict[str, Any]) -> str:
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
