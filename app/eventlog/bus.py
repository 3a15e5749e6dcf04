"""Live fan-out inside the process.

A session that somebody follows, or that runs, has a channel: the newest durable events, bounded, and one text for each
part that is being written. A reader keeps a seq and one offset per open part and takes what is new when it comes back,
so a slow reader gets fewer and larger deltas, costs nothing and holds nobody up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.errors import ServerBusyError
from app.eventlog.channel import Channel
from app.eventlog.feed import GlobalFeed
from app.eventlog.log import StreamItem


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
