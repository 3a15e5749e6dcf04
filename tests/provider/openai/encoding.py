"""Answers in the Chat Completions format, streamed and whole."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import orjson

from tests.provider.dialect import Answering, Frame
from tests.provider.openai.insistence import remember
from tests.provider.records import JSON
from tests.provider.script import (
    Begin,
    Content,
    Control,
    EndWithoutFinish,
    HttpError,
    Interleaved,
    Raw,
    Reasoning,
    StreamError,
    Text,
    ToolCall,
    pieces,
)
from tests.provider.turns import take_turns


def sse(data: JSON) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


def stream(answering: Answering) -> Iterator[Frame]:
    """The server-sent events of a reply, with its controls in between."""
    remember(answering.seals, answering.model, answering.reply)
    begun = False
    for item in _deltas(answering):
        if isinstance(item, Control) and not isinstance(item, Begin | StreamError):
            yield item
            if isinstance(item, EndWithoutFinish):
                return
            continue
        if not begun:
            begun = True
            yield _chunk(answering, {"role": "assistant", "content": ""})
        if isinstance(item, StreamError):
            yield sse({"error": {"message": item.message, "type": item.type, "param": None, "code": item.code}})
            return
        if not isinstance(item, Begin):
            yield item if isinstance(item, bytes) else _chunk(answering, item)
    if not begun:
        yield _chunk(answering, {"role": "assistant", "content": ""})
    yield from _closing(answering)


def _closing(answering: Answering) -> Iterator[bytes]:
    yield _chunk(answering, {}, finish=answering.reply.finish_reason, usage=answering.usage_style == "choice")
    if _reports_last(answering):
        yield sse({**_envelope(answering, "chat.completion.chunk"), "choices": [], "usage": usage_of(answering)})
    yield b"data: [DONE]\n\n"


def _reports_last(answering: Answering) -> bool:
    """Whether the stream ends with a chunk of usage, which must be requested."""
    asked = (answering.body.get("stream_options") or {}).get("include_usage")
    return bool(asked) and answering.usage_style == "last_chunk"


def _envelope(answering: Answering, kind: str) -> JSON:
    return {
        "id": f"chatcmpl-{answering.number}",
        "object": kind,
        "created": int(time.time()),
        "model": answering.model,
        "system_fingerprint": "fp_fake",
    }


def _chunk(answering: Answering, delta: JSON, *, finish: str | None = None, usage: bool = False) -> bytes:
    choice: JSON = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    if usage:
        choice["usage"] = usage_of(answering)
    announced: JSON = {"usage": None} if _reports_last(answering) else {}
    return sse({**_envelope(answering, "chat.completion.chunk"), "choices": [choice], **announced})


def usage_of(answering: Answering) -> JSON:
    """OpenAI's usage object: `prompt_tokens` includes the cached ones."""
    spent = answering.spent
    return {
        "prompt_tokens": spent.prompt,
        "completion_tokens": spent.output,
        "total_tokens": spent.prompt + spent.output,
        "prompt_tokens_details": {"cached_tokens": spent.cache_read},
        "completion_tokens_details": {"reasoning_tokens": spent.reasoning},
    }


def _deltas(answering: Answering) -> Iterator[JSON | bytes | Control]:
    """The deltas of the reply's parts, raw bytes, and its controls."""
    index = itertools.count()
    for part in answering.reply.parts:
        if isinstance(part, Control):
            yield part
        else:
            yield from _content_deltas(answering, part, index)


def _content_deltas(answering: Answering, part: Content, index: Iterator[int]) -> Iterator[JSON | bytes | Control]:
    match part:
        case Text():
            yield from ({"content": piece} for piece in pieces(part.text, part.chunks))
        case Reasoning():
            yield from ({str(part.name): piece} for piece in pieces(part.text, part.chunks))
        case ToolCall():
            yield from _call_deltas(answering, part, next(index))
        case Interleaved():
            yield from take_turns(_call_deltas(answering, call, next(index)) for call in part.calls)
        case Raw():
            yield part.data


def call_id(answering: Answering, call: ToolCall, index: int) -> str:
    return call.id if call.id is not None else f"call_{answering.number}_{index}"


def _call_deltas(answering: Answering, call: ToolCall, index: int) -> Iterator[JSON | Control]:
    identity: JSON = {} if call.omit_id else {"id": call_id(answering, call, index)}
    first = call.arguments_text if call.whole else ""
    function = {"name": call.name, "arguments": first}
    head = {"index": index, **identity, "type": "function", "function": function, **call.extra}
    yield {"tool_calls": [head]}
    if call.whole:
        return
    for at, piece in enumerate(pieces(call.arguments_text, call.chunks)):
        delta: JSON = {"index": index, **(identity if call.repeat_id else {}), "function": {"arguments": piece}}
        yield {"tool_calls": [delta]}
        if at == 0 and call.pause is not None:
            yield call.pause


def whole(answering: Answering) -> Iterator[Frame]:
    """The controls of the reply in order, then its document."""
    remember(answering.seals, answering.model, answering.reply)
    for part in answering.reply.parts:
        if isinstance(part, StreamError):
            yield HttpError(500)
        elif isinstance(part, Control) and not isinstance(part, Begin | EndWithoutFinish):
            yield part
    choice = {"index": 0, "message": _message(answering), "finish_reason": answering.reply.finish_reason}
    document: JSON = {**_envelope(answering, "chat.completion"), "choices": [choice]}
    if answering.usage_style == "choice":
        choice["usage"] = usage_of(answering)
    elif answering.usage_style == "last_chunk":
        document["usage"] = usage_of(answering)
    yield document


def _message(answering: Answering) -> JSON:
    reply = answering.reply
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {
                **({} if call.omit_id else {"id": call_id(answering, call, at)}),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_text},
            }
            for at, call in enumerate(reply.calls)
        ]
    return message
