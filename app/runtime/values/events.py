"""Streams of events, and pages of a log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.eventlog.log import StreamItem as StreamItem

EventStream = AsyncIterator[list[StreamItem]]
"""Events in batches: those waiting when the reader asks for more."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Durable events as stored in the log. `next_cursor` is the `after` of the next request; None at the end of the
    log. A page without events is not necessarily the end."""

    items: tuple[StreamItem, ...]
    last_seq: int
    next_cursor: str | None
