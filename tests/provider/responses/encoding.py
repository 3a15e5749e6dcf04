"""Answers in the Responses format, streamed and whole."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from tests.provider.dialect import Answering, Frame
from tests.provider.records import JSON
from tests.provider.responses.rules import ENCRYPTED
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

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Neutral finish reasons in the words of a response that is incomplete."""
OVERFLOW = StreamError(
    "invalid_request_error",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "context_length_exceeded",
)


def stream(answering: Answering) -> Iterator[Frame]:
    """The server-sent events of a reply, with its controls in between."""
    yield from Writer(answering).frames()


def whole(answering: Answering) -> Iterator[Frame]:
    """The controls of the reply in order, then its document."""
    writer = Writer(answering)
    for part in answering.reply.parts:
        if isinstance(part, StreamError):
            yield HttpError(500)
        elif isinstance(part, Control) and not isinstance(part, Begin | EndWithoutFinish):
            yield part
    for _ in writer.frames():
        pass
    yield writer.response(writer.status)


@dataclass(slots=True)
class Writer:
    """Writes the events of one response. Text parts in a row make one message, with controls between them or without;
    so do reasoning parts, each blank line of which begins another summary part."""

    answering: Answering
    numbers: Iterator[int] = field(default_factory=itertools.count)
    places: Iterator[int] = field(default_factory=itertools.count)
    output: dict[int, JSON] = field(default_factory=dict)
    begun: bool = False
    open_at: int | None = None
    is_open: bool = False

    @property
    def status(self) -> str:
        return "incomplete" if self.answering.reply.finish_reason in INCOMPLETE else "completed"

    def frames(self) -> Iterator[bytes | Control]:
        for part in self.answering.reply.parts:
            match part:
                case StreamError():
                    yield from self._opening()
                    yield self._failure(part)
                    return
                case EndWithoutFinish():
                    yield part
                    return
                case Begin():
                    yield from self._opening()
                case Raw():
                    yield from self._opening()
                    yield part.data
                case Text() | Reasoning() | ToolCall() | Interleaved():
                    yield from self._opening()
                    yield from self._write(part)
                case _:
                    yield part
        yield from self._opening()
        yield from self._close()
        if self.answering.reply.finish_reason == "context_overflow":
            yield self._failure(OVERFLOW)
        else:
            yield self._event(f"response.{self.status}", response=self.response(self.status))

    def response(self, status: str, error: JSON | None = None) -> JSON:
        """The response as it is by now."""
        answering, body = self.answering, self.answering.body
        ended = status in ("completed", "incomplete")
        reason = INCOMPLETE.get(answering.reply.finish_reason)
        return {
            "id": f"resp_{answering.number}",
            "object": "response",
            "created_at": int(time.time()),
            "status": status,
            "error": error,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "metadata": {},
            "model": answering.model,
            "output": [self.output[place] for place in sorted(self.output)],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "prompt_cache_key": body.get("prompt_cache_key"),
            "reasoning": {"effort": (body.get("reasoning") or {}).get("effort"), "summary": None},
            "store": bool(body.get("store", True)),
            "temperature": body.get("temperature", 1.0),
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": body.get("tools", []),
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": usage_of(answering) if ended and answering.usage_style != "never" else None,
            "user": None,
        }

    def _event(self, kind: str, **fields: object) -> bytes:
        data = {"type": kind, "sequence_number": next(self.numbers), **fields}
        return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"

    def _opening(self) -> Iterator[bytes]:
        if not self.begun:
            self.begun = True
            yield self._event("response.created", response=self.response("in_progress"))
            yield self._event("response.in_progress", response=self.response("in_progress"))

    def _failure(self, error: StreamError) -> bytes:
        """With a code it is the response that has failed, without one the connection reports it."""
        if error.code is None:
            return self._event("error", code=error.type, message=error.message, param=None)
        document = {"code": error.code, "message": error.message}
        return self._event("response.failed", response=self.response("failed", document))

    def _write(self, part: Content) -> Iterator[bytes | Control]:
        match part:
            case Text():
                yield from self._text(part)
            case Reasoning():
                yield from self._reasoning(part)
            case ToolCall():
                yield from self._close()
                yield from self._call(part, next(self.places))
            case Interleaved():
                yield from self._close()
                yield from take_turns(self._call(call, next(self.places)) for call in part.calls)

    def _add(self, place: int, item: JSON) -> bytes:
        """The item is written down as it is at the end of the stream."""
        self.output[place] = item
        shown = {**item, "status": "in_progress"} if "status" in item else item
        for name in ("content", "summary"):
            if name in item:
                shown = {**shown, name: []}
        return self._event("response.output_item.added", output_index=place, item=shown)

    def _switch(self, item: JSON) -> Iterator[bytes]:
        """Continues the open item where this is one of its kind, else opens another."""
        open_item = self.output[self.open_at] if self.is_open and self.open_at is not None else {}
        if (open_item.get("type"), open_item.get("phase")) == (item["type"], item.get("phase")):
            return
        yield from self._close()
        self.open_at, self.is_open = next(self.places), True
        yield self._add(self.open_at, {"id": f"{item.pop('mark')}_{self.answering.number}_{self.open_at}", **item})

    def _close(self) -> Iterator[bytes]:
        if not self.is_open or self.open_at is None:
            return
        self.is_open = False
        item = self.output[self.open_at]
        if item["type"] == "message":
            yield from self._close_message(item)
        else:
            yield from self._close_reasoning(item)
        yield self._event("response.output_item.done", output_index=self.open_at, item=item)

    def _text(self, part: Text) -> Iterator[bytes]:
        phase = {} if part.phase is None else {"phase": part.phase}
        message = {"mark": "msg", "type": "message", "status": "completed", "role": "assistant", "content": [], **phase}
        yield from self._switch(message)
        assert self.open_at is not None
        item = self.output[self.open_at]
        kind, name = self._prose()
        where = {"item_id": item["id"], "output_index": self.open_at, "content_index": 0}
        if not item["content"]:
            item["content"].append(_content(kind, name, ""))
            yield self._event("response.content_part.added", **where, part=_content(kind, name, ""))
        for piece in pieces(part.text, part.chunks):
            item["content"][0][name] += piece
            logprobs: JSON = {"logprobs": []} if kind == "output_text" else {}
            yield self._event(f"response.{kind}.delta", **where, delta=piece, **logprobs)

    def _prose(self) -> tuple[str, str]:
        """The kind of content that the text is, and the name of its field."""
        refused = self.answering.reply.finish_reason == "refusal"
        return ("refusal", "refusal") if refused else ("output_text", "text")

    def _close_message(self, item: JSON) -> Iterator[bytes]:
        kind, name = self._prose()
        (part,) = item["content"]
        where = {"item_id": item["id"], "output_index": self.open_at, "content_index": 0}
        logprobs: JSON = {"logprobs": []} if kind == "output_text" else {}
        yield self._event(f"response.{kind}.done", **where, **{name: part[name]}, **logprobs)
        yield self._event("response.content_part.done", **where, part=part)

    def _reasoning(self, part: Reasoning) -> Iterator[bytes]:
        yield from self._switch({"mark": "rs", "type": "reasoning", "summary": []})
        assert self.open_at is not None
        item = self.output[self.open_at]
        for paragraph in [] if part.redacted else part.text.split("\n\n"):
            index = len(item["summary"])
            where = {"item_id": item["id"], "output_index": self.open_at, "summary_index": index}
            shown = {"type": "summary_text", "text": paragraph}
            item["summary"].append(shown)
            yield self._event("response.reasoning_summary_part.added", **where, part={**shown, "text": ""})
            for piece in pieces(paragraph, part.chunks):
                yield self._event("response.reasoning_summary_text.delta", **where, delta=piece)
            yield self._event("response.reasoning_summary_text.done", **where, text=paragraph)
            yield self._event("response.reasoning_summary_part.done", **where, part=shown)

    def _close_reasoning(self, item: JSON) -> Iterator[bytes]:
        if ENCRYPTED in (self.answering.body.get("include") or []):
            said = "\n\n".join(part["text"] for part in item["summary"])
            item["encrypted_content"] = self.answering.seals.issue(self.answering.model, item["id"], said)
        yield from ()

    def _call(self, call: ToolCall, place: int) -> Iterator[bytes | Control]:
        number = self.answering.number
        item: JSON = {
            "id": f"fc_{number}_{place}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id if call.id is not None else f"call_{number}_{place}",
            "name": call.name,
            "arguments": call.arguments_text,
            **call.extra,
        }
        where = {"item_id": item["id"], "output_index": place}
        yield self._add(place, {**item, "arguments": ""})
        self.output[place] = item
        for at, piece in enumerate([] if call.whole else pieces(call.arguments_text, call.chunks)):
            yield self._event("response.function_call_arguments.delta", **where, delta=piece)
            if at == 0 and call.pause is not None:
                yield call.pause
        named = {"name": call.name, "arguments": call.arguments_text}
        yield self._event("response.function_call_arguments.done", **where, **named)
        yield self._event("response.output_item.done", output_index=place, item=item)


def _content(kind: str, name: str, text: str) -> JSON:
    extra: JSON = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    return {"type": kind, name: text, **extra}


def usage_of(answering: Answering) -> JSON:
    """The usage object of this format: `input_tokens` includes what was read from the cache and written to it."""
    spent = answering.spent
    return {
        "input_tokens": spent.prompt,
        "input_tokens_details": {"cached_tokens": spent.cache_read, "cache_write_tokens": spent.cache_write},
        "output_tokens": spent.output,
        "output_tokens_details": {"reasoning_tokens": spent.reasoning},
        "total_tokens": spent.prompt + spent.output,
    }
