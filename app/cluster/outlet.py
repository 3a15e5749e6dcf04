"""What the owner of a session sends to other nodes, and how they apply it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from app.cluster.wire import Delta, Update
from app.eventlog.channel import DELTA_CHARS, RECENT_BYTES, RECENT_EVENTS, Channel
from app.eventlog.log import StreamItem, page


class Outlet:
    """The owner's side of one session, in effect a reader of its channel: committed events that wait to be sent, and
    an offset per open part. Nothing waits for a slow broker: deltas grow together, and events beyond a bound are left
    to the log."""

    def __init__(self, channel: Channel, epoch: int) -> None:
        self.channel, self.epoch = channel, epoch
        self.is_ready = False
        """Whether questions about the session reach this node, so that it may stop sending while nobody listens."""
        self.has_listeners = True
        """Until the first message shows that there are none."""
        self.asked = 0
        """How often another node has asked: a count of no listeners that was taken before is outdated."""
        self.dropped = 0
        self._waiting: deque[StreamItem] = deque()
        self._waiting_bytes = 0
        self._offsets: dict[str, int] = {}
        self._is_full = True

    @property
    def sends(self) -> bool:
        return self.is_ready and self.has_listeners

    def published(self, items: Sequence[StreamItem]) -> None:
        """Committed events, which must be in the channel already."""
        if not self.sends:
            return
        self._waiting.extend(items)
        self._waiting_bytes += sum(len(item.data) for item in items)
        if len(self._waiting) > RECENT_EVENTS or self._waiting_bytes > RECENT_BYTES:
            # What they close is repeated by the full list of the open parts.
            self.dropped += len(self._waiting)
            self._clear()

    def start(self) -> None:
        """Sends everything from now on, first the open parts, whoever may listen."""
        self.is_ready = self.has_listeners = True
        self._restart()

    def stop(self) -> None:
        """Sends nothing until `start`: the broker is away."""
        self.is_ready, self.has_listeners = False, True
        self._restart()

    def ask(self) -> None:
        """Another node listens. It needs a `snapshot`; what it holds need not be sent again."""
        self.asked += 1
        if not self.has_listeners:
            self.has_listeners = True
            self._clear()
            self._offsets = {part_id: part.end for part_id, part in self.channel.parts.items()}
            self._is_full = False

    def no_listeners(self) -> None:
        """Nobody has received the last message."""
        self.has_listeners = False
        self._restart()

    def _restart(self) -> None:
        self._clear()
        self._offsets.clear()

    def _clear(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        self._is_full = True

    def take(self, node: str) -> Update | None:
        """The next message, None if there is nothing to send. There may be more at once."""
        if not self.sends:
            return None
        events = page(list(self._waiting))
        for _ in events:
            self._waiting_bytes -= len(self._waiting.popleft().data)
        # A part's text must not overtake the event that closes an earlier one.
        deltas = [] if self._waiting else list(_deltas(self.channel, self._offsets))
        if not (events or deltas or self._is_full):
            return None
        full, self._is_full = self._is_full, False
        head = (events[-1].seq or 0) if self._waiting else self.channel.published
        opened = tuple(self.channel.parts) if full else ()
        return Update(node, self.channel.session_id, events, self.epoch, head, deltas, full, opened)

    def snapshot(self, node: str) -> Iterator[Update]:
        """All open parts, for a node that listens from now on."""
        channel, offsets = self.channel, dict[str, int]()
        opened = tuple(channel.parts)
        deltas = list(_deltas(channel, offsets))
        yield Update(node, channel.session_id, (), self.epoch, channel.published, deltas, True, opened)
        while deltas := list(_deltas(channel, offsets)):
            yield Update(node, channel.session_id, (), self.epoch, channel.published, deltas)

    def last(self, node: str) -> Update | None:
        """The last message of an owner that has ended: its remaining events, and no open part. A short run may end
        before it is ready."""
        if not self.has_listeners:
            return None
        channel = self.channel
        return Update(node, channel.session_id, list(self._waiting), self.epoch, channel.published, (), True, ())


def _deltas(channel: Channel, offsets: dict[str, int]) -> Iterator[Delta]:
    """Text beyond the offsets, up to `DELTA_CHARS`. Advances the offsets and drops those of closed parts."""
    for part_id in offsets.keys() - channel.parts.keys():
        del offsets[part_id]
    room = DELTA_CHARS
    for part_id, part in channel.parts.items():
        seen = offsets.get(part_id)
        if seen == part.end:
            continue
        for offset, text, stream in part.since(seen or 0, room):
            is_new = part_id not in offsets
            yield Delta(part_id, offset, text, stream, *((part.event, part.fields) if is_new else ()))
            offsets[part_id] = offset + len(text)
            room -= len(text)
        if room <= 0:
            return


class Inlet:
    """The other side: applies what a session's owner and other nodes send to the channel that readers follow here."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._epoch = 0

    def apply(self, update: Update) -> bool:
        """Returns False if something is missing, so that the owner has to be asked for the open parts."""
        channel = self.channel
        channel.publish(update.events)
        # An owner here writes into the channel itself; a stale one writes what is void.
        if not update.epoch or update.epoch < self._epoch or channel.running:
            return True
        is_complete = update.full or update.epoch == self._epoch
        if update.epoch > self._epoch:
            self._epoch = update.epoch
            if not update.full:
                channel.parts.clear()
        if update.full:
            for part_id in channel.parts.keys() - set(update.open):
                del channel.parts[part_id]
        for delta in update.deltas:
            is_complete = _extend(channel, delta) and is_complete
        channel.advance(update.head)
        channel.wake()
        return is_complete


def _extend(channel: Channel, delta: Delta) -> bool:
    part = channel.parts.get(delta.part_id)
    if part is None:
        if delta.fields is None:
            return False
        part = channel.open_part(delta.part_id, delta.event, delta.fields)
    return part.extend(delta.offset, delta.text, delta.stream)
