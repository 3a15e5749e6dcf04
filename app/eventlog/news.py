"""What readers of all sessions get: `session.*` events, and the live ones that show what a session is doing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import orjson

from app.eventlog.log import StreamItem, news_item
from app.events import StepStarted, ToolCalled
from app.json_bytes import json_to_keep
from app.sessions import Activity

ACTIVITY = "session.activity"


def news_of(items: Iterable[StreamItem]) -> list[StreamItem]:
    """The items for readers of all sessions, whose stream has no ids."""
    news: list[StreamItem] = []
    for item in items:
        if item.type.startswith("session."):
            # One without a seq comes from another node, as an item of news.
            news.append(item if item.seq is None else news_item(item.type, item.seq, item.data))
        elif item.type in (StepStarted.type, ToolCalled.type) and item.data:
            news.append(StreamItem(ACTIVITY, None, _activity(item)))
    return news


def cursor_at(at: datetime) -> str:
    """The cursor of a reader that has got all events of all sessions until then."""
    return f"{int(at.timestamp() * 1000):x}"


def with_cursor(item: StreamItem, cursor: str) -> StreamItem:
    """The item with the cursor from which a reader continues after it."""
    return replace(item, data=b'{"cursor":"%b",' % cursor.encode() + item.data[1:])


def _activity(item: StreamItem) -> bytes:
    """A step or a call in brief, since its event may be as large as a file."""
    data = orjson.loads(item.data)
    brief = {"session_id": data["session_id"], "at": data["at"], "step": data.get("step"), "activity": None}
    if item.type == ToolCalled.type:
        brief["activity"] = Activity.of_call(data["call_id"], data["name"], data["arguments"]).model_dump()
    return json_to_keep(brief)
