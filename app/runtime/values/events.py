"""Streams of events, and pages of a log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.eventlog.log import StreamItem as StreamItem

EventStream = AsyncIterator[list[StreamItem]]
"""Events in batches: what was waiting for this reader when it came back for more."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Durable events as they lie in the log. `next_cursor` goes into `after` of the next request; None at the end of
    the log, which a page without events need not be."""

    items: tuple[StreamItem, ...]
    last_seq: int
    next_cursor: str | None
