"""The adapter for Anthropic's Messages API and its wire format. Each message's blocks are encoded once per context
generation."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from app.errors import AnswerError, ProviderError, Reshape
from app.json_bytes import json_to_keep
from app.llm.adapter import HttpProvider
from app.llm.anthropic_stream import AnthropicStream
from app.llm.base import ModelRequest, StreamEvent, ToolSchema
from app.llm.http import error_message
from app.llm.known_models import wire_effort
from app.llm.quirks import Quirks
from app.llm.text_calls import with_text_calls
from app.llm.windows import entry_of, listed_window
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

ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 8_192
"""The API requires a limit with every request; a model with a lower limit refuses once, and it is learned."""

MAX_IMAGE_CHARS = 5 * 1024 * 1024
"""Characters of an image in base64: "image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes"."""

BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""Lets a request choose what happens to thinking that cannot be verified; see
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks.md"""
_DROP_BLOCK = {"prefix_mismatch_behavior": "drop_block"}
_BOUND = re.compile(r"Invalid `(?:signature|data)` in `(?:redacted_)?thinking` block")
"""A refusal of replayed thinking, whether it is bound to a model, a conversation or an account."""
_WITHOUT_ADAPTIVE = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:[-.][0-5])?(?!\d)(?![-.][6-9](?!\d)))")
"""Models that think within a budget of tokens and do not support adaptive thinking."""
_BUDGETS = {"minimal": 1_024, "low": 1_024, "medium": 4_096, "high": 16_384, "max": 32_768}
"""Tokens of thinking for those models, by effort; the first is the API's minimum."""

_THINKING = b'{"type":"thinking"'
_CACHE = b',"cache_control":{"type":"ephemeral"}}'
_CACHED_TURNS = 2
"""User turns with a cache breakpoint: the last is for the next step, the one before was cached by the previous step.
With system and tools that makes four, the API's maximum."""
_TAIL = 2 * _CACHED_TURNS
"""Newest turns that may still change: those that may hold a breakpoint, with the turns between them."""


class AnthropicProvider(HttpProvider):
    """Anthropic, or a server that speaks its format; `base_url` with or without `/v1`."""

    path = "/messages"
    required = frozenset({"max_tokens"})

    def __init__(self, name: str, base_url: str, api_key: str | None, *, idle_timeout_s: float) -> None:
        headers = {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": api_key} if api_key else {})
        super().__init__(name, _with_version(base_url), headers, api_key, idle_timeout_s=idle_timeout_s)

    def quirks(self) -> Quirks:
        return Quirks("max_tokens", token_names=("max_tokens",))

    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        wanted = {"temperature": request.temperature, "stop_sequences": [s for s in request.stop if s.strip()] or None}
        limit = request.max_output_tokens or DEFAULT_MAX_TOKENS
        sent = quirks.parameters(wanted | thinking_parameters(request, limit, quirks.refused_efforts), limit)
        if sent.get("thinking", _OFF) != _OFF:
            # The API accepts only its default temperature while a model thinks.
            sent.pop("temperature", None)
        return sent

    def headers(self, parameters: Mapping[str, Any]) -> dict[str, str]:
        bound = "block_binding" in parameters.get("thinking", {})
        return {"anthropic-beta": BINDING_BETA} if bound else {}

    def reshape(self, error: AnswerError, quirks: Quirks) -> Reshape | None:
        return "drop_block" if error.meant_status == 400 and _BOUND.search(error_message(error.body)) else None

    def encode(self, request: ModelRequest, parameters: dict[str, Any], quirks: Quirks) -> bytes:
        return encode_body(request, parameters, self.name, form_of(quirks))

    async def window(self, model: str) -> int | None:
        """The window in the model's own document; other servers of this format only offer a list."""
        try:
            entry = await self._client.document(f"/models/{quote(model, safe='')}")
        except ProviderError as error:
            if error.code != "provider_not_found":
                raise
            entry = entry_of(await self._client.document("/models"), model)
        return listed_window(entry) if isinstance(entry, dict) else None

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Streams one response; see `Provider`. Calls that a model writes as text are read."""
        return with_text_calls(super().stream(request), request.tools)

    def open_stream(self) -> AnthropicStream:
        return AnthropicStream(self._client.failure)


_OFF = {"type": "disabled"}


def thinking_parameters(request: ModelRequest, limit: int, refused: Collection[str] = ()) -> dict[str, Any]:
    """How much the model thinks, and what happens to thinking that it cannot verify. `limit` is the maximum length of
    the answer in tokens, including the thinking budget; `refused` are efforts that the model does not accept."""
    has_budget = _WITHOUT_ADAPTIVE.match(request.model.lower().rpartition("/")[2]) is not None
    effort = wire_effort(request.model, request.reasoning_effort, refused if has_budget else {*refused, "minimal"})
    if effort == "none":
        return {"thinking": _OFF}
    if has_budget:
        budget = 0 if _must_not_think(request) else min(_BUDGETS.get(effort or "", 0), limit // 2)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _BUDGETS["minimal"] else {}
    parameters: dict[str, Any] = {}
    if effort is not None or request.drop_block:
        parameters["thinking"] = {"type": "adaptive"} | ({"block_binding": _DROP_BLOCK} if request.drop_block else {})
    if effort is not None:
        parameters["output_config"] = {"effort": effort}
    return parameters


def _must_not_think(request: ModelRequest) -> bool:
    """Whether the request continues after calls whose message does not start with thinking. Those models then refuse to
    think: "Expected `thinking` or `redacted_thinking`, but found `tool_use`"."""
    if len(request.messages) < 2 or request.messages[-1].role is not Role.TOOL:
        return False
    first = request.messages[-2].parts[0]
    return not (isinstance(first, ReasoningPart) and first.provider_data)


def _with_version(base_url: str) -> str:
    base = base_url.rstrip("/")
    return base if base.endswith("/v1") else base + "/v1"


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


@dataclass(frozen=True, slots=True)
class WireForm:
    """The form of assistant messages that a server requires; see `Quirks`. Without `thinking`, unsigned thinking is
    left out; a server that `asked` for it gets it with all calls. Without `opaque`, fields of calls that only their
    provider understands are left out."""

    thinking: bool = True
    asked: bool = False
    opaque: bool = True


PLAIN = WireForm()


def form_of(quirks: Quirks) -> WireForm:
    """The form required by these quirks."""
    return WireForm(quirks.echoes_reasoning is not False, quirks.echoes_reasoning is True, quirks.sends_opaque)


def encode_body(request: ModelRequest, parameters: dict[str, Any], provider: str, form: WireForm = PLAIN) -> bytes:
    """The request's JSON; `parameters` are those that this model accepts. `provider` is its configured name, which
    identifies reasoning written by this model."""
    body = orjson.dumps({"model": request.model, "stream": True, **parameters})[:-1]
    if request.system.strip():
        body += b',"system":[%s]' % _cached(orjson.dumps({"type": "text", "text": request.system}))
    if request.tools:
        tools = [orjson.dumps(_tool(tool)) for tool in request.tools]
        body += b',"tools":[%s]' % b",".join([*tools[:-1], _cached(tools[-1])])
    return body + b',"messages":[%s]}' % _messages(request, provider, form)


def to_anthropic(message: Message, *, own_reasoning: bool, form: WireForm = PLAIN) -> tuple[bytes, ...]:
    """One message's content blocks, encoded. `own_reasoning` means that the request goes to the model that wrote the
    message: its reasoning is sent back unchanged; that of other models is left out. Blank text is left out, since the
    API refuses it."""
    if message.role is not Role.TOOL:
        blocks = tuple(block for part in message.parts for block in _block(part, own_reasoning, form))
        lacks = form.asked and message.tool_calls and not blocks[0].startswith(_THINKING)
        return (b'%s,"thinking":""}' % _THINKING, *blocks) if lacks else blocks
    images = {result.call_id: _images_of(message, result) for result in message.tool_results}
    results = [json_to_keep(_result(result, images[result.call_id])) for result in message.tool_results]
    inside = {part.id for found in images.values() for part in found}
    others = (p for p in message.parts if not isinstance(p, ToolResultPart) and p.id not in inside)
    return (*results, *(block for part in others for block in _block(part, own_reasoning, form)))


def _images_of(message: Message, result: ToolResultPart) -> list[ImagePart]:
    """The images of a result, which go inside it; an error may have only text."""
    if result.status is not ToolStatus.COMPLETED:
        return []
    return [part for part in message.parts if isinstance(part, ImagePart) and part.of_call == result.call_id]


def _messages(request: ModelRequest, provider: str, form: WireForm) -> bytes:
    cache, prefix = request.wire_cache, _cache_prefix(request)
    front = settled_front(cache, prefix, request.messages)
    start = front.count
    turns = _turns(request, start, provider, form)
    if settling := turns[:-_TAIL]:
        front = front.extended(settling[-1].end, settling[-1].last.id, [turn.encode() for turn in settling])
        cache[prefix] = front
        forget(cache, prefix, request.messages[start : front.count])
    tail = turns[-_TAIL:]
    users = [turn for turn in tail if turn.role == b"user"][-_CACHED_TURNS:]
    return joined([front.data, *(turn.encode(cached=turn in users) for turn in tail)])


def _turns(request: ModelRequest, start: int, provider: str, form: WireForm) -> list[_Turn]:
    own = (request.model, f"{provider}/{request.model}")
    prefix = _cache_prefix(request)
    turns: list[_Turn] = []
    for end, message in enumerate(request.messages[start:], start + 1):
        blocks = _encoded(message, request.wire_cache, prefix, message.model in own, form)
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
    message: Message, cache: MutableMapping[str, Any], prefix: str, own_reasoning: bool, form: WireForm
) -> tuple[bytes, ...]:
    key = prefix + message.id
    blocks: tuple[bytes, ...] | None = cache.get(key)
    if blocks is None:
        blocks = cache[key] = to_anthropic(message, own_reasoning=own_reasoning, form=form)
    return blocks


def _block(part: Part, own_reasoning: bool, form: WireForm) -> Iterator[bytes]:
    match part:
        case TextPart() if part.text.strip():
            yield json_to_keep({"type": "text", "text": part.text})
        case ReasoningPart(provider_data={"type": "thinking" | "redacted_thinking"}) if (
            own_reasoning and not part.interrupted and (form.thinking or _is_signed(part))
        ):
            yield json_to_keep(part.provider_data)
        case ToolCallPart():
            own = (part.provider_data or {}).get("call", {}) if form.opaque else {}
            head = orjson.dumps({**own, "type": "tool_use", "id": part.call_id, "name": wire_name(part.name)})[:-1]
            yield head + b',"input":' + wire_arguments(part.arguments_text).strip().encode() + b"}"
        case ToolResultPart():
            yield json_to_keep(_result(part, ()))
        case ImagePart():
            yield json_to_keep(_image(part))
        case _:
            return


def _is_signed(part: ReasoningPart) -> bool:
    return not {"signature", "data"}.isdisjoint(part.provider_data or {})


def _image(part: ImagePart) -> dict[str, Any]:
    data = part.data or ""
    if len(data) > MAX_IMAGE_CHARS:
        return {"type": "text", "text": f"[An image of {len(data) * 3 // 4:,} bytes, which this model does not accept]"}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}


def _result(part: ToolResultPart, images: Sequence[ImagePart]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": part.call_id}
    if images:
        text = [{"type": "text", "text": part.output}] if part.output.strip() else []
        block["content"] = [*text, *map(_image, images)]
    elif part.output.strip():
        block["content"] = part.output
    if part.status is not ToolStatus.COMPLETED:
        block["is_error"] = True
    return block


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _cached(block: bytes) -> bytes:
    return block[:-1] + _CACHE
