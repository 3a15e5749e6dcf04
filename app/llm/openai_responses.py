"""OpenAI's Responses endpoint and its wire format, a flat list of items. Each message is encoded once per context
generation, and nothing is left to the server's own memory of the conversation."""

from __future__ import annotations

import re
from collections.abc import Collection, MutableMapping
from typing import Any, ClassVar

import orjson

from app.errors import AnswerError
from app.json_bytes import json_to_keep
from app.llm.base import ModelRequest, ToolSchema
from app.llm.known_models import reasons, wire_effort
from app.llm.openai_responses_stream import ResponsesStream
from app.llm.quirks import Endpoint, Quirks
from app.llm.wire import ErrorFor, forget, joined, settled_front, wire_arguments, wire_name
from app.messages import ImagePart, Message, Part, ReasoningPart, Role, TextPart, ToolCallPart

_NOT_CHAT = re.compile(r"v1/responses|not a chat model|responses (?:api|endpoint)", re.I)
_NOT_RESPONSES = re.compile(
    r"v1/chat/completions|(?:cannot be used|not supported) (?:with|in|by) the responses api", re.I
)
_UNKNOWN_PATH = frozenset({404, 405, 501})
_SOMETHING_ELSE = re.compile(r"model|item|deployment|project|organization|<html", re.I)
"""Words of a 404 that is not about the path. An HTML page is from a proxy, which knows nothing about models."""
_UNREADABLE = "invalid_encrypted_content"
_UNVERIFIED = re.compile(r"encrypted content .{0,200}could not be (?:verified|decrypted)", re.I | re.S)

_TAIL = 4
"""Newest messages that are not in the cached prefix: a summary of the same history leaves them out."""


class ResponsesFormat:
    """Requests to `/responses` and their streams. The whole conversation is sent each time and not stored there, so
    reasoning is sent encrypted. `stop` does not exist in this format."""

    path: ClassVar[str] = "/responses"

    def __init__(self, provider: str, error_for: ErrorFor) -> None:
        self._provider = provider
        self._error_for = error_for

    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        limit = request.max_output_tokens
        wanted: dict[str, Any] = {
            "temperature": request.temperature,
            "max_output_tokens": quirks.limited(limit) if limit is not None else None,
            "prompt_cache_key": request.cache_key,
        }
        if reasons(request.model):
            wanted["reasoning.effort"] = wire_effort(request.model, request.reasoning_effort, quirks.refused_efforts)
            wanted["reasoning.summary"] = "auto"
            wanted["include"] = ["reasoning.encrypted_content"]
        return quirks.parameters(wanted, None)

    def encode(self, request: ModelRequest, parameters: dict[str, Any], quirks: Quirks) -> bytes:
        return encode_body(request, parameters, self._provider, opaque=quirks.sends_opaque)

    def open_stream(self) -> ResponsesStream:
        return ResponsesStream(self._error_for)

    def corrects(self, error: AnswerError, request: ModelRequest) -> bool:
        """Leaves out encrypted reasoning that the server cannot decrypt (a retired key, another organization);
        otherwise the history would always be refused."""
        if _code(error.body) != _UNREADABLE and not _UNVERIFIED.search(error.body):
            return False
        return leave_reasoning_out(request)


def points_elsewhere(endpoint: Endpoint, error: AnswerError) -> bool:
    """Whether a refusal of this endpoint means that the model has to be called at the other one."""
    if endpoint == "chat_completions":
        return error.meant_status in (400, 404) and _NOT_CHAT.search(error.body) is not None
    if error.meant_status in (400, 404) and _NOT_RESPONSES.search(error.body):
        return True
    return is_unknown_path(error)


def is_unknown_path(error: AnswerError, *, whatever: bool = False) -> bool:
    """Whether a refusal means that the path does not exist; with `whatever` (an endpoint on trial) its text is
    ignored."""
    return error.meant_status in _UNKNOWN_PATH and (whatever or _SOMETHING_ELSE.search(error.body) is None)


def _code(body: str) -> Any:
    try:
        return orjson.loads(body)["error"]["code"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def encode_body(request: ModelRequest, parameters: dict[str, Any], provider: str, *, opaque: bool = True) -> bytes:
    """The request's JSON; `parameters` are the optional ones that this model accepts, with dotted names for members of
    objects. `provider` is its configured name, which identifies reasoning written by this model. Without `opaque`,
    fields of calls that only their provider understands are left out."""
    head = {"model": request.model, "stream": True, "store": False, **_nested(parameters)}
    if request.system.strip():
        head["instructions"] = request.system
    if request.tools:
        head["tools"] = [_tool(tool) for tool in request.tools]
    return b'%s,"input":[%s]}' % (orjson.dumps(head)[:-1], _items(request, provider, opaque))


def to_items(message: Message, *, own_reasoning: bool, opaque: bool = True) -> list[dict[str, Any]]:
    """One message's items. `own_reasoning` means that the request goes to the model that wrote the message: encrypted
    reasoning is sent back unchanged before the item it belongs to. Reasoning without a following item is left out,
    since the API refuses it ("was provided without its required following item")."""
    if message.role is Role.ASSISTANT:
        return _assistant(message, own_reasoning, opaque)
    items = [_output(result.call_id, result.output) for result in message.tool_results]
    if content := [block for part in message.parts if (block := _input(part)) is not None]:
        role = "system" if message.role is Role.SYSTEM else "user"
        items.append({"type": "message", "role": role, "content": content})
    return items


def leave_reasoning_out(request: ModelRequest) -> bool:
    """Leaves out the reasoning of all messages so far for the rest of the generation, since the server cannot decrypt
    it; returns whether any was sent."""
    cache, prefix = request.wire_cache, _cache_prefix(request)
    unreadable = frozenset(message.id for message in request.messages if _has_reasoning(message))
    if unreadable <= cache.get(_unreadable_key(prefix), frozenset()):
        return False
    cache.pop(prefix, None)
    forget(cache, prefix, request.messages)
    cache[_unreadable_key(prefix)] = unreadable
    return True


def _items(request: ModelRequest, provider: str, opaque: bool) -> bytes:
    cache, prefix = request.wire_cache, _cache_prefix(request)
    own = (request.model, f"{provider}/{request.model}")
    unreadable: Collection[str] = cache.get(_unreadable_key(prefix), ())
    front = settled_front(cache, prefix, request.messages)
    tail = request.messages[front.count :]
    pieces = [_encoded(m, cache, prefix, m.model in own and m.id not in unreadable, opaque) for m in tail]
    if (settling := len(tail) - _TAIL) > 0:
        last = tail[settling - 1]
        front, pieces = front.extended(front.count + settling, last.id, pieces[:settling]), pieces[settling:]
        cache[prefix] = front
        forget(cache, prefix, tail[:settling])
    return joined([front.data, *pieces])


def _cache_prefix(request: ModelRequest) -> str:
    """Per model, since a history is encoded differently for another one: summaries may use a cheaper model."""
    return f"responses:{request.model}:"


def _unreadable_key(prefix: str) -> str:
    return "unreadable:" + prefix


def _encoded(
    message: Message, cache: MutableMapping[str, Any], prefix: str, own_reasoning: bool, opaque: bool
) -> bytes:
    key = prefix + message.id
    data = cache.get(key)
    if data is None:
        data = cache[key] = b",".join(map(json_to_keep, to_items(message, own_reasoning=own_reasoning, opaque=opaque)))
    return bytes(data)


def _nested(parameters: dict[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`."""
    nested: dict[str, Any] = {}
    for name, value in parameters.items():
        outer, dot, inner = name.partition(".")
        if dot:
            nested.setdefault(outer, {})[inner] = value
        else:
            nested[name] = value
    return nested


def _tool(tool: ToolSchema) -> dict[str, Any]:
    """A tool definition. `strict` is on by default and requires schemas without optional fields, so it is turned
    off."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _assistant(message: Message, own_reasoning: bool, opaque: bool) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for part in reversed(message.parts):
        match part:
            case TextPart() if part.text.strip():
                items.append(_text(message, part))
            case ToolCallPart():
                items.append(_call(part, opaque))
            case ReasoningPart() if own_reasoning and items and _is_reasoning(part):
                items.append(part.provider_data or {})
            case _:
                continue
    return items[::-1]


def _text(message: Message, part: TextPart) -> dict[str, Any]:
    """A text item. The format requires an id; it is made up, since the server stores nothing."""
    item: dict[str, Any] = {
        "type": "message",
        "id": f"msg_{message.id.replace('-', '')}_{part.index}"[:64],
        "role": "assistant",
        "status": "incomplete" if part.interrupted else "completed",
        "content": [{"type": "output_text", "text": part.text, "annotations": []}],
    }
    return item if part.phase is None else {**item, "phase": part.phase}


def _call(part: ToolCallPart, opaque: bool) -> dict[str, Any]:
    own = (part.provider_data or {}) if opaque else {}
    return {
        **own.get("call", {}),
        "type": "function_call",
        "call_id": part.call_id,
        "name": wire_name(part.name),
        "arguments": wire_arguments(part.arguments_text),
    }


def _output(call_id: str, output: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _input(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart() if part.text:
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            url = f"data:{part.media_type};base64,{part.data}"
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case _:
            return None


def _has_reasoning(message: Message) -> bool:
    return any(isinstance(part, ReasoningPart) and _is_reasoning(part) for part in message.parts)


def _is_reasoning(part: ReasoningPart) -> bool:
    """Whether it is a complete item of this API. Without its encrypted content the server could not find it."""
    data = part.provider_data or {}
    return not part.interrupted and data.get("type") == "reasoning" and bool(data.get("encrypted_content"))
