"""Folds the events of a Responses stream into neutral ones."""

from __future__ import annotations

from typing import Any

import orjson

from app.errors import ProviderError
from app.llm.base import StopReason, UsageReport
from app.llm.endings import end_word
from app.llm.openai_calls import MAX_NAME_CHARS
from app.llm.openai_responses_items import Item, Items, Kind
from app.llm.snapshots import arguments_text
from app.llm.stream_errors import bare_error_in, error_in
from app.llm.token_usage import merged_usage, responses_usage
from app.llm.wire import ErrorFor, ResponseStream

_ENDS = ("completed", "incomplete", "failed", "cancelled", "done")
"""What the last event of a response is named after; `done` has the response's own status."""
_KNOWN_OF_CALL = frozenset({"type", "id", "call_id", "name", "arguments", "status"})

MAX_HELD_BYTES = 16 * 1024 * 1024
"""Maximum bytes of items with encrypted reasoning kept to be sent back; the provider sends a few kilobytes."""
MAX_SEALED_BYTES = 4 * 1024 * 1024
"""Maximum bytes of encrypted reasoning stored in the history from one answer; providers send a few kilobytes."""
MAX_PHASE_CHARS = 64


class ResponsesStream(ResponseStream):
    """The state of one response."""

    def __init__(self, error_for: ErrorFor) -> None:
        super().__init__(error_for)
        self._items = Items()
        self._usage: dict[str, Any] | None = None
        self._refused = False
        self._held = 0
        self._sealed = 0

    def _document(self, response: dict[str, Any]) -> None:
        status = response.get("status")
        if status is None and response.get("output") is None and (bare := bare_error_in(response)) is not None:
            raise self._failure(bare)
        if status is None or status in _ENDS:
            self._response(response, "completed")

    def _close(self, reason: StopReason) -> StopReason:
        for item in self._items:
            if item.data is None:
                self._close_item(item)
        if self._usage is not None:
            self._out.add(UsageReport(responses_usage(self._usage)))
        if reason == "stop" and any(item.kind == "function_call" for item in self._items):
            return "tool_calls"
        return "refusal" if reason == "stop" and self._refused else reason

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
                self._write(self._items.of_delta(event, "function_call"), arguments_text(event.get("delta")))
            case "response.output_text.done":
                self._complete_text(self._items.of_delta(event, "message"), _text(event.get("text")))
            case "response.function_call_arguments.done":
                self._complete_text(
                    self._items.of_delta(event, "function_call"), arguments_text(event.get("arguments"))
                )
            case "response.output_item.added":
                self._announce(event, _dict(event.get("item")))
            case "response.output_item.done":
                self._hold(size)
                data = _dict(event.get("item"))
                self._complete(self._items.of_end(event, data), data)
            case str() if (status := kind.removeprefix("response.")) in _ENDS:
                self._hold(size)
                self._response(_dict(event.get("response")), status)
            case _ if (error := error_in(event)) is not None:
                raise self._failure(error)
            case "error":
                raise self._failure(event)

    def _response(self, response: dict[str, Any], status: str) -> None:
        """Handles a finished response, whose items may contain what the stream left out. `status` is what the event
        says of it; the response's own status goes before."""
        if isinstance(usage := response.get("usage"), dict):
            self._usage = merged_usage(self._usage or {}, usage)
        if self.done:
            # Sent twice: its items would be, too.
            return
        if (own := response.get("status")) in _ENDS:
            status = str(own)
        error = error_in(response)
        if status == "failed" or error is not None:
            raise self._failure(response if error is None else error)
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else ()):
            data = _dict(item)
            self._complete(self._items.of_response(index, data), data)
        self._end_with(status, _dict(response.get("incomplete_details")))
        self.done = True

    def _end_with(self, status: str, details: dict[str, Any]) -> None:
        """Takes the status of a finished response, and why it is incomplete."""
        reason = end_word(details.get("reason")) if status == "incomplete" else None
        if reason is not None:
            self._ended(reason, details)
        elif status == "incomplete":
            self._word, self._reason = status, "other"
        else:
            self._ended("completed" if status == "done" else status, details)

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
            self._has_content = True
            item.block = self._out.begin_call(item.name) if item.kind == "function_call" else self._out.begin()
        return item.block

    def _write(self, item: Item | None, text: str) -> None:
        if item is not None and item.kind is not None and text:
            self._show(item, item.add(text))

    def _show(self, item: Item, text: str) -> None:
        if item.kind == "function_call" and not (item.name or item.is_done):
            # The name may come with the complete item.
            item.unshown.append(text)
            return
        if item.unshown:
            text = "".join([*item.unshown, text])
            item.unshown.clear()
        if text:
            self._put(item.kind, self._open(item), text)

    def _put(self, kind: Kind | None, block: int, text: str) -> None:
        match kind:
            case "message":
                self._out.text(block, text)
            case "reasoning":
                self._out.reasoning(block, text)
            case "function_call":
                self._out.arguments(block, text)

    def _complete_text(self, item: Item | None, text: str) -> None:
        """Adds what a server sent only at the end."""
        if item is not None and item.kind is not None and text:
            self._show(item, item.complete(text))

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
        self._complete_text(item, _text_of(data))
        if item.kind != "reasoning" or data.get("encrypted_content"):
            # Otherwise the item stays open: some servers send this only at the end of the response.
            item.data = data
            self._close_item(item)

    def _close_item(self, item: Item) -> None:
        item.is_done = True
        self._show(item, item.end())
        if item.kind == "function_call":
            self._open(item)
        held = _reasoning(item.data) if item.kind == "reasoning" else None
        self._sealed += len(orjson.dumps(held)) if held is not None else 0
        if self._sealed > MAX_SEALED_BYTES:
            raise ProviderError("The answer's reasoning is too large.", code="provider_bad_response")
        if held is not None and item.block is None:
            self._out.reasoning(self._open(item), "")
        if item.block is None:
            return
        if item.kind == "function_call":
            held = _unknown_of_call(item.data or {})
        elif item.kind == "message" and item.phase is not None:
            held = {"phase": item.phase}
        self._out.end(item.block, held)

    def _hold(self, size: int) -> None:
        """Counts held bytes other than text, which is counted elsewhere. Raises `ProviderError` over the limit."""
        self._held += size
        if self._held > MAX_HELD_BYTES:
            raise ProviderError("The answer's items are too large.", code="provider_bad_response")


def _unknown_of_call(data: dict[str, Any]) -> dict[str, Any] | None:
    """What the server sent with a call that only the server understands."""
    unknown = {name: value for name, value in data.items() if name not in _KNOWN_OF_CALL and value is not None}
    return {"call": unknown} if unknown else None


def _reasoning(data: dict[str, Any] | None) -> dict[str, Any] | None:
    """The item as it must be sent back: complete and encrypted, or not at all."""
    return data if data is not None and isinstance(data.get("encrypted_content"), str) else None


def _text_of(data: dict[str, Any]) -> str:
    """All text of a complete item."""
    if data.get("type") == "function_call":
        return arguments_text(data.get("arguments"))
    parts = [_dict(part) for part in _list(data, "content")]
    if data.get("type") != "reasoning":
        return "".join(_text(part.get("text") or part.get("refusal")) for part in parts)
    summary = [_dict(part) for part in _list(data, "summary")]
    return "\n\n".join(filter(None, (_text(part.get("text")) for part in (*summary, *parts))))


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    return value if isinstance(value, list) else []
