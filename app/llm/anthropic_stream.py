"""Folds the events of an Anthropic Messages stream into neutral ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any

import orjson

from app.llm.base import InputTransformed, StopReason, UsageReport
from app.llm.endings import end_word
from app.llm.held import HeldBytes
from app.llm.snapshots import Arguments, arguments_text
from app.llm.stream_errors import bare_error_in, error_in
from app.llm.token_usage import merged_usage, messages_usage
from app.llm.wire import ErrorFor, ResponseStream, check_blocks

_STARTS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}
"""The kind of block that a delta belongs to."""
_KNOWN_OF_CALL = frozenset({"type", "id", "name", "input"})
MAX_TRANSFORMED_BYTES = 16 * 1024
"""Maximum bytes of a provider's report of changes to the input, which is kept with the step."""


@dataclass(slots=True)
class _Block:
    """One content block being received; `number` is the neutral block number, None for a kind that is ignored and once
    it is complete."""

    number: int | None
    wire: dict[str, Any]
    text: list[str] = field(default_factory=list)
    arguments: Arguments = field(default_factory=Arguments)
    signature: list[str] = field(default_factory=list)
    replayable: bool = True


class AnthropicStream(ResponseStream):
    """The state of one response."""

    def __init__(self, error_for: ErrorFor) -> None:
        super().__init__(error_for)
        self._blocks: dict[Any, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._held = HeldBytes()
        self._gap = False

    def _document(self, response: dict[str, Any]) -> None:
        if (error := error_in(response)) is not None:
            raise self._failure(error)
        content = response.get("content")
        if content is None and (bare := bare_error_in(response)) is not None:
            raise self._failure(bare)
        for index, block in enumerate(content if isinstance(content, list) else ()):
            self._start(index, _dict(block))
        self._transformed(response)
        self._message_delta({"usage": response.get("usage"), "delta": response})

    def _close(self, reason: StopReason) -> StopReason:
        for block in self._blocks.values():
            self._stop(block)
        has_calls = any(block.wire.get("type") == "tool_use" for block in self._blocks.values())
        return "tool_calls" if reason == "stop" and has_calls else reason

    def _event(self, name: str, event: dict[str, Any], size: int) -> None:
        if (error := error_in(event)) is not None:
            raise self._failure(error)
        match event.get("type") or name:
            case "content_block_delta":
                delta = _dict(event.get("delta"))
                if (block := self._block_of(event, delta)) is not None:
                    self._held.add(size if delta.get("type") == "signature_delta" else 0)
                    self._delta(block, delta)
            case "content_block_start":
                self._held.add(size)
                self._start(_index(event), _dict(event.get("content_block")))
            case "content_block_stop":
                if (block := self._blocks.get(_index(event))) is not None:
                    self._stop(block)
            case "message_start":
                message = _dict(event.get("message"))
                self._count(_dict(message.get("usage")))
                self._transformed(message)
            case "message_delta":
                self._message_delta(event)
                # Only a complete message has it, even one without a reason.
                self._is_complete = self._has_content
            case "message_stop":
                self.done = True
            case "error":
                raise self._failure(event)
            case _:
                return

    def _block_of(self, event: dict[str, Any], delta: dict[str, Any]) -> _Block | None:
        """The block that a delta belongs to. A few relays leave out where a block starts."""
        index = _index(event)
        kind = _STARTS.get(str(delta.get("type")))
        if index not in self._blocks and kind is not None:
            self._start(index, {"type": kind})
        return self._blocks.get(index)

    def _start(self, index: Any, wire: dict[str, Any]) -> None:
        check_blocks(len(self._blocks))
        self._has_content, self._is_complete = True, False
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
                if shown := block.arguments.add(arguments_text(text), is_value=not isinstance(text, str)):
                    self._out.arguments(block.number, shown)
            case "signature_delta":
                block.signature.append(str(delta.get("signature") or ""))
            case _:
                return

    def _stop(self, block: _Block) -> None:
        if block.number is None:
            return
        if block.wire.get("type") == "tool_use":
            shown = block.arguments.complete(arguments_text(block.wire.get("input"))) + block.arguments.end()
            if shown:
                self._out.arguments(block.number, shown)
            data = _unknown_of_call(_signed(block))
        else:
            data = _provider_data(block) if block.replayable else None
        self._out.end(block.number, data)
        block.number = None

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
        self._count(_dict(event.get("usage")))
        self._transformed(event)
        delta = _dict(event.get("delta"))
        if word := end_word(delta.get("stop_reason")):
            self._ended(word, delta)

    def _count(self, usage: dict[str, Any]) -> None:
        """Reports usage at once, so that the input of a cancelled response is counted."""
        if any(value is not None for value in usage.values()):
            self._usage = merged_usage(self._usage, usage)
            self._out.add(UsageReport(messages_usage(self._usage)))


def _unknown_of_call(wire: dict[str, Any]) -> dict[str, Any] | None:
    """What the server sent with a call that only the server understands."""
    unknown = {name: value for name, value in wire.items() if name not in _KNOWN_OF_CALL and value is not None}
    return {"call": unknown} if unknown else None


def _signed(block: _Block) -> dict[str, Any]:
    """The block with its whole signature, if it has one."""
    signature = "".join([str(block.wire.get("signature") or ""), *block.signature])
    wire = {name: value for name, value in block.wire.items() if name != "signature"}
    return {**wire, "signature": signature} if signature else wire


def _provider_data(block: _Block) -> dict[str, Any] | None:
    """The block as it must be sent back, complete. Relays to models of others do not sign it, and want it back."""
    match block.wire.get("type"):
        case "redacted_thinking" if isinstance(block.wire.get("data"), str):
            return block.wire
        case "thinking":
            wire = {**_signed(block), "thinking": "".join(block.text)}
            return wire if "signature" in wire or wire["thinking"] else None
        case _:
            return None


def _index(event: dict[str, Any]) -> int | str | None:
    """The index of the block that an event belongs to, None for a missing or invalid one."""
    index = event.get("index")
    return index if isinstance(index, int | str) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
