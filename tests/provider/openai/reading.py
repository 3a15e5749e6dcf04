"""What a Chat Completions body says: its texts, calls and results, and its row of content blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.provider.counting import IMAGE_TOKENS, Block, count_text, text_block
from tests.provider.records import JSON, Reading

SYSTEM_ROLES = ("system", "developer")


def parts_of(message: JSON) -> list[JSON]:
    """The content as parts; a string is one text part, null is none."""
    content = message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def text_of(message: JSON) -> str:
    return "".join(str(part.get("text", "")) for part in parts_of(message) if part.get("type") == "text")


def calls_of(message: JSON) -> list[JSON]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def function_of(holder: JSON) -> JSON:
    function = holder.get("function")
    return function if isinstance(function, dict) else {}


def objects(value: Any) -> list[JSON]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read(body: JSON) -> Reading:
    messages = objects(body.get("messages"))
    return Reading(
        system="\n\n".join(text_of(m) for m in messages if m.get("role") in SYSTEM_ROLES),
        user_texts=tuple(text_of(m) for m in messages if m.get("role") == "user"),
        assistant_texts=tuple(text_of(m) for m in messages if m.get("role") == "assistant" and text_of(m)),
        tool_calls={str(c.get("id")): _call(c) for m in messages for c in calls_of(m)},
        tool_results={str(m.get("tool_call_id")): text_of(m) for m in messages if m.get("role") == "tool"},
        tool_names=tuple(str(function_of(tool).get("name")) for tool in objects(body.get("tools"))),
    )


def _call(call: JSON) -> tuple[str, Any]:
    function = function_of(call)
    arguments = function.get("arguments", "")
    try:
        return str(function.get("name")), json.loads(arguments)
    except (TypeError, ValueError):
        return str(function.get("name")), arguments


def blocks(body: JSON) -> list[Block]:
    row = [text_block("tools", compact(tool)) for tool in objects(body.get("tools"))]
    for message in objects(body.get("messages")):
        row.extend(_message_blocks(message))
    return row


def _message_blocks(message: JSON) -> Iterator[Block]:
    role = str(message.get("role"))
    place = f"tool:{message.get('tool_call_id')}" if role == "tool" else role
    for part in parts_of(message):
        if part.get("type") == "text":
            yield text_block(place, str(part.get("text", "")))
        else:
            yield Block(place, compact(part), IMAGE_TOKENS)
    for call in calls_of(message):
        content = compact({"id": call.get("id"), "function": call.get("function")})
        yield Block(place, content, count_text(compact(call.get("function"))))


def compact(value: Any) -> str:
    """One spelling for each JSON value, without `cache_control`, which is not part of the prompt."""
    if isinstance(value, dict):
        value = {name: item for name, item in value.items() if name != "cache_control"}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
