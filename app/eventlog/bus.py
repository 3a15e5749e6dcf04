"""Live fan-out inside the process: the channels of the sessions, and the newest `session.*` events of all of them. A
relay connects it with the buses of other nodes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from app.errors import ServerBusyError
from app.eventlog.channel import Channel, Reader
from app.eventlog.log import StreamItem, page
from app.eventlog.news import cursor_at, news_of, with_cursor
from app.messages import now

GLOBAL_EVENTS = 1024
"""`session.*` events kept for readers of all sessions; a reader that falls further behind is disconnected."""
GLOBAL_BYTES = 4 << 20
"""Their maximum total size: each may carry a task."""


class Relay(Protocol):
    """Connects the buses of several nodes. No method waits or raises."""

    def published(self, session_id: str, items: Sequence[StreamItem]) -> None:
        """Events of a session were committed here."""

    def deleted(self, session_id: str, last: StreamItem) -> None:
        """A session was deleted here; `last` is its last event."""

    def followed(self, channel: Channel) -> None:
        """A channel has its first reader here."""

    def unfollowed(self, channel: Channel) -> None:
        """A channel has no more readers here."""

    def owned(self, channel: Channel, epoch: int) -> None:
        """A session has an owner here, which writes with this epoch."""

    def disowned(self, channel: Channel) -> None:
        """The owner has ended, and its open parts with it."""

    def nudge(self, session_id: str) -> None:
        """Notifies the node that runs a session, if there is one and it can be reached."""

    def expects_nudges(self, session_id: str, expected: bool) -> None:
        """Whether this node waits for nudges of a session; they come through `Bus.nudged`."""


class Bus:
    """The channels of the sessions that are followed or running. `observe` is called with all committed events; at most
    `most_readers` streams may be open at the same time. With a `relay`, it is one of several nodes' buses."""

    def __init__(
        self, observe: Callable[[Sequence[StreamItem]], None] = lambda _: None, most_readers: int = 1000
    ) -> None:
        self._observe = observe
        self._most_readers = most_readers
        self.refused = 0
        self._channels: dict[str, Channel] = {}
        self._nudged: dict[str, Callable[[], None]] = {}
        self.all = GlobalFeed()
        self.closing = False
        self.relay: Relay | None = None
        self.is_shared = False
        """Whether other nodes add events to the logs too."""
        self.watchers: list[Callable[[str, Sequence[StreamItem]], None]] = []
        """Called with the session of events and the events that were published here."""

    def channel(self, session_id: str) -> Channel:
        """A session's channel, created if missing; call `release` when it may have become unused."""
        channel = self._channels.get(session_id)
        if channel is None:
            channel = self._channels[session_id] = Channel(session_id, is_shared=self.is_shared)
        return channel

    def enter(self, session_id: str, reader: Reader) -> Channel:
        """Adds a reader to a session's channel. `leave` must follow."""
        channel = self.channel(session_id)
        is_first = not channel.readers
        channel.readers.add(reader)
        if is_first and self.relay is not None:
            self.relay.followed(channel)
        return channel

    def leave(self, channel: Channel, reader: Reader) -> None:
        """Removes a reader."""
        channel.readers.discard(reader)
        if not channel.readers and self.relay is not None:
            self.relay.unfollowed(channel)
        self.release(channel.session_id)

    @contextmanager
    def owning(self, session_id: str, epoch: int) -> Iterator[None]:
        """While entered, the session's owner writes here with this epoch."""
        channel = self.channel(session_id)
        if self.relay is not None:
            self.relay.owned(channel, epoch)
        try:
            yield
        finally:
            channel.parts.clear()
            if self.relay is not None:
                self.relay.disowned(channel)

    def nudge(self, session_id: str) -> None:
        """Has the node that runs a session look at its row. A nudge may be lost."""
        if not self.nudged(session_id) and self.relay is not None:
            self.relay.nudge(session_id)

    def nudged(self, session_id: str) -> bool:
        """Calls what waits here for nudges of a session; returns whether there is anything."""
        callback = self._nudged.get(session_id)
        if callback is not None:
            callback()
        return callback is not None

    @contextmanager
    def on_nudge(self, session_id: str, callback: Callable[[], None]) -> Iterator[None]:
        """While entered, `callback` is called on the event loop for each nudge of the session, from whatever node.
        Only one may be registered for a session at a time."""
        self._nudged[session_id] = callback
        if self.relay is not None:
            self.relay.expects_nudges(session_id, True)
        try:
            yield
        finally:
            del self._nudged[session_id]
            if self.relay is not None:
                self.relay.expects_nudges(session_id, False)

    def release(self, session_id: str) -> None:
        """Drops a channel that is unused."""
        channel = self._channels.get(session_id)
        if channel is not None and channel.unused:
            del self._channels[session_id]

    def publish(self, session_id: str, items: Sequence[StreamItem]) -> None:
        """Sends committed events to readers, in the order of their seqs."""
        if not items:
            return
        self._observe(items)
        channel = self._channels.get(session_id)
        if channel is not None:
            channel.publish(items)
        self.all.publish(items)
        self._show(session_id, items)
        if self.relay is not None:
            self.relay.published(session_id, items)

    def delete(self, session_id: str, last: StreamItem) -> None:
        """Ends the streams of a deleted session after its last event, `last`."""
        self.end(session_id, last)
        self._observe([last])
        self.all.publish([last])
        self._show(session_id, [last])
        if self.relay is not None:
            self.relay.deleted(session_id, last)

    def _show(self, session_id: str, items: Sequence[StreamItem]) -> None:
        for watch in self.watchers:
            watch(session_id, items)

    def end(self, session_id: str, last: StreamItem | None) -> None:
        """Ends the streams of a session that was deleted, here or on another node. Without its last event, which is in
        no log, they end as they are."""
        channel = self._channels.pop(session_id, None)
        if channel is not None:
            if last is None:
                channel.recent.clear()
            else:
                channel.publish([last])
            channel.deleted = True
            channel.wake()

    @property
    def readers(self) -> int:
        """Number of open streams. Thread-safe."""
        return len(self.all.readers) + sum(len(channel.readers) for channel in list(self._channels.values()))

    @property
    def lag(self) -> int:
        """How many events the slowest of all readers is behind. Thread-safe."""
        return max((channel.lag for channel in list(self._channels.values())), default=0)

    def check_room(self) -> None:
        """Raises `ServerBusyError` (code `too_many_readers`) if no further stream may be opened."""
        if self.readers >= self._most_readers:
            self.refused += 1
            raise ServerBusyError(
                f"The limit of {self._most_readers:,} open event streams is reached; try again later.",
                code="too_many_readers",
                most=self._most_readers,
            )

    def close(self) -> int:
        """Ends all streams for shutdown; returns how many there were."""
        self.closing = True
        ending = self.readers
        for channel in self._channels.values():
            channel.wake()
        for reader in self.all.readers:
            reader.set()
        return ending

    @property
    def followed(self) -> list[Channel]:
        """The channels that have readers."""
        return [channel for channel in self._channels.values() if channel.readers]

    def __len__(self) -> int:
        return len(self._channels)


class GlobalFeed:
    """The newest `session.*` events of all sessions since the start."""

    def __init__(self) -> None:
        self.count = 0
        self._recent: deque[StreamItem] = deque()
        self._recent_bytes = 0
        self.readers: set[asyncio.Event] = set()

    def publish(self, items: Iterable[StreamItem]) -> None:
        # Without readers, nobody will ask for this event, and a call's arguments need not be parsed.
        news = news_of(items if self.readers else [item for item in items if item.type.startswith("session.")])
        if news:
            cursor = cursor_at(now())
            # Added once for all readers, which share the items.
            news = [with_cursor(item, cursor) for item in news]
            self._recent.extend(news)
            self._recent_bytes += sum(len(item.data) for item in news)
            self.count += len(news)
            while len(self._recent) > GLOBAL_EVENTS or self._recent_bytes > GLOBAL_BYTES:
                self._recent_bytes -= len(self._recent.popleft().data)
            for reader in self.readers:
                reader.set()

    def disconnect(self) -> None:
        """Ends the streams of all readers, since they may have missed an event."""
        self._recent.clear()
        self._recent_bytes = 0
        self.count += 1
        for reader in self.readers:
            reader.set()

    def since(self, count: int) -> list[StreamItem] | None:
        """The events after the first `count`; None if some of them are no longer kept."""
        missing = self.count - count
        if missing > len(self._recent):
            return None
        return page(list(self._recent)[len(self._recent) - missing :])
