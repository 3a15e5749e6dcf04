"""Messages in the form of Anthropic's Messages API. Each message's blocks are encoded once per context generation."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.llm.base import ModelRequest, ToolSchema
from app.llm.wire import forget, joined, settled_front, wire_arguments, wire_name
from app.messages import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)

_CACHE = b',"cache_control":{"type":"ephemeral"}}'
_CACHED_TURNS = 2
"""User turns with a cache breakpoint: the last is for the next step, the one before was cached by the previous step.
With system and tools that makes four, the API's maximum."""
_TAIL = 2 * _CACHED_TURNS
"""Newest turns that may still change: those that may hold a breakpoint, with the turns between them."""


@dataclass(slots=True, eq=False)
class _Turn:
    """Consecutive messages of one wire role, which the API expects as one. `last` is the last of them, at `end - 1`."""

    role: bytes
    last: Message
    end: int
    blocks: list[bytes] = field(default_factory=list)

    def encode(self, *, cached: bool = False) -> bytes:
        blocks = b",".join(self.blocks)
        if cached:
            blocks = _cached(blocks)
        return b'{"role":"%s","content":[%s]}' % (self.role, blocks)


def encode_body(request: ModelRequest, parameters: dict[str, Any], provider: str) -> bytes:
    """The request's JSON; `parameters` are those that this model accepts. `provider` is its configured name, which
    identifies reasoning written by this model."""
    body = orjson.dumps({"model": request.model, "stream": True, **parameters})[:-1]
    if request.system.strip():
        body += b',"system":[%s]' % _cached(orjson.dumps({"type": "text", "text": request.system}))
    if request.tools:
        tools = [orjson.dumps(_tool(tool)) for tool in request.tools]
        body += b',"tools":[%s]' % b",".join([*tools[:-1], _cached(tools[-1])])
    return body + b',"messages":[%s]}' % _messages(request, provider)


def to_anthropic(message: Message, *, own_reasoning: bool) -> tuple[bytes, ...]:
    """One message's content blocks, encoded. `own_reasoning` means that the request goes to the model that wrote the
    message: signed reasoning is sent back unchanged; reasoning of other models is left out. Blank text is left out,
    since the API refuses it."""
    parts = message.parts
    if message.role is Role.TOOL:
        parts = tuple(sorted(parts, key=lambda part: not isinstance(part, ToolResultPart)))
    return tuple(block for part in parts for block in _block(part, own_reasoning))


def _messages(request: ModelRequest, provider: str) -> bytes:
    cache, prefix = request.wire_cache, _cache_prefix(request)
    front = settled_front(cache, prefix, request.messages)
    start = front.count
    turns = _turns(request, start, provider)
    if settling := turns[:-_TAIL]:
        front = front.extended(settling[-1].end, settling[-1].last.id, [turn.encode() for turn in settling])
        cache[prefix] = front
        forget(cache, prefix, request.messages[start : front.count])
    tail = turns[-_TAIL:]
    users = [turn for turn in tail if turn.role == b"user"][-_CACHED_TURNS:]
    return joined([front.data, *(turn.encode(cached=turn in users) for turn in tail)])


def _turns(request: ModelRequest, start: int, provider: str) -> list[_Turn]:
    own = (request.model, f"{provider}/{request.model}")
    prefix = _cache_prefix(request)
    turns: list[_Turn] = []
    for end, message in enumerate(request.messages[start:], start + 1):
        blocks = _encoded(message, request.wire_cache, prefix, own_reasoning=message.model in own)
        if not blocks:
            continue
        role = b"assistant" if message.role is Role.ASSISTANT else b"user"
        if not turns or turns[-1].role != role:
            turns.append(_Turn(role, message, end))
        turns[-1].last, turns[-1].end = message, end
        turns[-1].blocks.extend(blocks)
    return turns


def _cache_prefix(request: ModelRequest) -> str:
    """Per model, since a history is encoded differently for another one: summaries may use a cheaper model."""
    return f"anthropic:{request.model}:"


def _encoded(
    message: Message, cache: MutableMapping[str, Any], prefix: str, *, own_reasoning: bool
) -> tuple[bytes, ...]:
    key = prefix + message.id
    blocks: tuple[bytes, ...] | None = cache.get(key)
    if blocks is None:
        blocks = cache[key] = to_anthropic(message, own_reasoning=own_reasoning)
    return blocks


def _block(part: Part, own_reasoning: bool) -> Iterator[bytes]:
    match part:
        case TextPart() if part.text.strip():
            yield orjson.dumps({"type": "text", "text": part.text})
        case ReasoningPart(provider_data={"type": "thinking" | "redacted_thinking"}) if (
            own_reasoning and not part.interrupted
        ):
            yield orjson.dumps(part.provider_data)
        case ToolCallPart():
            head = orjson.dumps({"type": "tool_use", "id": part.call_id, "name": wire_name(part.name)})[:-1]
            yield head + b',"input":' + wire_arguments(part.arguments_text).strip().encode() + b"}"
        case ToolResultPart():
            yield orjson.dumps(_result(part))
        case ImagePart():
            source = {"type": "base64", "media_type": part.media_type, "data": part.data}
            yield orjson.dumps({"type": "image", "source": source})
        case _:
            return


def _result(part: ToolResultPart) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": part.call_id}
    if part.output.strip():
        block["content"] = part.output
    if part.status is not ToolStatus.COMPLETED:
        block["is_error"] = True
    return block


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _cached(block: bytes) -> bytes:
    return block[:-1] + _CACHE
