"""The provider `scripted`, whose model `demo` needs no key: the real loop, tools and sandbox with a scripted model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import orjson

from app.errors import ProviderError
from app.llm.base import (
    BlockEnd,
    Finish,
    ModelRequest,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageReport,
)
from app.llm.demo import Reply, next_reply
from app.messages import ImagePart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart, Usage

DEMO_MODEL = "demo"
WORD_DELAY_S = 0.015
"""About the speed of a fast model, 65 words per second."""
_ARGUMENT_CHARS = 32


class ScriptedProvider:
    """Streams the demo's replies at the speed of a model; `word_delay_s` 0 is for tests. Usage is estimated at four
    characters per token, and costs nothing."""

    def __init__(self, name: str = "scripted", *, word_delay_s: float = WORD_DELAY_S) -> None:
        self.name = name
        self._delay_s = word_delay_s

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Streams one response; see `Provider`."""
        if request.model != DEMO_MODEL:
            raise ProviderError(f"{self.name} has only the model {DEMO_MODEL}.", code="provider_not_found")
        reply = next_reply(request.messages, frozenset(tool.name for tool in request.tools))
        for event in _events(reply):
            # Search results are sent at once.
            await asyncio.sleep(0 if reply.searched else self._delay_s)
            yield event
        yield UsageReport(_usage(request, reply))
        yield Finish("tool_calls" if reply.calls else "stop")

    async def aclose(self) -> None:
        """Nothing is open."""


def _events(reply: Reply) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    block = 0
    if reply.reasoning:
        events += [ReasoningDelta(block, word) for word in _words(reply.reasoning)] + [BlockEnd(block)]
        block += 1
    events += [TextDelta(block, word) for word in _words(reply.text)] + [BlockEnd(block)]
    for call in reply.calls:
        block += 1
        arguments = orjson.dumps(call.arguments).decode()
        events.append(ToolCallStart(block, call.name))
        events += [ToolArgumentsDelta(block, piece) for piece in _pieces(arguments)]
        events.append(BlockEnd(block))
    return events


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def _pieces(text: str) -> list[str]:
    return [text[start : start + _ARGUMENT_CHARS] for start in range(0, len(text), _ARGUMENT_CHARS)]


def _usage(request: ModelRequest, reply: Reply) -> Usage:
    """Everything before the last response counts as read from a cache, as with a real model."""
    tools = sum(len(tool.description) + len(orjson.dumps(tool.parameters)) for tool in request.tools)
    sizes = [_size(message) for message in request.messages]
    fresh = next((i for i, m in enumerate(reversed(request.messages)) if m.tool_calls), len(sizes))
    new = sum(sizes[len(sizes) - fresh :])
    before = len(request.system) + tools + sum(sizes) - new
    written = len(reply.text) + sum(len(call.name) + len(orjson.dumps(call.arguments)) for call in reply.calls)
    if fresh == len(sizes):
        new, before = new + before, 0
    return Usage(
        input_tokens=_tokens(new),
        cache_read_tokens=_tokens(before),
        output_tokens=_tokens(written + len(reply.reasoning)),
        reasoning_tokens=_tokens(len(reply.reasoning)),
        cost_usd=0.0,
    )


def _tokens(chars: int) -> int:
    return (chars + 3) // 4


def _size(message: Message) -> int:
    return sum(_part_size(part) for part in message.parts)


def _part_size(part: object) -> int:
    match part:
        case TextPart() | ReasoningPart():
            return len(part.text)
        case ToolCallPart():
            return len(part.name) + len(part.arguments_text)
        case ToolResultPart():
            return len(part.output)
        case ImagePart():
            return 4000
        case _:
            return 0
