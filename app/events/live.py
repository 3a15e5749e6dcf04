"""Live deltas: parts while they are being written. They have no id and are never stored."""

from __future__ import annotations

from typing import ClassVar, Literal

from app.messages import Timestamp, Value


class TextDelta(Value):
    """Live: `text` belongs at `offset` (code points) of the part."""

    type: ClassVar[str] = "text.delta"
    session_id: str
    at: Timestamp
    message_id: str
    part_id: str
    index: int
    offset: int
    text: str


class ReasoningDelta(TextDelta):
    type: ClassVar[str] = "reasoning.delta"


class ToolArguments(Value):
    """Live: the arguments while the model writes them, as JSON text."""

    type: ClassVar[str] = "tool.arguments"
    session_id: str
    at: Timestamp
    message_id: str
    part_id: str
    index: int
    name: str
    offset: int
    text: str


class ToolOutput(Value):
    """Live: a preview of a running tool's output; stdout and stderr share one sequence of offsets, of which the last
    64 KiB are kept, so there may be gaps. `tool.result` replaces it."""

    type: ClassVar[str] = "tool.output"
    session_id: str
    at: Timestamp
    call_id: str
    part_id: str
    offset: int
    stream: Literal["stdout", "stderr"]
    text: str


LIVE_EVENTS: tuple[type[Value], ...] = (TextDelta, ReasoningDelta, ToolArguments, ToolOutput)
