"""What a Responses body says: its texts, calls and results, and its row of content blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.provider.counting import IMAGE_TOKENS, Block, count_text, text_block
from tests.provider.openai.reading import compact, objects
from tests.provider.records import JSON, Reading


def items_of(body: JSON) -> list[JSON]:
    """The input as items; a string is one user message."""
    items = body.get("input")
    if isinstance(items, str):
        return [{"type": "message", "role": "user", "content": items}]
    return [{"type": "message", **item} if "role" in item else item for item in objects(items)]


def parts_of(item: JSON) -> list[JSON]:
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "output_text" if item.get("role") == "assistant" else "input_text", "text": content}]
    return objects(content)


def text_of(item: JSON) -> str:
    return "".join(str(part.get("text", part.get("refusal", ""))) for part in parts_of(item))


def messages_of(body: JSON, role: str) -> Iterator[JSON]:
    yield from (item for item in items_of(body) if item.get("type") == "message" and item.get("role") == role)


def read(body: JSON) -> Reading:
    calls = [item for item in items_of(body) if item.get("type") == "function_call"]
    results = [item for item in items_of(body) if item.get("type") == "function_call_output"]
    return Reading(
        system=str(body.get("instructions") or ""),
        user_texts=tuple(text for item in messages_of(body, "user") if (text := text_of(item))),
        assistant_texts=tuple(text for item in messages_of(body, "assistant") if (text := text_of(item))),
        tool_calls={str(call.get("call_id")): (str(call.get("name")), _arguments(call)) for call in calls},
        tool_results={str(result.get("call_id")): str(result.get("output", "")) for result in results},
        tool_names=tuple(str(tool.get("name")) for tool in objects(body.get("tools"))),
    )


def _arguments(call: JSON) -> Any:
    try:
        return json.loads(call.get("arguments", ""))
    except (TypeError, ValueError):
        return call.get("arguments")


def blocks(body: JSON) -> list[Block]:
    row = [text_block("tools", compact(tool)) for tool in objects(body.get("tools"))]
    if body.get("instructions"):
        row.append(text_block("system", str(body["instructions"])))
    for item in items_of(body):
        row.extend(_item_blocks(item))
    return row


def _item_blocks(item: JSON) -> Iterator[Block]:
    match item.get("type"):
        case "message":
            for part in parts_of(item):
                image = part.get("type") == "input_image"
                tokens = IMAGE_TOKENS if image else count_text(str(part.get("text", "")))
                yield Block(str(item.get("role")), compact(part), tokens)
        case "function_call":
            said = {"name": item.get("name"), "arguments": item.get("arguments")}
            yield Block("assistant", compact({"id": item.get("call_id"), **said}), count_text(compact(said)))
        case "function_call_output":
            yield text_block(f"tool:{item.get('call_id')}", str(item.get("output", "")))
        case _:
            yield text_block("assistant", str(item.get("encrypted_content", "")))
