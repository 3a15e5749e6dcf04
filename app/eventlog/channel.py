"""What the readers of one session share: its newest durable events, bounded, and the parts that are being written."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

import orjson

from app.eventlog.log import PAGE_BYTES, StreamItem, page
from app.eventlog.open_part import OpenPart

RECENT_EVENTS = 256
"""Durable events kept in memory for readers that are nearly up to date; others read the log."""

RECENT_BYTES = 1 << 20
"""Their maximum total size, excluding the newest one, since one event may carry a whole file."""

TOOL_PREVIEW_CHARS = 64 * 1024
"""How much of a running tool's output is kept."""


DELTA_CHARS = 64 * 1024
"""Text of open parts sent to a reader at a time; 384 KiB if every character is escaped."""


class Reader(asyncio.Event):
    """One open stream: set when there may be new events. `seq` is the last durable event that it has sent, None for a
    stream that follows no session's log."""

    seq: int | None = None


class Channel:
    """What readers of one session need: the newest durable events and the open parts. `last_seq` is the newest known
    event, `published` the newest one published here; those in between are only in the log."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.last_seq = 0
        self.published = 0
        self.deleted = False
        self.recent: deque[StreamItem] = deque()
        self._recent_bytes = 0
        self.parts: OrderedDict[str, OpenPart] = OrderedDict()
        self.readers: set[asyncio.Event] = set()
        self.running = False

    @property
    def lag(self) -> int:
        """How many events the slowest reader is behind. Thread-safe."""
        seqs = [reader.seq for reader in list(self.readers) if isinstance(reader, Reader) and reader.seq is not None]
        return max(0, self.published - min(seqs)) if seqs else 0

    @property
    def unused(self) -> bool:
        return not self.readers and not self.running

    def publish(self, items: Iterable[StreamItem]) -> None:
        """Adds committed durable events."""
        for item in items:
            self.recent.append(item)
            self._recent_bytes += len(item.data)
            self.published = item.seq or self.published
            self.last_seq = max(self.last_seq, self.published)
            if item.closes is not None:
                self.parts.pop(item.closes, None)
            if item.voids is not None:
                self._close_parts_of(item.voids)
        while len(self.recent) > 1 and (len(self.recent) > RECENT_EVENTS or self._recent_bytes > RECENT_BYTES):
            self._recent_bytes -= len(self.recent.popleft().data)
        self.wake()

    def _close_parts_of(self, message_id: str) -> None:
        for part_id in [p for p, part in self.parts.items() if part.fields.get("message_id") == message_id]:
            del self.parts[part_id]

    def open_part(self, part_id: str, event: str, fields: dict[str, object]) -> OpenPart:
        """The text of a part that is being written, created if it is new."""
        part = self.parts.get(part_id)
        if part is None:
            keep = TOOL_PREVIEW_CHARS if event == "tool.output" else None
            part = self.parts[part_id] = OpenPart(event, {"session_id": self.session_id, **fields}, keep)
        return part

    def wake(self) -> None:
        for reader in self.readers:
            reader.set()

    def durable_after(self, seq: int) -> list[StreamItem] | None:
        """The next events after a seq from memory; None if the log has to be read, as for a large event, of which a
        reader holds only a piece."""
        if seq >= self.last_seq:
            return []
        if not self.recent or (self.recent[0].seq or 0) > seq + 1:
            return None
        items = page([item for item in self.recent if (item.seq or 0) > seq])
        return items if not items or len(items[0].data) <= PAGE_BYTES else None

    def deltas(self, offsets: dict[str, int]) -> list[StreamItem]:
        """The text of open parts beyond a reader's offsets, up to `DELTA_CHARS`. Advances the offsets and drops those
        of closed parts."""
        for part_id in offsets.keys() - self.parts.keys():
            del offsets[part_id]
        items: list[StreamItem] = []
        at, room = "", DELTA_CHARS
        for part_id, part in self.parts.items():
            seen = offsets.get(part_id, 0)
            if seen == part.end:
                continue
            at = at or _clock()
            for offset, text, stream in part.since(seen, room):
                items.append(_delta(part, at, offset, text, stream))
                offsets[part_id] = offset + len(text)
                room -= len(text)
            if room <= 0:
                break
        return items


def _clock() -> str:
    """`rfc3339(now())`, at a tenth of the cost for each delta."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _delta(part: OpenPart, at: str, offset: int, text: str, stream: str) -> StreamItem:
    data: dict[str, object] = {**part.fields, "at": at, "offset": offset, "text": text}
    if stream:
        data["stream"] = stream
    return StreamItem(part.event, None, orjson.dumps(data))
