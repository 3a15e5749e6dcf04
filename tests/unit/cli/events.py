"""Events of a session as the view gets them."""

from __future__ import annotations

import io
from typing import Any

from app.cli.client import ServerEvent
from app.cli.screen import Screen
from app.cli.view import View

AT = "2026-11-22T10:00:00.000Z"
LATER = "2026-11-22T10:01:05.000Z"
USAGE = {
    "input_tokens": 1000,
    "cache_read_tokens": 500,
    "cache_write_tokens": 0,
    "output_tokens": 20,
    "reasoning_tokens": 0,
    "cost_usd": 0.0123,
}


def event(name: str, seq: int | None = None, /, **data: Any) -> ServerEvent:
    return ServerEvent(seq, name, {"at": AT, **data})


def delta(text: str, offset: int, part: str = "p", name: str = "text.delta") -> ServerEvent:
    return event(name, message_id="m", part_id=part, offset=offset, text=text)


def completed(text: str, part: str = "p", *, interrupted: bool = False) -> ServerEvent:
    return event("text.completed", 1, message_id="m", part_id=part, text=text, interrupted=interrupted)


def call(call_id: str, name: str, /, **arguments: Any) -> ServerEvent:
    return event("tool.call", 1, call_id=call_id, name=name, arguments=arguments)


def output(call_id: str, offset: int, text: str) -> ServerEvent:
    return event("tool.output", call_id=call_id, offset=offset, stream="stdout", text=text)


def result(call_id: str, name: str, text: str, /, **more: Any) -> ServerEvent:
    fields = {"status": "completed", "truncated": False, "bytes": len(text), "duration_ms": 40, **more}
    return event("tool.result", 1, call_id=call_id, name=name, output=text, **fields)


def idle(outcome: str = "completed", **more: Any) -> ServerEvent:
    return event("session.idle", 9, outcome=outcome, usage=USAGE, **{"steps": 1, "error": None, **more})


def shown(*events: ServerEvent, own_task: bool = False) -> str:
    """The text on the screen, without colors, after these events."""
    out = io.StringIO()
    view = View(Screen(out, color=False), own_task=own_task)
    for item in events:
        view.show(item)
    return out.getvalue()
