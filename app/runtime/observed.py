"""Which of the events that are published are news, for those who count or trace what this server does."""

from __future__ import annotations

from collections.abc import Sequence

from app.eventlog.log import StreamItem

BEGINNING = "session.created"
_NEWS = (BEGINNING, "session.running", "message.queued")


def news(items: Sequence[StreamItem]) -> Sequence[StreamItem]:
    """Of the events with which a session begins, those that are not of its past: a fork's log begins with a copy of
    what happened in its parent, and was counted there. All others as they are."""
    if not items or items[0].type != BEGINNING:
        return items
    return [item for item in items if item.type in _NEWS]
