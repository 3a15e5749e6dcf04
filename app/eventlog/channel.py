"""What the readers of one session share: its newest durable events and the parts that are being written, all of it
bounded."""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from app.eventlog.log import PAGE_BYTES, StreamItem, page
from app.events import ReasoningCompleted, StepRetrying, TextCompleted, ToolCalled, ToolResulted
from app.json_bytes import json_to_keep

RECENT_EVENTS = 256
"""Durable events kept in memory for readers that are nearly up to date; others read the log."""
RECENT_BYTES = 1 << 20
"""Their maximum total size, excluding the newest one, since one event may carry a whole file."""
TOOL_PREVIEW_CHARS = 64 * 1024
"""How much of a running tool's output is kept."""

DELTA_CHARS = 64 * 1024
"""Text of open parts sent to a reader at a time; 384 KiB if every character is escaped."""

MAX_PIECES = 512
"""Pieces of an open part's text above which the older half is joined into one."""
PREVIEW_PIECE_CHARS = 1024
MAX_PREVIEW_PIECES = 4096
"""Adjacent pieces of one stream in a preview are joined up to this size; of interleaved streams, this many pieces are
kept. Otherwise a command that prints character by character would cost megabytes."""


class Reader(asyncio.Event):
    """One open stream: set when there may be new events. `seq` is the last durable event that it has sent, None for a
    stream that follows no session's log. `take`, if given, is called instead of setting it: it returns whether it has
    taken the new events."""

    seq: int | None = None
    take: Callable[[], bool] | None = None


class Channel:
    """What readers of one session need: the newest durable events and the open parts. `last_seq` is the newest known
    event, `published` the newest one published here; those in between are only in the log. If it `is_shared`, other
    nodes add events too, which may arrive late or never. `outlet` is called after each change."""

    def __init__(self, session_id: str, *, is_shared: bool = False) -> None:
        self.session_id = session_id
        self.is_shared = is_shared
        self.outlet: Callable[[], None] | None = None
        self.last_seq = 0
        self.published = 0
        self.deleted = False
        self.recent: deque[StreamItem] = deque()
        self._recent_bytes = 0
        self.parts: OrderedDict[str, OpenPart] = OrderedDict()
        self.readers: set[Reader] = set()
        self.running = False
        self._is_delivering = False

    @property
    def lag(self) -> int:
        """How many events the slowest reader is behind. Thread-safe."""
        seqs = [reader.seq for reader in list(self.readers) if reader.seq is not None]
        return max(0, self.published - min(seqs)) if seqs else 0

    @property
    def unused(self) -> bool:
        return not self.readers and not self.running

    def publish(self, items: Iterable[StreamItem]) -> None:
        """Adds committed durable events. One that is late only closes its parts; after a missing one, readers take both
        from the log."""
        for item in items:
            is_late = item.seq is not None and item.seq <= self.published
            if item.data and not is_late:
                if self.recent and item.seq != (self.recent[-1].seq or 0) + 1:
                    self.recent.clear()
                    self._recent_bytes = 0
                self.recent.append(item)
                self._recent_bytes += len(item.data)
            elif not is_late:
                self.recent.clear()
                self._recent_bytes = 0
            self.advance(item.seq or 0)
            if item.closes is not None:
                self.parts.pop(item.closes, None)
            if item.voids is not None:
                self._close_parts_of(item.voids)
        while len(self.recent) > 1 and (len(self.recent) > RECENT_EVENTS or self._recent_bytes > RECENT_BYTES):
            self._recent_bytes -= len(self.recent.popleft().data)
        self.wake()

    def advance(self, seq: int) -> None:
        """Events up to a seq are published, here or elsewhere."""
        self.published = max(self.published, seq)
        self.last_seq = max(self.last_seq, seq)

    def close_read(self, items: Iterable[StreamItem]) -> None:
        """Closes the parts that events from the log close, since their own publication may have been lost."""
        for item in items if self.parts else ():
            if (item.type in _CLOSING or item.type == _VOIDING) and item.begins:
                part, message = _ids(item.data)
                if item.type == _VOIDING:
                    self._close_parts_of(message)
                else:
                    self.parts.pop(part, None)

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
        """Notifies the readers, once for all changes of this turn of the event loop."""
        if self.readers and not self._is_delivering:
            self._is_delivering = True
            asyncio.get_running_loop().call_soon(self._deliver)
        if self.outlet is not None:
            self.outlet()

    def _deliver(self) -> None:
        self._is_delivering = False
        for reader in self.readers:
            if reader.take is None or not reader.take():
                reader.set()

    def durable_after(self, seq: int) -> list[StreamItem] | None:
        """The next events after a seq from memory; None if the log has to be read, as for a large event, of which a
        reader holds only a piece."""
        if seq >= self.last_seq:
            return []
        if not self.recent or (self.recent[0].seq or 0) > seq + 1 or (self.recent[-1].seq or 0) <= seq:
            return None
        items = page([item for item in self.recent if (item.seq or 0) > seq])
        return items if not items or len(items[0].data) <= PAGE_BYTES else None

    def waiting(self, offsets: dict[str, int]) -> int:
        """Characters of open parts beyond a reader's offsets; of a preview, some may be gone."""
        return sum([part.end - offsets.get(part_id, 0) for part_id, part in self.parts.items()])

    def deltas(self, offsets: dict[str, int]) -> list[StreamItem]:
        """The text of open parts beyond a reader's offsets, up to `DELTA_CHARS`. Advances the offsets and drops those
        of closed parts."""
        for part_id in offsets.keys() - self.parts.keys():
            del offsets[part_id]
        items: list[StreamItem] = []
        room = DELTA_CHARS
        for part_id, part in self.parts.items():
            seen = offsets.get(part_id, 0)
            if seen == part.end:
                continue
            piece = part.piece(seen, room)
            items += piece.items
            offsets[part_id] = piece.end
            room -= piece.chars
            if room <= 0:
                break
        return items


_CLOSING = frozenset(event.type for event in (TextCompleted, ReasoningCompleted, ToolCalled, ToolResulted))
_VOIDING = StepRetrying.type
_ID = re.compile(rb'"(part_id|message_id)":"([^"]+)"')
_HEAD_BYTES = 512
"""Of an event's JSON: its ids come before any text."""


def _ids(data: bytes) -> tuple[str, str]:
    """The ids of the part and of the message that an event names, empty if it names none."""
    found = {name: value.decode() for name, value in _ID.findall(data[:_HEAD_BYTES])}
    return found.get(b"part_id", ""), found.get(b"message_id", "")


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
    return StreamItem(part.event, None, json_to_keep(data))


class Piece(NamedTuple):
    """What a reader at the offset `start` gets of a part: deltas up to the offset `end`, with `chars` of text."""

    start: int
    end: int
    chars: int
    items: list[StreamItem]


@dataclass(slots=True)
class OpenPart:
    """A part that is being written: its text in pieces, with the offset of each in code points.

    `fields` are added to its deltas. With `keep`, only about that many characters of the end are held.
    """

    event: str
    fields: dict[str, object]
    keep: int | None = None
    end: int = 0
    _starts: list[int] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _streams: list[str] = field(default_factory=list)
    _newest: Piece | None = None
    """The newest piece that a reader got, for the others."""

    def append(self, text: str, stream: str) -> None:
        if self.keep is not None and self._continues(stream):
            self._pieces[-1] += text
        else:
            self._starts.append(self.end)
            self._pieces.append(text)
            self._streams.append(stream)
        self.end += len(text)
        if self.keep is None:
            if len(self._pieces) > MAX_PIECES:
                self._merge(MAX_PIECES // 2)
        elif self.end - self._starts[0] > 2 * self.keep or len(self._pieces) > MAX_PREVIEW_PIECES:
            self._trim(self.keep)

    def extend(self, offset: int, text: str, stream: str) -> bool:
        """Adds text that another node has from an offset on; what is known already is skipped. Returns False if text
        in between is missing, which only a preview may lack."""
        known = self.end - offset
        if known < 0:
            if self.keep is None:
                return False
            self._starts, self._pieces, self._streams = [], [], []
            self.end, known = offset, 0
        if known < len(text):
            self.append(text[known:] if known else text, stream)
        return True

    def _continues(self, stream: str) -> bool:
        """Whether the last piece has room for more of a stream."""
        return bool(self._pieces) and self._streams[-1] == stream and len(self._pieces[-1]) < PREVIEW_PIECE_CHARS

    def _merge(self, count: int) -> None:
        self._pieces[:count] = ["".join(self._pieces[:count])]
        del self._starts[1:count], self._streams[1:count]

    def _trim(self, keep: int) -> None:
        first = max(bisect_right(self._starts, self.end - keep) - 1, 0)
        if len(self._pieces) > MAX_PREVIEW_PIECES:
            first = max(first, MAX_PREVIEW_PIECES // 2)
        del self._starts[:first], self._pieces[:first], self._streams[:first]
        if self.end - self._starts[0] > 2 * keep:
            cut = self.end - keep - self._starts[0]
            self._pieces[0] = self._pieces[0][cut:]
            self._starts[0] += cut

    def piece(self, seen: int, most: int) -> Piece:
        """What a reader at this offset gets: at most `most` characters. Readers that keep up share it."""
        newest = self._newest
        if newest is None or newest.start != seen or newest.end != self.end or newest.chars > most:
            at, end, chars, items = _clock(), seen, 0, []
            for offset, text, stream in self.since(seen, most):
                items.append(_delta(self, at, offset, text, stream))
                end, chars = offset + len(text), chars + len(text)
            newest = self._newest = Piece(seen, end, chars, items)
        return newest

    @property
    def text(self) -> str:
        """The text that is still held."""
        return "".join(self._pieces)

    def since(self, offset: int, most: int) -> list[tuple[int, str, str]]:
        """What was written from an offset on, at most `most` characters, as (offset, text, stream) for each run of one
        stream. If the offset is no longer held, starts with the oldest text that is."""
        if self._starts and self._starts[-1] == offset:
            # The rule for a reader that keeps up.
            return [(offset, self._pieces[-1][:most], self._streams[-1])]
        first = bisect_right(self._starts, offset) - 1
        if first < 0:
            first, offset = 0, self._starts[0] if self._starts else 0
        return [(at, "".join(texts), stream) for at, texts, stream in self._runs(first, offset, offset + most)]

    def _runs(self, first: int, offset: int, end: int) -> list[tuple[int, list[str], str]]:
        runs: list[tuple[int, list[str], str]] = []
        for start, piece, stream in zip(self._starts[first:], self._pieces[first:], self._streams[first:], strict=True):
            if start >= end:
                break
            text = piece[max(offset - start, 0) : end - start]
            if text and runs and runs[-1][2] == stream:
                runs[-1][1].append(text)
            elif text:
                runs.append((max(offset, start), [text], stream))
        return runs
