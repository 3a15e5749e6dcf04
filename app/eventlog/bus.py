"""Live fan-out inside the process.

A session that somebody follows, or that runs, has a channel: the newest durable events, bounded, and one text for each
part that is being written. A reader keeps a seq and one offset per open part and takes what is new when it comes back,
so a slow reader gets fewer and larger deltas, costs nothing and holds nobody up.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

import orjson

from app.errors import ServerBusyError
from app.eventlog.log import StreamItem

RECENT_EVENTS = 256
"""Durable events kept for readers that are nearly up to date; others read the log."""

RECENT_BYTES = 1 << 20
"""Their size at most, the newest apart, since one event may carry a whole file."""

TOOL_PREVIEW_CHARS = 64 * 1024
"""What is kept of a running tool's output."""

MAX_PIECES = 512
"""Pieces of an open part's text above which the older half is joined into one."""

PREVIEW_PIECE_CHARS = 1024
MAX_PREVIEW_PIECES = 4096
"""A preview's neighbours of one stream are joined up to this size; of streams that take turns, this many pieces are
kept. A command that prints character by character would cost megabytes otherwise."""

GLOBAL_EVENTS = 1024
"""`session.*` events kept for readers of all sessions; a reader that falls further behind is let go."""

GLOBAL_BYTES = 4 << 20
"""Their size at most: each may carry a task."""


@dataclass(slots=True)
class OpenPart:
    """A part that is being written: its text in pieces, with the offset of each in code points.

    `fields` are what its deltas carry besides offset and text. With `keep`, only about that many characters of the end
    are held.
    """

    event: str
    fields: dict[str, object]
    keep: int | None = None
    end: int = 0
    _starts: list[int] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _streams: list[str] = field(default_factory=list)

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

    @property
    def text(self) -> str:
        """All that is held of the text."""
        return "".join(self._pieces)

    def since(self, offset: int) -> list[tuple[int, str, str]]:
        """What was written from an offset on: (offset, text, stream), a run of one stream each. An offset that is no
        longer held gives what is."""
        if self._starts and self._starts[-1] == offset:
            # The rule for a reader that keeps up.
            return [(offset, self._pieces[-1], self._streams[-1])]
        first = bisect_right(self._starts, offset) - 1
        if first < 0:
            first, offset = 0, self._starts[0] if self._starts else 0
        if self.keep is None:
            text = "".join(self._pieces[first:])
            return [(offset, text[offset - self._starts[first] :], "")] if self._starts else []
        return self._runs(first, offset)

    def _runs(self, first: int, offset: int) -> list[tuple[int, str, str]]:
        runs: list[tuple[int, str, str]] = []
        for start, piece, stream in zip(self._starts[first:], self._pieces[first:], self._streams[first:], strict=True):
            text = piece[max(offset - start, 0) :]
            if not text:
                continue
            if runs and runs[-1][2] == stream:
                at, before, _ = runs[-1]
                runs[-1] = (at, before + text, stream)
            else:
                runs.append((max(offset, start), text, stream))
        return runs


class Reader(asyncio.Event):
    """One open stream: set when there may be news. `seq` is the last durable event that it has taken, None where it
    has no place in a log."""

    seq: int | None = None


class Channel:
    """What readers of one session need: the newest durable events and the open parts. `last_seq` is the newest event
    that is known of, `published` the newest that was told here; in between the log alone has them."""

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
        """Events that the slowest reader is behind. May be asked from any thread."""
        seqs = [reader.seq for reader in list(self.readers) if isinstance(reader, Reader) and reader.seq is not None]
        return max(0, self.published - min(seqs)) if seqs else 0

    @property
    def unused(self) -> bool:
        return not self.readers and not self.running

    def publish(self, items: Iterable[StreamItem]) -> None:
        """Adds durable events that are committed."""
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
        """The text of a part that is being written, begun if it is new."""
        part = self.parts.get(part_id)
        if part is None:
            keep = TOOL_PREVIEW_CHARS if event == "tool.output" else None
            part = self.parts[part_id] = OpenPart(event, {"session_id": self.session_id, **fields}, keep)
        return part

    def wake(self) -> None:
        for reader in self.readers:
            reader.set()

    def durable_after(self, seq: int) -> list[StreamItem] | None:
        """Events after a seq from memory; None where the log has to be asked."""
        if seq >= self.last_seq:
            return []
        if not self.recent or (self.recent[0].seq or 0) > seq + 1:
            return None
        return [item for item in self.recent if (item.seq or 0) > seq]

    def deltas(self, offsets: dict[str, int]) -> list[StreamItem]:
        """What the open parts have beyond a reader's offsets, which are moved on; parts that were closed are dropped
        from them."""
        for part_id in offsets.keys() - self.parts.keys():
            del offsets[part_id]
        items: list[StreamItem] = []
        at = ""
        for part_id, part in self.parts.items():
            seen = offsets.get(part_id, 0)
            if seen == part.end:
                continue
            at = at or _clock()
            items += [_delta(part, at, *run) for run in part.since(seen)]
            offsets[part_id] = part.end
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


class GlobalFeed:
    """The `session.*` events of all sessions since the start, the newest of them kept."""

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

    def since(self, count: int) -> Sequence[StreamItem] | None:
        """The events after the first `count`; None where some of them are gone."""
        missing = self.count - count
        if missing > len(self._recent):
            return None
        return list(self._recent)[len(self._recent) - missing :]


class Bus:
    """The channels of the sessions that are followed or run. `observe` hears of all committed events; `most_readers`
    streams may be open at the same time."""

    def __init__(
        self, observe: Callable[[Sequence[StreamItem]], None] = lambda _: None, most_readers: int = 1000
    ) -> None:
        self._observe = observe
        self._most_readers = most_readers
        self.refused = 0
        self._channels: dict[str, Channel] = {}
        self.all = GlobalFeed()
        self.closing = False

    def channel(self, session_id: str) -> Channel:
        """A session's channel, made if it has none; `release` it when it may be unused."""
        return self._channels.setdefault(session_id, Channel(session_id))

    def release(self, session_id: str) -> None:
        """Forgets a channel that nobody uses."""
        channel = self._channels.get(session_id)
        if channel is not None and channel.unused:
            del self._channels[session_id]

    def publish(self, session_id: str, items: Sequence[StreamItem]) -> None:
        """Tells readers of committed events, in the order of their seqs."""
        if not items:
            return
        self._observe(items)
        channel = self._channels.get(session_id)
        if channel is not None:
            channel.publish(items)
        self.all.publish(items)

    def delete(self, session_id: str, farewell: StreamItem) -> None:
        """Ends the streams of a session that is gone, after its last event."""
        channel = self._channels.pop(session_id, None)
        if channel is not None:
            channel.publish([farewell])
            channel.deleted = True
            channel.wake()
        self._observe([farewell])
        self.all.publish([farewell])

    @property
    def readers(self) -> int:
        """Open streams. May be asked from any thread."""
        return len(self.all.readers) + sum(len(channel.readers) for channel in list(self._channels.values()))

    @property
    def lag(self) -> int:
        """Events that the slowest reader of all is behind. May be asked from any thread."""
        return max((channel.lag for channel in list(self._channels.values())), default=0)

    def check_room(self) -> None:
        """Raises `ServerBusyError` (code `too_many_readers`) where no further stream may be opened."""
        if self.readers >= self._most_readers:
            self.refused += 1
            raise ServerBusyError(
                f"{self._most_readers:,} streams of events are open already; try again when some have ended.",
                code="too_many_readers",
                most=self._most_readers,
            )

    def close(self) -> int:
        """Ends all streams, since the server is going down; how many there were."""
        self.closing = True
        ending = self.readers
        for channel in self._channels.values():
            channel.wake()
        for reader in self.all.readers:
            reader.set()
        return ending

    def __len__(self) -> int:
        return len(self._channels)
