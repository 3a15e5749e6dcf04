"""The newest `session.*` events of all sessions, bounded, for readers that follow all sessions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from app.eventlog.log import StreamItem, page

GLOBAL_EVENTS = 1024
"""`session.*` events kept for readers of all sessions; a reader that falls further behind is disconnected."""

GLOBAL_BYTES = 4 << 20
"""Their maximum total size: each may carry a task."""


class GlobalFeed:
    """The newest `session.*` events of all sessions since the start."""

    def __init__(self) -> None:
        self.count = 0
        self._recent: deque[StreamItem] = deque()
        self._recent_bytes = 0
        self.readers: set[asyncio.Event] = set()

    def publish(self, items: Iterable[StreamItem]) -> None:
        news = [StreamItem(item.type, None, item.data) for item in items if item.type.startswith("session.")]
        if news:
            self._recent.extend(news)
            self._recent_bytes += sum(len(item.data) for item in news)
            self.count += len(news)
            while len(self._recent) > GLOBAL_EVENTS or self._recent_bytes > GLOBAL_BYTES:
                self._recent_bytes -= len(self._recent.popleft().data)
            for reader in self.readers:
                reader.set()

    def since(self, count: int) -> list[StreamItem] | None:
        """The events after the first `count`; None if some of them are no longer kept."""
        missing = self.count - count
        if missing > len(self._recent):
            return None
        return page(list(self._recent)[len(self._recent) - missing :])
