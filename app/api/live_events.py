"""The live events, as readers get them: they show a part while it is being written or, to readers of all sessions, what
a session is doing. They have no id and are never stored."""

from __future__ import annotations

from typing import ClassVar, Literal

from app.eventlog.news import ACTIVITY
from app.events import Event
from app.sessions import Activity


class TextDelta(Event):
    """Live: `text` belongs at `offset` (code points) of the part."""

    type: ClassVar[str] = "text.delta"
    message_id: str
    part_id: str
    index: int
    offset: int
    text: str


class ReasoningDelta(TextDelta):
    type: ClassVar[str] = "reasoning.delta"


class ToolArguments(Event):
    """Live: the arguments while the model writes them, as JSON text."""

    type: ClassVar[str] = "tool.arguments"
    message_id: str
    part_id: str
    index: int
    name: str
    offset: int
    text: str


class ToolOutput(Event):
    """Live: a preview of a running tool's output; stdout and stderr share one sequence of offsets, of which the last
    64 KiB are kept, so there may be gaps. `tool.result` replaces it."""

    type: ClassVar[str] = "tool.output"
    call_id: str
    part_id: str
    offset: int
    stream: Literal["stdout", "stderr"]
    text: str


class SessionActivity(Event):
    """Live, only in `GET /v1/events`: a session has started the step `step`, or the model has made a call, the
    `activity`. It may be missed; the session's own fields are authoritative."""

    type: ClassVar[str] = ACTIVITY
    step: int | None = None
    activity: Activity | None = None


LIVE_EVENTS: tuple[type[Event], ...] = (TextDelta, ReasoningDelta, ToolArguments, ToolOutput, SessionActivity)
