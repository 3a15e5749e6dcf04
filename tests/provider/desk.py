"""Handles a request: checks, counts and records it, and finds its answer. No network here."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from tests.provider.answers import ScriptBook
from tests.provider.board import Board
from tests.provider.counting import CacheHit, PromptCache, count_blocks, count_text
from tests.provider.dialect import Answering, Dialect, Spent
from tests.provider.overflow import Sizes, check_window
from tests.provider.records import JSON, Reading, RecordedRequest, Refusal, Refused
from tests.provider.script import Answer, Reply
from tests.provider.settings import Settings
from tests.provider.thinking import SealBook


@dataclass(slots=True)
class Desk:
    """The provider's state: settings, scripts, what arrived, and what it remembers of earlier prompts."""

    settings: Settings
    board: Board = field(default_factory=Board)
    scripts: ScriptBook = field(default_factory=ScriptBook)
    cache: PromptCache = field(default_factory=PromptCache)
    seals: SealBook = field(default_factory=SealBook)
    requests: deque[RecordedRequest] = field(default_factory=deque)
    refusals: list[Refusal] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)
    script_errors: list[Exception] = field(default_factory=list)

    def take(self, dialect: Dialect, headers: dict[str, str], raw: bytes) -> tuple[RecordedRequest, Refused | None]:
        """Records the request; the second value is why it is refused, if it is."""
        body: JSON = {}
        refused: Refused | None = None
        try:
            self._admit(dialect, headers, raw)
            body = _parse(raw, dialect.bad_json)
            if self.settings.strict:
                dialect.check(body, headers, self.settings, self.seals)
        except Refused as exc:
            refused = exc
        request = RecordedRequest(
            index=self.board.arrived,
            wire=dialect.wire,
            headers=headers,
            raw=raw,
            body=body,
            arrived_at=time.monotonic(),
            reading=dialect.read(body) if self.settings.strict else Reading(),
        )
        if refused is None and self.settings.strict:
            request, refused = self._count(dialect, request)
        return self._record(request, refused), refused

    def _admit(self, dialect: Dialect, headers: dict[str, str], raw: bytes) -> None:
        if self.settings.key is not None:
            dialect.authorize(headers, self.settings.key)
        if self.settings.max_body is not None and len(raw) > self.settings.max_body:
            message = "Request exceeds the maximum size"
            raise Refused("overflow", message, status=413, kind="request_too_large")

    def _count(self, dialect: Dialect, request: RecordedRequest) -> tuple[RecordedRequest, Refused | None]:
        blocks = dialect.blocks(request.body)
        counted = replace(request, tokens=count_blocks(blocks))
        window = self.settings.window_of(request.model)
        try:
            sizes = Sizes(counted.tokens, request.max_output_tokens or 0, window)
            check_window(self.settings.overflow or dialect.overflow, sizes)
        except Refused as exc:
            return counted, exc
        hit = self.cache.take(request.model, blocks, explicit=dialect.explicit_cache)
        return _with_hit(counted, hit), None

    def _record(self, request: RecordedRequest, refused: Refused | None) -> RecordedRequest:
        if refused is not None:
            refusal = Refusal(refused.rule, refused.status, refused.message, request.index)
            request = replace(request, refusal=refusal)
            self.refusals.append(refusal)
        self.requests.append(request)
        if self.settings.keep is not None and len(self.requests) > self.settings.keep:
            self.requests.popleft()
        with self.board.change() as board:
            board.arrived += 1
        return request

    def choose(self, request: RecordedRequest) -> Answer:
        """The scripted answer. Functions of a script run outside the lock."""
        with self.board.lock:
            scripted = self.scripts.choose(request)
        return scripted(request) if callable(scripted) else scripted

    def answer(self, request: RecordedRequest, reply: Reply) -> Answering:
        """The reply with its usage, ready to be encoded."""
        return Answering(
            number=request.index,
            model=request.model,
            reply=reply,
            spent=self._spent(request, reply),
            usage_style=reply.usage_style or self.settings.usage,
            body=request.body,
            seals=self.seals,
            headers=request.headers,
            binds_thinking=self.settings.binds_thinking and self.settings.strict,
        )

    def _spent(self, request: RecordedRequest, reply: Reply) -> Spent:
        said = reply.usage
        read, written = request.cached_tokens, request.written_tokens
        prompt = request.tokens
        if self.settings.overflow == "ollama":
            prompt = min(prompt, self.settings.window_of(request.model))
        reasoning = count_text(reply.reasoning)
        calls = sum(count_text(call.name) + count_text(call.arguments_text) for call in reply.calls)
        output = reasoning + count_text(reply.text) + calls
        return Spent(
            input=_either(said.input, max(0, prompt - read - written)),
            cache_read=_either(said.cache_read, min(read, prompt)),
            cache_write=_either(said.cache_write, written),
            output=_either(said.output, output),
            reasoning=_either(said.reasoning, reasoning),
        )


def _either(said: int | None, counted: int) -> int:
    return counted if said is None else said


def _with_hit(request: RecordedRequest, hit: CacheHit) -> RecordedRequest:
    return replace(request, shared_tokens=hit.shared, cached_tokens=hit.read, written_tokens=hit.written)


def _parse(raw: bytes, bad_json: str) -> JSON:
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise Refused("json", bad_json) from exc
    if not isinstance(body, dict):
        raise Refused("json", bad_json)
    return body
