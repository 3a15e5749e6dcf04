"""Messages and requests for tests, and helpers to read streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from itertools import count
from typing import Any

from app.llm.base import (
    Finish,
    ModelRequest,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    ToolSchema,
    UsageReport,
)
from app.messages import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    Usage,
)

_AT = datetime(2026, 11, 22, tzinfo=UTC)
_ids = count(1)

READ_FILE = ToolSchema("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
LIST = ToolSchema("list_directory", "Lists a directory.", {"type": "object", "properties": {}})


def message(role: Role, *parts: Part, **fields: Any) -> Message:
    number = next(_ids)
    return Message(id=f"m{number}", seq=number, role=role, parts=parts, created_at=_AT, **fields)


def text(value: str, **fields: Any) -> TextPart:
    return TextPart(id="p", index=0, text=value, **fields)


def user(value: str, **fields: Any) -> Message:
    return message(Role.USER, text(value), **fields)


def assistant(*parts: Part, **fields: Any) -> Message:
    return message(Role.ASSISTANT, *parts, **fields)


def call(call_id: str, name: str = "read_file", arguments: str = "{}") -> ToolCallPart:
    return ToolCallPart(id="p", index=0, call_id=call_id, name=name, arguments_text=arguments)


def result(
    call_id: str, output: str = "ok", status: ToolStatus = ToolStatus.COMPLETED, name: str = "read_file", **fields: Any
) -> ToolResultPart:
    return ToolResultPart(id="p", index=0, call_id=call_id, name=name, output=output, status=status, **fields)


def results(*parts: Part) -> Message:
    return message(Role.TOOL, *parts)


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def image(data: str = PNG) -> ImagePart:
    return ImagePart(id="p", index=0, media_type="image/png", data=data)


def reasoning(value: str, provider_data: dict[str, Any] | None = None, **fields: Any) -> ReasoningPart:
    return ReasoningPart(id="p", index=0, text=value, provider_data=provider_data, **fields)


def request(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "m", "system": "Be good.", "messages": messages or (user("Hi"),), **fields})


async def collect(stream: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    return [event async for event in stream]


def prose(events: Iterable[StreamEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def thoughts(events: Iterable[StreamEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, ReasoningDelta))


def calls(events: Iterable[StreamEvent]) -> list[tuple[str, str]]:
    """Name and arguments of each call, in the order of blocks; arguments before their call's start are an error."""
    found: dict[int, tuple[str, str]] = {}
    for event in events:
        if isinstance(event, ToolCallStart):
            assert event.block not in found
            found[event.block] = (event.name, "")
        elif isinstance(event, ToolArgumentsDelta):
            name, so_far = found[event.block]
            found[event.block] = (name, so_far + event.text)
    return [found[block] for block in sorted(found)]


def usage(events: Iterable[StreamEvent]) -> Usage | None:
    reports = [e.usage for e in events if isinstance(e, UsageReport)]
    return reports[-1] if reports else None


def finish(events: list[StreamEvent]) -> str:
    last = events[-1]
    assert isinstance(last, Finish)
    assert sum(isinstance(e, Finish) for e in events) == 1
    return last.reason
