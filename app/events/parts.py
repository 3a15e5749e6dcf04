"""Events of a message's parts: text, reasoning, tool calls and their results, each when it is complete."""

from __future__ import annotations

from typing import Any, ClassVar

from app.events.base import SessionEvent
from app.messages import ToolStatus


class TextCompleted(SessionEvent):
    type: ClassVar[str] = "text.completed"
    message_id: str
    part_id: str
    index: int
    text: str
    interrupted: bool = False


class ReasoningCompleted(SessionEvent):
    type: ClassVar[str] = "reasoning.completed"
    message_id: str
    part_id: str
    index: int
    text: str
    interrupted: bool = False


class ToolCalled(SessionEvent):
    """`arguments` is an object, or the raw text if the model did not write one."""

    type: ClassVar[str] = "tool.call"
    message_id: str
    part_id: str
    index: int
    call_id: str
    name: str
    arguments: dict[str, Any] | str


class ToolResulted(SessionEvent):
    type: ClassVar[str] = "tool.result"
    message_id: str
    part_id: str
    index: int
    call_id: str
    name: str
    status: ToolStatus
    output: str
    truncated: bool
    bytes: int
    exit_code: int | None = None
    duration_ms: int
