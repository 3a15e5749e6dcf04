"""Folds the events of an Anthropic Messages stream into neutral ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any

import orjson

from app.errors import ProviderError
from app.llm.base import Finish, InputTransformed, StopReason, StreamEvent, UsageReport
from app.llm.wire import ErrorFor, ResponseState, as_dict, check_blocks, count, parse_document
from app.messages import Usage

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_overflow",
}

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each type of error when it is sent as a separate answer."""

MAX_HELD_BYTES = 4 * 1024 * 1024
"""Maximum bytes of signatures and encrypted thinking kept to be sent back; providers send a few kilobytes."""
MAX_TRANSFORMED_BYTES = 16 * 1024
"""Maximum bytes of a provider's report of changes to the input, which is kept with the step."""


@dataclass(slots=True)
class _Block:
    """One content block being received; `number` is the neutral block number, None for a kind that is ignored."""

    number: int | None
    wire: dict[str, Any]
    text: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    replayable: bool = True


class AnthropicStream(ResponseState[str]):
    """The state of one response."""

    def __init__(self, error_for: ErrorFor) -> None:
        super().__init__(error_for)
        self._blocks: dict[Any, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._held = 0
        self._gap = False

    def feed(self, events: list[tuple[bytes, bytes]]) -> list[StreamEvent]:
        """Converts server-sent events. Raises `ProviderError` for an error or an invalid event."""
        for _, data in events:
            if data:
                self._event(parse_document(data), len(data))
        return self._out.take()

    def whole(self, body: bytes) -> list[StreamEvent]:
        """Converts the response of a server that does not stream; raises its error if it sent one with status 200."""
        message = parse_document(body)
        if message.get("type") == "error":
            self._event(message)
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            self._start(index, as_dict(block))
        self._transformed(message)
        self._message_delta({"usage": message.get("usage"), "delta": message})
        return self.end()

    def end(self) -> list[StreamEvent]:
        """The last events. Raises a retryable `ProviderError` if the response ended without a stop reason."""
        reason = self._ended()
        for block in self._blocks.values():
            self._stop(block)
        self._out.add(Finish(_STOP_REASONS.get(reason, "other")))
        return self._out.take()

    def _event(self, event: dict[str, Any], size: int = 0) -> None:
        """Handles an event whose document has `size` bytes."""
        match event.get("type"):
            case "content_block_delta":
                if (block := self._blocks.get(_index(event))) is not None:
                    delta = as_dict(event.get("delta"))
                    self._hold(size if delta.get("type") == "signature_delta" else 0)
                    self._delta(block, delta)
            case "content_block_start":
                self._hold(size)
                self._start(_index(event), as_dict(event.get("content_block")))
            case "content_block_stop":
                if (block := self._blocks.get(_index(event))) is not None:
                    self._stop(block)
            case "message_start":
                message = as_dict(event.get("message"))
                self._count(as_dict(message.get("usage")))
                self._transformed(message)
            case "message_delta":
                self._message_delta(event)
            case "message_stop":
                self.done = True
            case "error":
                status = _STATUSES.get(str(as_dict(event.get("error")).get("type")))
                raise self._error_for(status, orjson.dumps(event).decode())
            case _:
                return

    def _hold(self, size: int) -> None:
        """Counts held bytes other than text, which is counted elsewhere. Raises `ProviderError` over the limit."""
        check_blocks(len(self._blocks))
        self._held += size
        if self._held > MAX_HELD_BYTES:
            raise ProviderError("The answer's thinking is too large.", code="provider_bad_response")

    def _start(self, index: Any, wire: dict[str, Any]) -> None:
        match wire.get("type"):
            case "text" | "thinking" | "redacted_thinking" as kind:
                block = _Block(self._out.begin(), wire)
                if kind == "redacted_thinking":
                    self._out.reasoning(block.number or 0, "")
                elif text := wire.get(kind):
                    self._delta(block, {"type": f"{kind}_delta", kind: text})
            case "tool_use":
                block = _Block(self._out.begin_call(str(wire.get("name") or "")), wire)
            case _:
                block = _Block(None, {})
                # It will not be sent back, so thinking that follows it cannot be verified.
                self._gap = True
        block.replayable = not self._gap
        self._blocks[index] = block

    def _delta(self, block: _Block, delta: dict[str, Any]) -> None:
        if block.number is None:
            return
        match delta.get("type"):
            case "text_delta" if text := delta.get("text"):
                self._out.text(block.number, str(text))
            case "thinking_delta" if text := delta.get("thinking"):
                block.text.append(str(text))
                self._out.reasoning(block.number, str(text))
            case "input_json_delta" if text := delta.get("partial_json"):
                block.text.append(str(text))
                self._out.arguments(block.number, str(text))
            case "signature_delta":
                block.signature.append(str(delta.get("signature") or ""))
            case _:
                return

    def _stop(self, block: _Block) -> None:
        if block.number is None:
            return
        if block.wire.get("type") == "tool_use" and block.wire.get("input") and not block.text:
            block.text.append(arguments := orjson.dumps(block.wire["input"]).decode())
            self._out.arguments(block.number, arguments)
        self._out.end(block.number, _provider_data(block) if block.replayable else None)

    def _transformed(self, document: dict[str, Any]) -> None:
        """Stores the list of changes to the input, from the message or from the end of its stream."""
        entries = document.get("input_transformations")
        if not isinstance(entries, list):
            return
        sizes = accumulate(len(orjson.dumps(entry)) for entry in entries)
        kept = zip(entries, takewhile(lambda size: size <= MAX_TRANSFORMED_BYTES, sizes), strict=False)
        if said := tuple(entry for entry, _ in kept if isinstance(entry, dict)):
            self._out.add(InputTransformed(said))

    def _message_delta(self, event: dict[str, Any]) -> None:
        self._count(as_dict(event.get("usage")))
        self._transformed(event)
        if reason := as_dict(event.get("delta")).get("stop_reason"):
            self._reason = str(reason)

    def _count(self, usage: dict[str, Any]) -> None:
        """Reports usage at once, so that the input of a cancelled response is counted."""
        known = {key: value for key, value in usage.items() if value is not None}
        if known:
            self._usage |= known
            self._out.add(UsageReport(usage_of(self._usage)))


def usage_of(raw: dict[str, Any]) -> Usage:
    """Usage in the neutral shape; here `input_tokens` already excludes cached ones. The number of reasoning tokens in
    the output is in `output_tokens_details`, if at all."""
    output = count(raw.get("output_tokens"))
    return Usage(
        input_tokens=count(raw.get("input_tokens")),
        cache_read_tokens=count(raw.get("cache_read_input_tokens")),
        cache_write_tokens=count(raw.get("cache_creation_input_tokens")),
        output_tokens=output,
        reasoning_tokens=min(output, count(as_dict(raw.get("output_tokens_details")).get("thinking_tokens"))),
        cost_usd=None,
    )


def _provider_data(block: _Block) -> dict[str, Any] | None:
    """The block as it must be sent back: complete and signed, or not at all."""
    match block.wire.get("type"):
        case "redacted_thinking" if isinstance(block.wire.get("data"), str):
            return block.wire
        case "thinking" if signature := "".join([str(block.wire.get("signature") or ""), *block.signature]):
            return {**block.wire, "signature": signature, "thinking": "".join(block.text)}
        case _:
            return None


def _index(event: dict[str, Any]) -> int | str | None:
    """The block that an event belongs to, None for a missing or invalid index."""
    index = event.get("index")
    return index if isinstance(index, int | str) else None
