"""Answers in the Messages format, streamed and whole."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from tests.provider.anthropic.binding import Place, Prefix, judge, reports_drops, transformations
from tests.provider.anthropic.errors import error_document
from tests.provider.dialect import Answering, Frame
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

STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
    "context_overflow": "model_context_window_exceeded",
}
"""Neutral finish reasons in Anthropic's words; others go out as they are."""


def event(data: JSON) -> bytes:
    return b"event: " + str(data["type"]).encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def stream(answering: Answering) -> Iterator[Frame]:
    """The server-sent events of a reply, with its controls in between."""
    writer = BlockWriter(answering)
    for part in answering.reply.parts:
        match part:
            case StreamError():
                yield from writer.opening()
                yield event(error_document(part.type, part.message))
                return
            case EndWithoutFinish():
                return
            case Begin():
                yield from writer.opening()
            case Raw():
                yield from writer.opening()
                yield part.data
            case Text() | Reasoning() | ToolCall() | Interleaved():
                yield from writer.opening()
                yield from writer.write(part)
            case _:
                yield part
    yield from writer.opening()
    yield from writer.closing()


@dataclass(slots=True)
class BlockWriter:
    """Numbers the content blocks, and opens and closes them. Text parts in a row make one block, with controls between
    them or without; so do reasoning parts, whose signature seals them all when the block closes."""

    answering: Answering
    numbers: Iterator[int] = field(default_factory=itertools.count)
    begun: bool = False
    number: int = 0
    kind: str | None = None
    written: str = ""
    standing: Standing = field(init=False)

    def __post_init__(self) -> None:
        self.standing = Standing(self.answering)

    def opening(self) -> Iterator[bytes]:
        if self.begun:
            return
        self.begun = True
        changes = self.standing.report
        message = {**_envelope(self.answering), **self._first_usage(), **changes}
        yield event({"type": "message_start", "message": message})
        yield event({"type": "ping"})

    def _first_usage(self) -> JSON:
        if self.answering.usage_style == "never":
            return {}
        return {"usage": {**usage_of(self.answering), "output_tokens": 1}}

    def write(self, part: Content) -> Iterator[bytes | Control]:
        match part:
            case Text():
                yield from self._switch("text", {"type": "text", "text": ""})
                self.written += part.text
                for piece in pieces(part.text, part.chunks):
                    yield self._delta(self.number, {"type": "text_delta", "text": piece})
            case Reasoning(redacted=True):
                yield from self._close()
                yield from self._redacted(part)
            case Reasoning():
                yield from self._switch("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                self.written += part.text
                for piece in pieces(part.text, part.chunks):
                    yield self._delta(self.number, {"type": "thinking_delta", "thinking": piece})
            case ToolCall():
                yield from self._close()
                yield from self._call(part, next(self.numbers))
            case Interleaved():
                yield from self._close()
                yield from take_turns(self._call(call, next(self.numbers)) for call in part.calls)

    def _switch(self, kind: str, block: JSON) -> Iterator[bytes]:
        if self.kind == kind:
            return
        yield from self._close()
        self.kind, self.number = kind, next(self.numbers)
        yield self._start(self.number, block)

    def _close(self) -> Iterator[bytes]:
        if self.kind == "thinking":
            seal = self.standing.sealed(self.written)
            yield self._delta(self.number, {"type": "signature_delta", "signature": seal})
        elif self.kind == "text":
            self.standing.add({"type": "text", "text": self.written})
        if self.kind is not None:
            yield self._stop(self.number)
        self.kind, self.written = None, ""

    def _redacted(self, part: Reasoning) -> Iterator[bytes]:
        number = next(self.numbers)
        seal = self.standing.sealed(part.text, redacted=True)
        yield self._start(number, {"type": "redacted_thinking", "data": seal})
        yield self._stop(number)

    def _call(self, call: ToolCall, number: int) -> Iterator[bytes | Control]:
        self.standing.add({"type": "tool_use", **_identity(self.answering, call, number), "input": call.arguments_text})
        identity = _identity(self.answering, call, number)
        yield self._start(number, {"type": "tool_use", **identity, "input": {}, **call.extra})
        count = 1 if call.whole else call.chunks
        for at, piece in enumerate(pieces(call.arguments_text, count)):
            yield self._delta(number, {"type": "input_json_delta", "partial_json": piece})
            if at == 0 and call.pause is not None:
                yield call.pause
        yield self._stop(number)

    def closing(self) -> Iterator[bytes]:
        yield from self._close()
        delta = {"stop_reason": stop_reason(self.answering), "stop_sequence": None}
        yield event({"type": "message_delta", "delta": delta, **self._last_usage()})
        yield event({"type": "message_stop"})

    def _last_usage(self) -> JSON:
        """The input fields are null here, as the format allows: they were in `message_start`."""
        if self.answering.usage_style == "never":
            return {}
        usage = dict.fromkeys(("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))
        return {"usage": {**usage, "output_tokens": self.answering.spent.output}}

    def _start(self, number: int, block: JSON) -> bytes:
        return event({"type": "content_block_start", "index": number, "content_block": block})

    def _delta(self, number: int, delta: JSON) -> bytes:
        return event({"type": "content_block_delta", "index": number, "delta": delta})

    def _stop(self, number: int) -> bytes:
        return event({"type": "content_block_stop", "index": number})


class Standing:
    """What an answer's next block stands behind, and what its request had dropped."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._prefix: Prefix | None = None
        dropped: list[Place] = []
        if answering.binds_thinking:
            self._prefix, dropped = judge(answering.body, answering.seals)
        reported = reports_drops(answering.headers)
        self.report: JSON = {"input_transformations": transformations(dropped)} if reported else {}

    def add(self, block: JSON) -> None:
        if self._prefix is not None:
            self._prefix.add("assistant", block)

    def sealed(self, text: str, *, redacted: bool = False) -> str:
        """The seal of a thinking block, which the next one stands behind."""
        answering, prefix = self._answering, self._prefix.digest if self._prefix is not None else None
        model, response = answering.model, message_id(answering)
        seal = answering.seals.issue(model, response, text, redacted=redacted, prefix=prefix)
        thinking = {"type": "thinking", "thinking": text, "signature": seal}
        self.add({"type": "redacted_thinking", "data": seal} if redacted else thinking)
        return seal


def message_id(answering: Answering) -> str:
    return f"msg_{answering.number}"


def _identity(answering: Answering, call: ToolCall, number: int) -> JSON:
    call_id = call.id if call.id is not None else f"toolu_{answering.number}_{number}"
    return {"name": call.name} if call.omit_id else {"id": call_id, "name": call.name}


def _envelope(answering: Answering) -> JSON:
    return {
        "id": message_id(answering),
        "type": "message",
        "role": "assistant",
        "model": answering.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def stop_reason(answering: Answering) -> str:
    reason = answering.reply.finish_reason
    return STOP_REASONS.get(reason, reason)


def usage_of(answering: Answering) -> JSON:
    """Anthropic's usage object: `input_tokens` excludes what the cache fields count."""
    spent = answering.spent
    return {
        "input_tokens": spent.input,
        "cache_creation_input_tokens": spent.cache_write,
        "cache_read_input_tokens": spent.cache_read,
        "output_tokens": spent.output,
    }


def whole(answering: Answering) -> Iterator[Frame]:
    """The controls of the reply in order, then its document."""
    content: list[JSON] = []
    standing = Standing(answering)
    for part in answering.reply.parts:
        if isinstance(part, StreamError):
            yield HttpError(500)
        elif isinstance(part, Control):
            if not isinstance(part, Begin | EndWithoutFinish):
                yield part
        else:
            content.extend(_whole_blocks(answering, standing, part, len(content)))
    ended = {"content": content, "stop_reason": stop_reason(answering)}
    document = {**_envelope(answering), **standing.report, **ended}
    if answering.usage_style != "never":
        document["usage"] = usage_of(answering)
    yield document


def _whole_blocks(answering: Answering, standing: Standing, part: Content, number: int) -> Iterator[JSON]:
    match part:
        case Text():
            standing.add(block := {"type": "text", "text": part.text})
            yield block
        case Reasoning():
            seal = standing.sealed(part.text, redacted=part.redacted)
            thinking = {"type": "thinking", "thinking": part.text, "signature": seal}
            yield {"type": "redacted_thinking", "data": seal} if part.redacted else thinking
        case ToolCall():
            block = {"type": "tool_use", **_identity(answering, part, number), "input": json.loads(part.arguments_text)}
            standing.add(block)
            yield block
        case Interleaved():
            for offset, call in enumerate(part.calls):
                yield from _whole_blocks(answering, standing, call, number + offset)
