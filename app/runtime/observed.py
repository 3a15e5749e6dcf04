"""Selects the published events that are new, for metrics and tracing."""

from __future__ import annotations

from collections.abc import Sequence

from app.eventlog.log import StreamItem

BEGINNING = "session.created"
_NEWS = (BEGINNING, "session.running", "message.queued")


def news(items: Sequence[StreamItem]) -> Sequence[StreamItem]:
    """The events without those that a fork copies from its parent at its start, which were already counted there."""
    if not items or items[0].type != BEGINNING:
        return items
    return [item for item in items if item.type in _NEWS]
