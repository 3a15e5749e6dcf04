"""Messages in the form of OpenAI's Chat Completions. Each message is encoded once per context generation."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.json_bytes import json_to_keep
from app.llm.base import ModelRequest, ToolSchema
from app.llm.quirks import SHORT_ID_CHARS, Quirks, may_follow
from app.llm.wire import forget, joined, settled_front, wire_arguments, wire_name
from app.messages import ImagePart, Message, Part, ReasoningPart, Role, TextPart, ToolCallPart

_TAIL = 4
"""Newest messages that are not in the cached prefix: a summary of the same history leaves them out."""

ACKNOWLEDGED = "Understood."
"""Placeholder answer between two messages, for servers that refuse two in a row."""

GO_ON = "Continue."
"""Placeholder user message between two answers."""


@dataclass(frozen=True, slots=True)
class WireForm:
    """The form of messages that a server requires; see `Quirks`.

    Reasoning is sent back in the form in which it came, or in `reasoning_field` if that is unknown; None sends none. A
    server that `asked` for it gets that field with all calls. Without `opaque`, fields that only their provider
    understands are left out.

    The form of a message depends only on the message and the one before it, so a growing history keeps its prefix of
    bytes in every form.
    """

    bridges_roles: bool = False
    no_system_role: bool = False
    tools_as_text: bool = False
    short_call_ids: bool = False
    reasoning_field: str | None = None
    asked: bool = False
    opaque: bool = True
    signs_calls: bool = False

    @property
    def key(self) -> str:
        """The cache key, which keeps the bytes of different forms apart."""
        forms = f"{self.bridges_roles:d}{self.no_system_role:d}{self.tools_as_text:d}{self.short_call_ids:d}"
        return f"openai{forms}{self.asked:d}{self.opaque:d}{self.signs_calls:d}{self.reasoning_field or ''}"


_PLAIN: dict[str, Any] = {"type": "chat"}
"""Reasoning of which only the text is known."""
_DETAILS = "reasoning_details"
_STAND_IN = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
"""What Google documents for calls that have no signature, because another model made them."""
_ID_CHARS = string.ascii_letters + string.digits

PLAIN = WireForm()


def form_of(quirks: Quirks) -> WireForm:
    """The form required by these quirks."""
    return WireForm(
        quirks.bridges_roles,
        quirks.no_system_role,
        quirks.tools_as_text,
        quirks.short_call_ids,
        reasoning_field=None if quirks.echoes_reasoning is False else quirks.reasoning_field,
        asked=quirks.echoes_reasoning is True,
        opaque=quirks.sends_opaque,
        signs_calls=quirks.signs_calls,
    )


def encode_body(request: ModelRequest, parameters: dict[str, Any], form: WireForm = PLAIN) -> bytes:
    """The request's JSON; `parameters` are the optional ones that this model accepts."""
    head = {"model": request.model, "stream": True, **parameters}
    if request.tools:
        head["tools"] = [_tool(tool) for tool in request.tools]
    return b'%s,"messages":[%s]}' % (orjson.dumps(head)[:-1], _messages(request, form))


def to_openai(message: Message, form: WireForm = PLAIN) -> list[dict[str, Any]]:
    """One message as zero or more wire messages (one per result)."""
    match message.role:
        case Role.ASSISTANT:
            return [_assistant(message, form)]
        case Role.TOOL:
            return [_results_as_text(message)] if form.tools_as_text else list(_tool_results(message, form))
        case Role.SYSTEM if not form.no_system_role:
            return [{"role": "system", "content": message.text}]
        case _:
            return [{"role": "user", "content": _user_content(message)}]


def _messages(request: ModelRequest, form: WireForm) -> bytes:
    lead, messages = _lead(request, form)
    cache, key = request.wire_cache, form.key
    front = settled_front(cache, key, messages)
    before = _last_role(messages[front.count - 1], form) if front.count else lead[-1]["role"] if lead else ""
    tail = messages[front.count :]
    pieces: list[bytes] = []
    for message in tail:
        pieces.append(_encoded(message, before, request, form))
        before = _last_role(message, form) or before
    if (settling := len(tail) - _TAIL) > 0:
        last = tail[settling - 1]
        front, pieces = front.extended(front.count + settling, last.id, pieces[:settling]), pieces[settling:]
        cache[key] = front
        forget(cache, key + ":", tail[:settling])
    return joined([*map(orjson.dumps, lead), front.data, *pieces])


def _lead(request: ModelRequest, form: WireForm) -> tuple[list[dict[str, Any]], Sequence[Message]]:
    """The wire messages with the system text, and the messages that follow. They are encoded anew each time, so that
    the cache does not depend on the system text."""
    if not request.system:
        return [], request.messages
    if not form.no_system_role:
        return [{"role": "system", "content": request.system}], request.messages
    first = to_openai(request.messages[0], form) if request.messages else []
    if not first or first[0]["role"] != "user":
        return [{"role": "user", "content": request.system}], request.messages
    content = first[0]["content"]
    if isinstance(content, str):
        joint: str | list[dict[str, Any]] = f"{request.system}\n\n{content}"
    else:
        joint = [{"type": "text", "text": request.system}, *content]
    return [{"role": "user", "content": joint}, *first[1:]], request.messages[1:]


def _encoded(message: Message, before: str, request: ModelRequest, form: WireForm) -> bytes:
    """One message after one of role `before`, which never changes within a context generation."""
    key = f"{form.key}:{message.id}"
    known = request.wire_cache.get(key)
    if known is None or known[0] != before:
        wire = to_openai(message, form)
        data = b",".join(map(json_to_keep, _bridged(wire, before) if form.bridges_roles else wire))
        known = request.wire_cache[key] = (before, data)
    return bytes(known[1])


def _bridged(messages: Iterable[dict[str, Any]], before: str) -> Iterator[dict[str, Any]]:
    """The messages, with a placeholder before each one that may not follow the previous one."""
    for message in messages:
        if not may_follow(before, role := message["role"]):
            is_answer = role == "assistant"
            yield {"role": "user", "content": GO_ON} if is_answer else {"role": "assistant", "content": ACKNOWLEDGED}
        yield message
        before = role


def _last_role(message: Message, form: WireForm) -> str:
    """The role of the last wire message of a message; empty if it has none."""
    match message.role:
        case Role.ASSISTANT:
            return "assistant"
        case Role.TOOL:
            if form.tools_as_text or any(isinstance(part, ImagePart) for part in message.parts):
                return "user"
            return "tool" if message.tool_results else ""
        case Role.SYSTEM if not form.no_system_role:
            return "system"
        case _:
            return "user"


def _tool(tool: ToolSchema) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _assistant(message: Message, form: WireForm) -> dict[str, Any]:
    content, fields = _with_reasoning(message, form)
    wire: dict[str, Any] = {**fields, "role": "assistant", "content": content}
    if form.tools_as_text:
        wire["content"] = "\n".join([*filter(None, [message.text]), *map(_call_as_text, message.tool_calls)])
    elif calls := message.tool_calls:
        wire["content"] = content or None
        wire["tool_calls"] = [_call(call, form) for call in calls]
    return wire


def _with_reasoning(message: Message, form: WireForm) -> tuple[str | list[dict[str, Any]], dict[str, Any]]:
    """The content of an assistant message, and its other fields: the model's reasoning where it came from."""
    fields: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for part in message.parts:
        if isinstance(part, ReasoningPart) and (data := part.provider_data or _PLAIN).get("type") == "chat":
            fields |= data.get("fields", {}) if form.opaque else {}
            place = data.get("place", "")
            texts[place] = texts.get(place, "") + part.text
    if form.reasoning_field is None:
        return message.text, fields
    texts = {place: text for place, text in texts.items() if text}
    if tagged := texts.pop("think_tag", ""):
        return f"<think>{tagged}</think>{message.text}", fields
    if thought := texts.pop("thinking_part", ""):
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
        return [thinking, *([{"type": "text", "text": message.text}] if message.text else [])], fields
    if form.asked:
        # Some require the field with calls even if the model has not reasoned.
        reasoning = "".join(texts.values())
        return message.text, {form.reasoning_field: reasoning, **fields} if reasoning or message.tool_calls else fields
    if _DETAILS not in fields:
        # With the details, the text would be there twice.
        fields = {place or form.reasoning_field: text for place, text in texts.items() if place != _DETAILS} | fields
    return message.text, fields


def _call(call: ToolCallPart, form: WireForm) -> dict[str, Any]:
    own = (call.provider_data or {}) if form.opaque else {}
    stand_in = _STAND_IN if form.signs_calls and not own else {}
    function = {"name": wire_name(call.name), "arguments": wire_arguments(call.arguments_text)}
    return {
        **own.get("call", stand_in),
        "id": _wire_id(call.call_id, form),
        "type": "function",
        "function": own.get("function", {}) | function,
    }


def _tool_results(message: Message, form: WireForm) -> Iterator[dict[str, Any]]:
    """Results contain only text in this format, so images follow in a user message."""
    for result in message.tool_results:
        yield {"role": "tool", "tool_call_id": _wire_id(result.call_id, form), "content": result.output}
    if images := _images(message):
        yield {"role": "user", "content": images}


def _wire_id(call_id: str, form: WireForm) -> str:
    """A call's id in the form that the server accepts. A short one is derived from the long one; the chance of a
    collision within a history of n calls is about n² in 10^16."""
    if not form.short_call_ids:
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:8])
    return "".join(_ID_CHARS[number // len(_ID_CHARS) ** place % len(_ID_CHARS)] for place in range(SHORT_ID_CHARS))


def _call_as_text(call: ToolCallPart) -> str:
    """The form in which most open models write calls; the arguments are sent unchanged."""
    name = orjson.dumps(wire_name(call.name)).decode()
    return f'<tool_call>\n{{"name": {name}, "arguments": {wire_arguments(call.arguments_text)}}}\n</tool_call>'


def _results_as_text(message: Message) -> dict[str, Any]:
    results = "\n".join(f"<tool_response>\n{result.output}\n</tool_response>" for result in message.tool_results)
    images = _images(message)
    return {"role": "user", "content": [{"type": "text", "text": results}, *images] if images else results}


def _user_content(message: Message) -> str | Sequence[dict[str, Any]]:
    if not _images(message):
        return message.text
    blocks = (_user_block(part) for part in message.parts)
    return [block for block in blocks if block is not None]


def _user_block(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart() if part.text:
            return {"type": "text", "text": part.text}
        case ImagePart():
            return _image(part)
    return None


def _images(message: Message) -> list[dict[str, Any]]:
    return [_image(part) for part in message.parts if isinstance(part, ImagePart)]


def _image(part: ImagePart) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
