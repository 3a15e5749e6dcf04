"""A reader's stream: the log after its seq, then new events, without gaps or duplicates."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from app.db.repositories.deletions import KEPT
from app.errors import ConflictError, GoneError, MalformedRequestError, NotFoundError
from app.eventlog.bus import Bus
from app.eventlog.channel import Channel, Reader
from app.eventlog.log import EventLog, StreamItem
from app.eventlog.news import ACTIVITY, cursor_at, with_cursor
from app.events import (
    ApprovalRequested,
    ApprovalResolved,
    CompactionStarted,
    MessageDequeued,
    MessageQueued,
    ReasoningCompleted,
    SessionRecovered,
    SessionRunning,
    StepFinished,
    StepRetrying,
    StepStarted,
    TextCompleted,
    ToolCalled,
    ToolResulted,
)
from app.messages import now

Batches = AsyncIterator[list[StreamItem]]


class Sink(Protocol):
    """Sends events without waiting."""

    @property
    def is_ready(self) -> bool:
        """Whether it can send now; otherwise the events wait for the reader's task, and become fewer."""
        ...

    def write(self, items: list[StreamItem]) -> None:
        """Sends whole events. Call it only if it is ready."""
        ...


OVERLAP = timedelta(seconds=5)
"""Events that were committed less than this before a cursor are sent again: their order on a stream is not that of
their times."""

AT_ONCE_BYTES = 64 * 1024
"""Largest size of durable events that a sink gets. A response sends larger ones in pieces, each once the one before is
sent."""

AT_ONCE_CHARS = 16 * 1024
"""The same for text of open parts: 96 KiB if every character is escaped. More may take several batches."""

_MORE_FOLLOWS = frozenset(
    event.type
    for event in (
        SessionRunning,
        SessionRecovered,
        MessageQueued,
        MessageDequeued,
        StepStarted,
        StepRetrying,
        StepFinished,
        TextCompleted,
        ReasoningCompleted,
        ToolCalled,
        ToolResulted,
        ApprovalRequested,
        ApprovalResolved,
        CompactionStarted,
    )
)
"""Events that are never a session's last, so that the log need not be read after them. An event that is missing here
costs a read; one that is wrongly here leaves a stream open."""


@asynccontextmanager
async def follow(
    log: EventLog, bus: Bus, session_id: str, *, after: int, until_idle: bool, promised: bool = False
) -> AsyncIterator[Following | None]:
    """A session's events after a seq: first the log, then one delta for each open part, then new events.

    Yields batches of the events that were waiting for this reader. With `until_idle` it ends once everything was sent,
    no run and no compaction is running and no deliverable message is pending; if that is so already, the context is
    None. Raises `NotFoundError`, or
    `ConflictError` (code `ahead_of_log`) for a seq that is not assigned yet, or `ServerBusyError` if too many streams
    are open and this one is not `promised`.
    """
    if not promised:
        bus.check_room()
    wake = Reader()
    # Subscribe before the log is read, so that no event is missed in between.
    channel = bus.enter(session_id, wake)
    try:
        head = await log.head(session_id)
        if after > head.last_seq:
            raise ConflictError(
                f"The session's last event is {head.last_seq}, not {after}.",
                code="ahead_of_log",
                last_seq=head.last_seq,
            )
        channel.last_seq = max(channel.last_seq, head.last_seq)
        is_over = until_idle and head.quiet and head.last_seq == after
        yield None if is_over else Following(log, bus, channel, wake, after, until_idle)
    finally:
        # The two hold each other, and the garbage collector rarely runs.
        wake.take = None
        bus.leave(channel, wake)


class Following:
    """A reader's stream of one session: an iterator of batches. Events that come while the next batch is awaited go to
    `sink`, if it is given and ready, without the reader's task."""

    def __init__(self, log: EventLog, bus: Bus, channel: Channel, wake: Reader, seq: int, until_idle: bool) -> None:
        self.sink: Sink | None = None
        self._log, self._bus, self._channel, self._wake = log, bus, channel, wake
        self._seq, self._until_idle, self._may_end = seq, until_idle, until_idle
        self._offsets: dict[str, int] = {}
        self._taken = 0  # bytes already sent of the event after `seq`, if it is large
        self._is_waiting = False
        self._failure: Exception | None = None
        wake.take = self._take

    def __aiter__(self) -> Following:
        return self

    async def __anext__(self) -> list[StreamItem]:
        channel = self._channel
        while True:
            self._wake.seq = self._seq
            self._wake.clear()
            if items := await self._next():
                return items
            if channel.deleted or self._bus.closing or (self._may_end and await self._is_over()):
                raise StopAsyncIteration
            self._is_waiting = True
            try:
                await self._wake.wait()
            finally:
                self._is_waiting = False
            if self._failure is not None:
                raise self._failure

    async def _next(self) -> list[StreamItem]:
        channel, taken = self._channel, self._taken
        if taken:
            items = await self._log.after(channel.session_id, self._seq, offset=taken)
            if not items:
                raise StopAsyncIteration  # The session was deleted in the middle of an event.
        else:
            items = await self._durable()
        if items and not items[-1].ends:
            self._taken += len(items[-1].data)
        elif items and items[-1].seq is not None:
            self._sent(items[-1].seq, items[-1].type)
        if channel.is_shared and self._seq > channel.published:
            channel.close_read(items)
        if not self._taken and (
            self._seq == channel.published or (channel.is_shared and self._seq > channel.published)
        ):
            # The log may be ahead of the published events and may have closed a part that is still open here. With
            # several nodes, it may stay ahead: then the log has closed them, above.
            items += channel.deltas(self._offsets)
        return items

    def _sent(self, seq: int, type_: str) -> None:
        self._seq, self._taken = seq, 0
        self._may_end = self._until_idle and type_ not in _MORE_FOLLOWS

    def _take(self) -> bool:
        """Passes new events to the sink; returns False if that is for the reader's task: what the log has to be read
        for, what may be the end, what is large, and what has to wait. An error is for the task too."""
        if not self._is_waiting or self.sink is None or self._channel.deleted or self._bus.closing:
            return False
        try:
            return self._pass_to(self.sink)
        except Exception as error:
            self._failure = error
            return False

    def _pass_to(self, sink: Sink) -> bool:
        # All checks come first: what is consumed has to be sent.
        channel, seq = self._channel, self._seq
        items = channel.durable_after(seq)
        if items is None or self._may_end or not sink.is_ready:
            return False
        if items:
            seq = items[-1].seq or 0
            may_be_last = self._until_idle and items[-1].type not in _MORE_FOLLOWS
            if may_be_last or sum([len(item.data) for item in items]) > AT_ONCE_BYTES:
                return False
        if seq != channel.published or channel.waiting(self._offsets) > AT_ONCE_CHARS:
            return False
        self._seq = self._wake.seq = seq
        if items := items + channel.deltas(self._offsets):
            sink.write(items)
        return True

    async def _durable(self) -> list[StreamItem]:
        channel = self._channel
        items = channel.durable_after(self._seq)
        if items is not None:
            return items
        if channel.deleted:
            # The log is gone; readers that were behind still get the last event, if it is known.
            return list(channel.recent)[-1:]
        return await self._log.after(channel.session_id, self._seq)

    async def _is_over(self) -> bool:
        try:
            head = await self._log.head(self._channel.session_id)
        except NotFoundError:
            return False  # Just deleted; the final event is about to arrive.
        return head.quiet and head.last_seq == self._seq


@asynccontextmanager
async def follow_all(
    log: EventLog, bus: Bus, after: str | None = None, *, activity: bool = False
) -> AsyncIterator[Batches]:
    """`session.*` events of all sessions from now on, or from the time that the cursor `after` names, some of those
    again; with `activity`, also what each session is doing. A reader that falls far behind is disconnected. Raises
    `MalformedRequestError` (code `malformed_cursor`) and `GoneError` (code `cursor_expired`): then the list of sessions
    has to be read again."""
    since = None if after is None else _read_cursor(after)
    bus.check_room()
    wake = Reader()
    bus.all.readers.add(wake)
    try:
        count = bus.all.count
        missed = None if after is None or since is None else _missed(log, since, after)
        batches = _news(bus, wake, count, missed)
        yield batches if activity else _without_activity(batches)
    finally:
        bus.all.readers.discard(wake)


def _read_cursor(text: str) -> datetime:
    """The time from which on a reader may have missed events."""
    if not re.fullmatch(r"[0-9a-f]{1,11}", text):
        raise MalformedRequestError("The cursor is invalid.", code="malformed_cursor")
    since = datetime.fromtimestamp(int(text, 16) / 1000, UTC) - OVERLAP
    if since < now() - KEPT:
        raise GoneError("The cursor is too old; load the list of sessions again.", code="cursor_expired")
    return since


async def _without_activity(batches: Batches) -> Batches:
    async for items in batches:
        if wanted := [item for item in items if item.type != ACTIVITY]:
            yield wanted


async def _missed(log: EventLog, since: datetime, cursor: str) -> Batches:
    """What a reader with this cursor has missed. Only the last item moves the cursor: a reader that is disconnected
    before it gets all of them again."""
    at = now()
    held: list[StreamItem] = []
    async for found in log.news(since):
        *items, last = held + found
        held = [last]
        if items:
            yield [with_cursor(item, cursor) for item in items]
    if held:
        yield [with_cursor(held[0], cursor_at(at))]


async def _news(bus: Bus, wake: Reader, count: int, missed: Batches | None) -> Batches:
    if missed is not None:
        async for found in missed:
            yield found
    while not bus.closing:
        wake.clear()
        items = bus.all.since(count)
        if items is None:
            return
        count += len(items)
        if items:
            yield items
        else:
            await wake.wait()
