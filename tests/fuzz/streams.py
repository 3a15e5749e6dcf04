"""The parsers of model streams, up to a step's assembled message: it is valid, or a `ProviderError` is raised."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Self

import orjson
from hypothesis.strategies import SearchStrategy

from app.agent.changes import StepOpened
from app.agent.model_calls import Attempt, ModelCalls
from app.context.content import ReasoningRule
from app.context.validator import repair
from app.errors import ProviderError, ToolError
from app.llm.adapter import HttpProvider, WireFormat, read_response
from app.llm.anthropic import AnthropicProvider
from app.llm.base import ModelRequest, StreamEvent
from app.llm.openai import OpenAiProvider
from app.messages import FinishReason, Message, Part, Role, ToolCallPart, ToolResultPart, ToolStatus, new_id, now
from app.sessions import ContextState
from app.tools import ToolRegistry, default_tools
from tests.fuzz.engine import Crash, Outcome
from tests.fuzz.stream_inputs import DIALECTS, Answer, Wire, answers
from tests.provider.records import Refused
from tests.provider.settings import Settings
from tests.provider.thinking import SealBook
from tests.unit.agent.scenes import config, user
from tests.unit.agent.sinks import KeptSink

MODEL = "acme/one"
SLOW_S = 20.0
"""Timeout for a response of some kilobytes on a busy machine, in seconds; usually it takes one millisecond."""
MAX_DETAIL_CHARS = 1_200
"""Maximum characters of an error message, which people read and every client gets."""

REGISTRY = ToolRegistry(default_tools())


class Came:
    """A response body as received."""

    def __init__(self, answer: Answer) -> None:
        self._chunks = answer.chunks

    async def chunks(self) -> AsyncGenerator[bytes]:
        for chunk in self._chunks:
            yield chunk


class Played:
    """A provider that reads one answer with the parsers of a real one."""

    name = "acme"

    def __init__(self, parsers: HttpProvider, answer: Answer) -> None:
        self._parsers = parsers
        self._answer = answer

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        async with aclosing(read_response(wire_of(self._parsers).open_stream(), Came(self._answer))) as batches:
            async for events in batches:
                for event in events:
                    yield event

    async def aclose(self) -> None: ...


def wire_of(provider: HttpProvider) -> WireFormat:
    """The provider's wire format for an unknown model."""
    return provider.wire_format(provider.quirks())


class StreamFuzzer:
    """Reads responses as a step does and checks the results against the rules of a history."""

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._parsers: dict[Wire, HttpProvider] = self._runner.run(self._open())
        return self

    async def _open(self) -> dict[Wire, HttpProvider]:
        where = "http://127.0.0.1:9/v1"
        return {
            "openai": OpenAiProvider("acme", where, "sk-key-0123456789ab", idle_timeout_s=60),
            "anthropic": AnthropicProvider("acme", where, "sk-key-0123456789ab", idle_timeout_s=60),
            "responses": OpenAiProvider("acme", where, "sk-key-0123456789ab", idle_timeout_s=60, endpoint="responses"),
        }

    def __exit__(self, *_: object) -> None:
        for provider in self._parsers.values():
            self._runner.run(provider.aclose())
        self._runner.close()

    def cases(self) -> SearchStrategy[Answer]:
        return answers()

    def shown(self, case: Answer) -> str:
        return repr(case)

    def attempt(self, case: Answer) -> list[Outcome]:
        started = time.monotonic()
        outcome = self._runner.run(self._try(case))
        if time.monotonic() - started > SLOW_S:
            raise Crash(f"took more than {SLOW_S} s")
        return [(f"{case.wire} {case.kind}", outcome)]

    async def _try(self, case: Answer) -> str:
        sink = KeptSink()
        played = Played(self._parsers[case.wire], case)
        models = ModelCalls(lambda name: (played, name), lambda *_: None, max_attempts=1)
        opened = StepOpened(1, 1, new_id(), MODEL, 0, ContextState(tokens=10, usable=90, limit=100))
        attempt = Attempt(sink, models, config(MODEL), opened, ())
        error: ProviderError | None = None
        try:
            await attempt.send(ModelRequest(MODEL, "Be good.", [user()]))
        except ProviderError as raised:
            error = raised
            check_error(error)
        attempt.processor.close(interrupted=error is not None)
        attempt.bill()
        reason = attempt.finish_reason if error is None else FinishReason.ERROR
        message = await attempt.message(reason, error.problem() if error else None)
        check_message(message, sink)
        check_usage(attempt)
        check_sendable(message, self._parsers)
        if error is not None:
            return f"{type(error).__name__} {error.code}" + (" (retryable)" if error.retryable else "")
        return f"message, {attempt.processor.stop_reason}"


def check_error(error: ProviderError) -> None:
    """It can be shown: it is valid JSON and not too long."""
    orjson.dumps(error.problem())
    if len(error.detail) > MAX_DETAIL_CHARS:
        raise Crash(f"an error of {len(error.detail)} characters")


def check_message(message: Message, sink: KeptSink) -> None:
    """It can be stored and read back, its parts are in order, and the streamed text equals its content."""
    orjson.dumps(message.model_dump(mode="json"))
    for part in message.parts:
        if type(part).model_validate_json(_stored(part)) != part:
            raise Crash("a part is another when it is read again")
        if any("\x00" in text for text in (getattr(part, "text", ""), getattr(part, "arguments_text", ""))):
            raise Crash("a NUL is left in the message")
    if [part.index for part in message.parts] != list(range(len(message.parts))):
        raise Crash("the parts have holes between them")
    if len({call.call_id for call in message.tool_calls}) != len(message.tool_calls):
        raise Crash("two calls have one id")
    for part in message.parts:
        text = part.arguments_text if isinstance(part, ToolCallPart) else getattr(part, "text", "")
        if sink.text_of(part.id) != text:
            raise Crash(f"{sink.text_of(part.id)!r} was shown of {text!r}")


def _stored(part: Part) -> bytes:
    """A part as the database keeps it."""
    if isinstance(part, ToolCallPart):
        return orjson.dumps({**part.model_dump(exclude={"arguments"}), "arguments_text": part.arguments_text})
    return orjson.dumps(part.model_dump(mode="json"))


def check_usage(attempt: Attempt) -> None:
    """The tokens and the cost are sums that can be added to."""
    usage = attempt.usage
    numbers = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)
    if any(not 0 <= number < 2**53 for number in numbers) or usage.reasoning_tokens > usage.output_tokens:
        raise Crash(f"{usage}")
    if usage.cost_usd is not None and not (usage.cost_usd >= 0 and math.isfinite(usage.cost_usd + usage.cost_usd)):
        raise Crash(f"a cost of {usage.cost_usd}")


def check_sendable(message: Message, providers: Mapping[Wire, HttpProvider]) -> None:
    """A request with the message in it is one that strict providers take, and its calls are run or refused."""
    for call in message.tool_calls:
        try:
            REGISTRY.parse(call.name, call.arguments_text)
        except ToolError as refused:
            orjson.dumps(refused.detail)
    history, _ = repair([user(), message, *_results(message), user()], ReasoningRule(message.model or ""))
    for wire, provider in providers.items():
        request = ModelRequest("one", "Be good.", history)
        format = wire_of(provider)
        body: Any = orjson.loads(
            format.encode(request, format.parameters(request, provider.quirks()), provider.quirks())
        )
        try:
            DIALECTS[wire].check(body, {"anthropic-version": "2023-06-01"}, Settings(), SealBook())
        except Refused as refused:
            if refused.rule == "thinking":
                continue  # invalid signature: these answers are invented
            raise Crash(f"the next request is refused by {wire}: {refused}") from refused


def _results(message: Message) -> list[Message]:
    parts = tuple(
        ToolResultPart(
            id=new_id(), index=at, call_id=call.call_id, name=call.name, output="done", status=ToolStatus.COMPLETED
        )
        for at, call in enumerate(message.tool_calls)
    )
    return [Message(id=new_id(), seq=2, role=Role.TOOL, parts=parts, created_at=now())] if parts else []
