"""Streams of events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.eventlog.log import StreamItem as StreamItem

EventStream = AsyncIterator[list[StreamItem]]
"""Events in batches: what was waiting for this reader when it came back for more."""
