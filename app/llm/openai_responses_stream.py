"""Folds the events of a Responses stream into neutral ones."""

from __future__ import annotations

from typing import Any

import orjson

from app.errors import ProviderError
from app.llm.base import StopReason, UsageReport
from app.llm.openai_responses_items import Item, Items
from app.llm.openai_stream import MAX_NAME_CHARS, usage_of
from app.llm.wire import ErrorFor, ResponseStream
from app.messages import Usage

_INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}

_STATUSES = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "slow_down": 503,
    "server_error": 500,
    "server_is_overloaded": 503,
    "vector_store_timeout": 504,
    "invalid_prompt": 400,
    "invalid_encrypted_content": 400,
    "data_residency_mismatch": 400,
    "bio_policy": 400,
    "cyber_policy": 400,
    "misalignment_policy_violation": 400,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "rate_limit_error": 429,
}
"""The HTTP status of each code or type of error when it is sent as a separate answer. Unknown and missing codes count
as server errors, which may be transient."""

MAX_HELD_BYTES = 16 * 1024 * 1024
"""Maximum bytes of items with encrypted reasoning kept to be sent back; the provider sends a few kilobytes."""
MAX_SEALED_BYTES = 4 * 1024 * 1024
"""Maximum bytes of encrypted reasoning stored in the history from one answer; providers send a few kilobytes."""
MAX_PHASE_CHARS = 64


class ResponsesStream(ResponseStream[StopReason]):
    """The state of one response."""

    def __init__(self, error_for: ErrorFor) -> None:
        super().__init__(error_for)
        self._items = Items()
        self._usage: Usage | None = None
        self._refused = False
        self._held = 0
        self._sealed = 0

    def _document(self, response: dict[str, Any]) -> None:
        if response.get("status") is None and response.get("error"):
            raise self._error(response)
        self._response(response)

    def _end(self, reason: StopReason) -> StopReason:
        for item in self._items:
            self._close(item)
        if self._usage is not None:
            self._out.add(UsageReport(self._usage))
        return reason

    def _event(self, name: str, event: dict[str, Any], size: int) -> None:
        kind = event.get("type") if isinstance(event.get("type"), str) else name
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._refused = self._refused or kind == "response.refusal.delta"
                self._write(self._items.of_delta(event, "message"), _text(event.get("delta")))
            case "response.reasoning_summary_text.delta":
                self._add_reasoning(event, ("summary", _number(event.get("summary_index"))))
            case "response.reasoning_text.delta":
                self._add_reasoning(event, ("content", _number(event.get("content_index"))))
            case "response.function_call_arguments.delta":
                self._write(self._items.of_delta(event, "function_call"), _text(event.get("delta")))
            case "response.function_call_arguments.done":
                self._write_whole(self._items.of_delta(event, "function_call"), _text(event.get("arguments")))
            case "response.output_item.added":
                self._announce(event, _dict(event.get("item")))
            case "response.output_item.done":
                self._hold(size)
                data = _dict(event.get("item"))
                self._complete(self._items.of_end(event, data), data)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._hold(size)
                self._response({"status": kind.rpartition(".")[2], **_dict(event.get("response"))})
            case "error":
                raise self._error(event)
            case _ if event.get("error"):
                raise self._error(event)

    def _response(self, response: dict[str, Any]) -> None:
        """Handles a finished response, whose items may contain what the stream left out."""
        if isinstance(usage := response.get("usage"), dict):
            self._usage = responses_usage(usage)
        status = response.get("status")
        if status == "failed" or response.get("error"):
            raise self._error(response)
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else ()):
            data = _dict(item)
            self._complete(self._items.of_response(index, data), data)
        if status == "completed":
            self._reason = self._completed()
        elif status == "incomplete":
            reason = _dict(response.get("incomplete_details")).get("reason")
            self._reason = _INCOMPLETE.get(str(reason), "other")
        self.done = self._reason is not None

    def _completed(self) -> StopReason:
        if any(item.kind == "function_call" for item in self._items):
            return "tool_calls"
        return "refusal" if self._refused else "stop"

    def _announce(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        item = self._items.announced(event, data)
        self._describe(item, data)
        if item.kind == "function_call" and item.name:
            self._open(item)

    def _describe(self, item: Item, data: dict[str, Any]) -> None:
        if item.block is None and isinstance(name := data.get("name"), str):
            item.name = name[:MAX_NAME_CHARS]
        if isinstance(phase := data.get("phase"), str):
            item.phase = phase[:MAX_PHASE_CHARS]

    def _open(self, item: Item) -> int:
        if item.block is None:
            item.block = self._out.begin_call(item.name) if item.kind == "function_call" else self._out.begin()
        return item.block

    def _write(self, item: Item | None, text: str) -> None:
        if item is None or item.kind is None or not text:
            return
        block = self._open(item)
        item.is_written = True
        match item.kind:
            case "message":
                self._out.text(block, text)
            case "reasoning":
                self._out.reasoning(block, text)
            case "function_call":
                self._out.arguments(block, text)

    def _write_whole(self, item: Item | None, text: str) -> None:
        """Adds text that a server sent only at the end."""
        if item is not None and not item.is_written:
            self._write(item, text)

    def _add_reasoning(self, event: dict[str, Any], part: tuple[str, int]) -> None:
        """Adds to an item's reasoning; parts of a summary become paragraphs."""
        item, text = self._items.of_delta(event, "reasoning"), _text(event.get("delta"))
        if item is None or not text:
            return
        if item.is_written and item.part != part:
            text = "\n\n" + text
        item.part = part
        self._write(item, text)

    def _complete(self, item: Item, data: dict[str, Any]) -> None:
        """Completes an item with the server's final version of it."""
        if item.data is not None or item.kind != data.get("type"):
            return
        self._describe(item, data)
        self._refused = self._refused or any(_dict(part).get("type") == "refusal" for part in _list(data, "content"))
        self._write_whole(item, _text_of(data))
        if item.kind == "function_call":
            self._open(item)
        if item.kind != "reasoning" or data.get("encrypted_content"):
            # Otherwise the item stays open: some servers send this only at the end of the response.
            item.data = data
            self._close(item)

    def _close(self, item: Item) -> None:
        held = _reasoning(item.data) if item.kind == "reasoning" else None
        self._sealed += len(orjson.dumps(held)) if held is not None else 0
        if self._sealed > MAX_SEALED_BYTES:
            raise ProviderError("The answer's reasoning is too large.", code="provider_bad_response")
        if held is not None and item.block is None:
            self._out.reasoning(self._open(item), "")
        if item.block is None:
            return
        phase = {"phase": item.phase} if item.kind == "message" and item.phase is not None else None
        self._out.end(item.block, held or phase)

    def _hold(self, size: int) -> None:
        """Counts held bytes other than text, which is counted elsewhere. Raises `ProviderError` over the limit."""
        self._held += size
        if self._held > MAX_HELD_BYTES:
            raise ProviderError("The answer's items are too large.", code="provider_bad_response")

    def _error(self, document: dict[str, Any]) -> ProviderError:
        inner = _dict(document.get("error")) or document
        named = (inner.get("code"), inner.get("type"))
        status = next((_STATUSES[name] for name in named if isinstance(name, str) and name in _STATUSES), None)
        return self._error_for(status, orjson.dumps({"error": inner}).decode())


def responses_usage(raw: dict[str, Any]) -> Usage:
    """Usage in the neutral shape: the same as in Chat Completions, under other names."""
    return usage_of(
        {
            **raw,
            "prompt_tokens": raw.get("input_tokens"),
            "prompt_tokens_details": raw.get("input_tokens_details"),
            "completion_tokens": raw.get("output_tokens"),
            "completion_tokens_details": raw.get("output_tokens_details"),
        }
    )


def _reasoning(data: dict[str, Any] | None) -> dict[str, Any] | None:
    """The item as it must be sent back: complete and encrypted, or not at all."""
    return data if data is not None and isinstance(data.get("encrypted_content"), str) else None


def _text_of(data: dict[str, Any]) -> str:
    """All text of a complete item."""
    if data.get("type") == "function_call":
        return _text(data.get("arguments"))
    parts = [_dict(part) for part in _list(data, "content")]
    if data.get("type") != "reasoning":
        return "".join(_text(part.get("text") or part.get("refusal")) for part in parts)
    summary = [_dict(part) for part in _list(data, "summary")]
    return "\n\n".join(filter(None, (_text(part.get("text")) for part in (*summary, *parts))))


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Any) -> str:
    """Text as it is; some servers send arguments as the object itself."""
    if isinstance(value, dict):
        return orjson.dumps(value).decode()
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    return value if isinstance(value, list) else []
