"""A reader's stream: the log after its seq, then new events, without gaps or duplicates."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

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
OVERLAP = timedelta(seconds=5)
"""Events that were committed less than this before a cursor are sent again: their order on a stream is not that of
their times."""

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
) -> AsyncIterator[Batches | None]:
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
        yield None if is_over else _batches(log, bus, channel, wake, after, until_idle)
    finally:
        bus.leave(channel, wake)


async def _batches(log: EventLog, bus: Bus, channel: Channel, wake: Reader, seq: int, until_idle: bool) -> Batches:
    offsets: dict[str, int] = {}
    may_end = until_idle
    taken = 0  # bytes already sent of the event after `seq`, if it is large
    while True:
        wake.seq = seq
        wake.clear()
        items = await log.after(channel.session_id, seq, offset=taken) if taken else await _durable(log, channel, seq)
        if taken and not items:
            return  # The session was deleted in the middle of an event.
        if items and not items[-1].ends:
            taken += len(items[-1].data)
        elif items and items[-1].seq is not None:
            seq, taken = items[-1].seq, 0
            may_end = until_idle and items[-1].type not in _MORE_FOLLOWS
        if channel.is_shared and seq > channel.published:
            channel.close_read(items)
        if not taken and (seq == channel.published or (channel.is_shared and seq > channel.published)):
            # The log may be ahead of the published events and may have closed a part that is still open here. With
            # several nodes, it may stay ahead: then the log has closed them, above.
            items += channel.deltas(offsets)
        if items:
            yield items
            continue
        if channel.deleted or bus.closing or (may_end and await _is_over(log, channel, seq)):
            return
        await wake.wait()


async def _durable(log: EventLog, channel: Channel, seq: int) -> list[StreamItem]:
    items = channel.durable_after(seq)
    if items is not None:
        return items
    if channel.deleted:
        # The log is gone; readers that were behind still get the last event, if it is known.
        return list(channel.recent)[-1:]
    return await log.after(channel.session_id, seq)


async def _is_over(log: EventLog, channel: Channel, seq: int) -> bool:
    try:
        head = await log.head(channel.session_id)
    except NotFoundError:
        return False  # Just deleted; the final event is about to arrive.
    return head.quiet and head.last_seq == seq


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
