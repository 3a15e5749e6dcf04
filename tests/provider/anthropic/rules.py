"""What the Messages endpoint refuses, in its own sentences as far as they are public.

Stricter than the real one in two points: consecutive messages of one role are refused instead of merged, and ids may
not be used twice in the whole conversation.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.provider.anthropic.history import check_pairs
from tests.provider.anthropic.reading import blocks_of, count_marks, text_of
from tests.provider.anthropic.signatures import check_binding, check_thinking
from tests.provider.dialect import TOOL_NAME
from tests.provider.images import check_images
from tests.provider.openai.reading import objects
from tests.provider.records import JSON, Refused, Rule
from tests.provider.settings import Settings
from tests.provider.thinking import SealBook

CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
MAX_MARKS = 4
"""The documented number of cache breakpoints in a request."""


def check(body: JSON, headers: dict[str, str], settings: Settings, seals: SealBook) -> None:
    """Raises `Refused` for the first thing that is wrong with the request."""
    if "anthropic-version" not in headers:
        raise Refused("headers", "anthropic-version: header is required")
    _check_parameters(body, settings)
    _check_tools(body.get("tools"))
    _check_texts("system", blocks_of(body.get("system")))
    messages = _messages(body)
    for at, message in enumerate(messages):
        _check_message(f"messages.{at}", message)
    _check_order(messages)
    check_images(body, settings, "anthropic")
    check_pairs(messages)
    _check_marks(body, messages)
    check_thinking(body, messages, seals)
    if settings.binds_thinking:
        check_binding(body, headers, seals)
    _check_end(messages)


def _check_parameters(body: JSON, settings: Settings) -> None:
    for name in ("model", "max_tokens", "messages"):
        if body.get(name) is None:
            raise Refused("shape", f"{name}: Field required")
    if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1:
        raise Refused("shape", "max_tokens: Input should be greater than or equal to 1")
    for name in sorted(settings.refused_parameters & body.keys()):
        raise Refused("parameter", f"`{name}` is deprecated for this model.")


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        raise Refused("tools", "tools: Input should be a valid list")
    for at, tool in enumerate(tools):
        _check_tool(f"tools.{at}.custom", tool)
    if any(n > 1 for n in Counter(tool["name"] for tool in tools).values()):
        raise Refused("tools", "tools: Tool names must be unique.")


def _check_tool(where: str, tool: Any) -> None:
    if not isinstance(tool, dict):
        raise Refused("tools", f"{where}: Input should be a valid dictionary")
    _check_name(where, tool.get("name"))
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise Refused("tools", f"{where}.input_schema: Field required")
    if schema.get("type") != "object":
        raise Refused("tools", f"{where}.input_schema.type: Input should be 'object'")


def _check_name(where: str, name: Any) -> None:
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise Refused("tools", f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")


def _messages(body: JSON) -> list[JSON]:
    messages = body["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise Refused("shape", "messages: Input should be a valid list")
    if not messages:
        raise Refused("empty", "messages: at least one message is required")
    return messages


def _check_message(where: str, message: JSON) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "system":
        sentence = 'The Messages API accepts a top-level `system` parameter, not "system" as an input message role.'
        raise Refused("shape", f'messages: Unexpected role "system". {sentence}')
    if role not in ("user", "assistant"):
        raise Refused("shape", f"{where}.role: Input should be 'user' or 'assistant'")
    if not isinstance(content, str | list):
        raise Refused("shape", f"{where}.content: Input should be a valid list")
    if isinstance(content, list) and not all(isinstance(block, dict) for block in content):
        raise Refused("shape", f"{where}.content.0: Input should be a valid dictionary")
    if not content:
        message_text = "all messages must have non-empty content except for the optional final assistant message"
        raise Refused("empty", f"{where}: {message_text}")
    _check_texts("messages", blocks_of(content))
    for at, block in enumerate(blocks_of(content)):
        _check_block(f"{where}.content.{at}", str(role), block)


def _check_texts(where: str, blocks: Sequence[JSON]) -> None:
    for block in blocks:
        if block.get("type") == "tool_result":
            _check_texts(where, objects(block.get("content")))
        if block.get("type") != "text":
            continue
        text = block.get("text")
        if not isinstance(text, str) or not text:
            raise Refused("empty", f"{where}: text content blocks must be non-empty")
        if not text.strip():
            raise Refused("empty", f"{where}: text content blocks must contain non-whitespace text")


ALLOWED: dict[str, frozenset[str]] = {
    "user": frozenset({"text", "image", "document", "tool_result"}),
    "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use"}),
}
"""The blocks that each role may send."""


def _check_block(where: str, role: str, block: JSON) -> None:
    kind = str(block.get("type"))
    if kind not in ALLOWED[role]:
        rule: Rule = "pairing" if kind in ("tool_use", "tool_result") else "shape"
        raise Refused(rule, f"messages: `{kind}` blocks can not be in `{role}` messages")
    if kind == "tool_use":
        _check_use(f"{where}.tool_use", block)
    elif kind == "tool_result" and not isinstance(block.get("tool_use_id"), str):
        raise Refused("pairing", f"{where}.tool_result.tool_use_id: Field required")
    elif kind == "image" and not isinstance(block.get("source"), dict):
        raise Refused("shape", f"{where}.image.source: Field required")
    elif kind in ("thinking", "redacted_thinking") and "cache_control" in block:
        raise Refused("cache_control", f"{where}.{kind}.cache_control: Extra inputs are not permitted")


def _check_use(where: str, block: JSON) -> None:
    call_id = block.get("id")
    if not isinstance(call_id, str) or not CALL_ID.fullmatch(call_id):
        raise Refused("ids", f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    _check_name(where, block.get("name"))
    if not isinstance(block.get("input"), dict):
        raise Refused("arguments", f"{where}.input: Input should be a valid dictionary")


def _check_order(messages: Sequence[JSON]) -> None:
    if messages[0]["role"] != "user":
        raise Refused("order", 'messages: first message must use the "user" role')
    for before, after in itertools.pairwise(messages):
        if before["role"] == after["role"]:
            sentence = f'but found multiple "{after["role"]}" roles in a row'
            raise Refused("order", f'messages: roles must alternate between "user" and "assistant", {sentence}')


def _check_end(messages: Sequence[JSON]) -> None:
    if messages[-1]["role"] != "assistant":
        return
    if text_of(messages[-1]["content"]) != text_of(messages[-1]["content"]).rstrip():
        raise Refused("empty", "messages: final assistant content cannot end with trailing whitespace")
    raise Refused(
        "order",
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    )


def _check_marks(body: JSON, messages: Sequence[JSON]) -> None:
    rows = [objects(body.get("tools")), blocks_of(body.get("system")), *(blocks_of(m["content"]) for m in messages)]
    marks = sum(count_marks(block) for row in rows for block in row)
    if marks > MAX_MARKS:
        message = f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {marks}."
        raise Refused("cache_control", message)
