"""Folds the chunks of a Chat Completions stream into neutral events, for all known dialects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from app.errors import ProviderError
from app.llm.base import Finish, StopReason, StreamEvent, UsageReport
from app.llm.wire import ErrorFor, ResponseState, as_text, check_blocks, count, parse_document
from app.messages import Usage, parse_arguments

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "refusal",
}

MAX_NAME_CHARS = 1_000
"""Maximum length of a name that comes in pieces; no provider accepts more than 64 characters."""
MAX_LOOKED_AT_CHARS = 20_000_000
"""Total characters of arguments parsed to check whether calls are complete: five times the longest answer. Servers that
send neither index nor id send each call in one piece."""
MAX_COST_USD = 1e6
"""US dollars for one call; a higher cost is an error of the server."""


@dataclass(slots=True)
class _Call:
    """One tool call being received. `block` is None until the call is announced, once its name is complete."""

    id: str | None
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    block: int | None = None


class OpenAiStream(ResponseState[str]):
    """The state of one response."""

    def __init__(self, error_for: ErrorFor) -> None:
        super().__init__(error_for)
        self._text: int | None = None
        self._reasoning: int | None = None
        self._calls = _Calls()
        self._refused = False
        self._usage: Usage | None = None

    def feed(self, events: list[tuple[bytes, bytes]]) -> list[StreamEvent]:
        """Converts server-sent events. Raises `ProviderError` for an error or an invalid event."""
        for name, data in events:
            if data == b"[DONE]":
                self.done = True
            elif data:
                self._chunk(parse_document(data), is_error=name == b"error")
        return self._out.take()

    def whole(self, body: bytes) -> list[StreamEvent]:
        """Converts the response of a server that does not stream; raises its error if it sent one with status 200."""
        self._chunk(parse_document(body))
        return self.end()

    def _chunk(self, chunk: dict[str, Any], *, is_error: bool = False) -> None:
        if is_error or chunk.get("error") or chunk.get("object") == "error":
            raise self._error(chunk)
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage_of(usage)
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._choice(choices[0])

    def end(self) -> list[StreamEvent]:
        """The last events. Raises a retryable `ProviderError` if the response ended without a finish reason."""
        reason = self._ended()
        for call in self._calls.all:
            self._announce(call)
        self._out.end_all()
        if self._usage is not None:
            self._out.add(UsageReport(self._usage))
        self._out.add(Finish(self._stop_reason(reason)))
        return self._out.take()

    def _choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta)
        if isinstance(usage := choice.get("usage"), dict):
            self._usage = usage_of(usage)
        if reason := choice.get("finish_reason"):
            if reason == "error":
                raise self._error(choice)
            self._reason = str(reason)

    def _delta(self, delta: dict[str, Any]) -> None:
        if text := delta.get("content"):
            self._add_text(_plain(text))
        if text := delta.get("reasoning_content") or delta.get("reasoning"):
            self._add_reasoning(_plain(text))
        if text := delta.get("refusal"):
            self._refused = True
            self._add_text(_plain(text))
        if isinstance(calls := delta.get("tool_calls"), list):
            for call in calls:
                self._add_call(call)
        if isinstance(function := delta.get("function_call"), dict):
            self._add_call({"index": 0, "function": function})

    def _add_text(self, text: str) -> None:
        if self._text is None:
            self._close_prose()
            self._text = self._out.begin()
        self._out.text(self._text, text)

    def _add_reasoning(self, text: str) -> None:
        if self._reasoning is None:
            self._close_prose()
            self._reasoning = self._out.begin()
        self._out.reasoning(self._reasoning, text)

    def _add_call(self, delta: Any) -> None:
        function = delta.get("function") if isinstance(delta, dict) else None
        if not isinstance(function, dict):
            return
        name, text = str(function.get("name") or ""), as_text(function.get("arguments"))
        call = self._calls.find(delta.get("index"), delta.get("id"), name)
        if call.block is None and name and name != call.name:
            call.name = (call.name + name)[:MAX_NAME_CHARS]
        if text:
            call.pieces.append(text)
            self._announce(call)
            self._out.arguments(call.block or 0, text)

    def _announce(self, call: _Call) -> None:
        if call.block is None:
            self._close_prose()
            call.block = self._out.begin_call(call.name)

    def _close_prose(self) -> None:
        for block in (self._text, self._reasoning):
            if block is not None:
                self._out.end(block)
        self._text = self._reasoning = None

    def _stop_reason(self, reason: str) -> StopReason:
        """Corrects the reason: some servers send `stop` after calls."""
        known = _STOP_REASONS.get(reason, "other")
        if known == "stop" and self._refused:
            return "refusal"
        return "tool_calls" if known == "stop" and self._calls.all else known

    def _error(self, chunk: dict[str, Any]) -> ProviderError:
        inner = chunk.get("error")
        code = inner.get("code") if isinstance(inner, dict) else chunk.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        if status is None and isinstance(inner, dict) and inner.get("type") == "invalid_request_error":
            status = 400
        return self._error_for(status, orjson.dumps(chunk).decode())


class _Calls:
    """Finds the call that a delta belongs to.

    The index decides, if there is one. Servers are known to omit it, to send 0 for every call with different ids, to
    omit the id, and to repeat or change it in every delta of one call. A name with a new id starts a call, and so does
    a name without index and id once the previous call's arguments are complete.
    """

    def __init__(self) -> None:
        self.all: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._looked_at = 0

    def find(self, index: Any, call_id: Any, name: str) -> _Call:
        call_id = call_id if isinstance(call_id, str) and call_id else None
        known = self._known(index, call_id, name)
        if known is None or (name and known.id and call_id and call_id != known.id):
            check_blocks(len(self.all))
            known = _Call(call_id)
            self.all.append(known)
            if call_id:
                self._by_id.setdefault(call_id, known)
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    def _known(self, index: Any, call_id: str | None, name: str) -> _Call | None:
        if isinstance(index, int):
            return self._by_index.get(index)
        if call_id and (same := self._by_id.get(call_id)):
            return same
        last = self.all[-1] if self.all else None
        return None if name and last is not None and self._is_whole(last) else last

    def _is_whole(self, call: _Call) -> bool:
        """Whether a call's arguments are complete. Raises `ProviderError` if the checks take too much work."""
        text = "".join(call.pieces)
        self._looked_at += len(text)
        if self._looked_at > MAX_LOOKED_AT_CHARS:
            raise ProviderError("The answer's calls cannot be told apart.", code="provider_bad_response")
        return isinstance(parse_arguments(text), dict)


def usage_of(raw: dict[str, Any]) -> Usage:
    """Usage in the neutral shape: the prompt's tokens exclude cached ones, the output's include reasoning.

    Some servers do not count reasoning as completion, which shows in their total. `cost_usd` is what OpenRouter billed.
    """
    details = raw.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    out = raw.get("completion_tokens_details")
    reasoning = count(out.get("reasoning_tokens")) if isinstance(out, dict) else 0
    prompt, output = count(raw.get("prompt_tokens")), count(raw.get("completion_tokens"))
    read = min(prompt, count(details.get("cached_tokens")) or count(raw.get("prompt_cache_hit_tokens")))
    write = min(prompt - read, count(details.get("cache_write_tokens")))
    if reasoning and count(raw.get("total_tokens")) == prompt + output + reasoning:
        output += reasoning
    return Usage(
        input_tokens=prompt - read - write,
        cache_read_tokens=read,
        cache_write_tokens=write,
        output_tokens=output,
        reasoning_tokens=min(reasoning, output),
        cost_usd=_cost(raw.get("cost")),
    )


def _cost(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= MAX_COST_USD else None


def _plain(content: Any) -> str:
    """The text of a delta's content; a few servers (Mistral) send a list of typed pieces."""
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list) else []
    return "".join(str(piece.get("text") or "") for piece in pieces if isinstance(piece, dict))
