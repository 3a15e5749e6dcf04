"""Messages in the form of OpenAI's Chat Completions. Each message is encoded once per context generation."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import orjson

from app.llm.base import ModelRequest, ToolSchema
from app.llm.wire import forget, joined, settled_front, wire_arguments, wire_name
from app.messages import ImagePart, Message, Role

_TAIL = 4
"""Messages that are not settled yet: another call on the same history, a summary, leaves the newest ones out."""


def encode_body(request: ModelRequest, parameters: dict[str, Any]) -> bytes:
    """The request's JSON; `parameters` are the optional ones that this model takes."""
    head = {"model": request.model, "stream": True, **parameters}
    if request.tools:
        head["tools"] = [_tool(tool) for tool in request.tools]
    return b'%s,"messages":[%s]}' % (orjson.dumps(head)[:-1], _messages(request))


def to_openai(message: Message) -> list[dict[str, Any]]:
    """One message as none, one or several wire messages (a result each). Reasoning is left out: servers of this format
    take none back."""
    match message.role:
        case Role.ASSISTANT:
            return [_assistant(message)]
        case Role.TOOL:
            return list(_tool_results(message))
        case Role.SYSTEM:
            return [{"role": "system", "content": message.text}]
        case _:
            return [{"role": "user", "content": _user_content(message)}]


def _messages(request: ModelRequest) -> bytes:
    system = orjson.dumps({"role": "system", "content": request.system}) if request.system else b""
    front = settled_front(request.wire_cache, "openai", request.messages)
    tail = request.messages[front.count :]
    pieces = [_encoded(message, request.wire_cache) for message in tail]
    if (settling := len(tail) - _TAIL) > 0:
        last = tail[settling - 1]
        front, pieces = front.extended(front.count + settling, last.id, pieces[:settling]), pieces[settling:]
        request.wire_cache["openai"] = front
        forget(request.wire_cache, "openai:", tail[:settling])
    return joined([system, front.data, *pieces])


def _encoded(message: Message, cache: MutableMapping[str, Any]) -> bytes:
    key = "openai:" + message.id
    data = cache.get(key)
    if data is None:
        data = cache[key] = b",".join(map(orjson.dumps, to_openai(message)))
    return bytes(data)


def _tool(tool: ToolSchema) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _assistant(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": message.text}
    if calls := message.tool_calls:
        wire["content"] = message.text or None
        wire["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": wire_name(call.name), "arguments": wire_arguments(call.arguments_text)},
            }
            for call in calls
        ]
    return wire


def _tool_results(message: Message) -> Iterator[dict[str, Any]]:
    """Results hold text alone in this format, so images follow in a user message."""
    for result in message.tool_results:
        yield {"role": "tool", "tool_call_id": result.call_id, "content": result.output}
    if images := _images(message):
        yield {"role": "user", "content": images}


def _user_content(message: Message) -> str | Sequence[dict[str, Any]]:
    images = _images(message)
    if not images:
        return message.text
    return [{"type": "text", "text": message.text}, *images] if message.text else images


def _images(message: Message) -> list[dict[str, Any]]:
    return [
        {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
        for part in message.parts
        if isinstance(part, ImagePart)
    ]
