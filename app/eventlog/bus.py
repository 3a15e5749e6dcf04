"""Live fan-out inside the process.

A session that is followed or running has a channel: the newest durable events, bounded, and the text of each part that
is being written. A reader keeps a seq and one offset per open part and fetches what is new when it is ready, so a slow
reader gets fewer and larger deltas, costs nothing and delays nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.errors import ServerBusyError
from app.eventlog.channel import Channel
from app.eventlog.feed import GlobalFeed
from app.eventlog.log import StreamItem


class Bus:
    """The channels of the sessions that are followed or running. `observe` is called with all committed events; at most
    `most_readers` streams may be open at the same time."""

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
        """A session's channel, created if missing; call `release` when it may have become unused."""
        return self._channels.setdefault(session_id, Channel(session_id))

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

    def delete(self, session_id: str, farewell: StreamItem) -> None:
        """Ends the streams of a deleted session after its last event, `farewell`."""
        channel = self._channels.pop(session_id, None)
        if channel is not None:
            channel.publish([farewell])
            channel.deleted = True
            channel.wake()
        self._observe([farewell])
        self.all.publish([farewell])

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

    def __len__(self) -> int:
        return len(self._channels)
