"""Polls the log for events that other nodes have committed and no message has announced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import deletions, events
from app.db.repositories.deletions import LastEvent
from app.errors import PalimpsestError
from app.eventlog.bus import Bus
from app.eventlog.log import StreamItem, news_item
from app.eventlog.missed import News, news
from app.messages import now

ALONE_S = 0.2
"""Seconds between looks at all followed sessions where no broker is set, so that events come from the log alone."""
HURRIED_S, CALM_S = 1.0, 5.0
"""The same while the broker is away, and with one, where a message is rarely lost."""
FEED_S = 1.0
"""Seconds between looks for events of all sessions: each reads all rows of sessions."""
OVERLAP = timedelta(seconds=5)
"""How far back a look for events of all sessions reaches: a transaction may take that long, and the loss of the broker
be noticed that late."""
MAX_SEEN = 10_000
"""Events that are remembered, so that none is repeated; if one is, that does no harm."""

log = structlog.get_logger(__name__)


class LogPoll:
    """Reads the last seq of each followed session in one query, and wakes the readers of those with new events. While
    it runs, the bus is shared with other nodes. `hurried_s` are the seconds between two looks without a broker."""

    def __init__(self, bus: Bus, database: Database, hurried_s: float = HURRIED_S) -> None:
        self._bus, self._database, self._hurried_s = bus, database, hurried_s
        self._soon: set[str] = set()
        self._wake = asyncio.Event()
        self._is_hurried = True
        self._is_failing = False
        self._seen: dict[tuple[str, int], None] = {}
        """The events that readers of all sessions have got while there is no broker, by session and seq, oldest
        first."""
        self._since: datetime | None = None
        self._feed_due = 0.0

    def _saw(self, session_id: str, items: Sequence[StreamItem]) -> None:
        """Readers of all sessions have got these events without the poll."""
        for item in items if self._is_hurried else ():
            if item.type.startswith("session.") and item.seq is not None:
                self._mark((session_id, item.seq))

    def _mark(self, event: tuple[str, int]) -> None:
        if len(self._seen) >= MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[event] = None

    def look(self, session_id: str) -> None:
        """Looks at a session at once."""
        self._soon.add(session_id)
        self._wake.set()

    def hurry(self, is_hurried: bool) -> None:
        """Whether to look often, also for readers of all sessions, since no messages come."""
        if is_hurried == self._is_hurried:
            return
        self._is_hurried = is_hurried
        if is_hurried:
            self._since = now() - OVERLAP
        else:
            self._seen.clear()
            # They may have missed events of the last moments, and reload their lists when they reconnect.
            self._bus.all.disconnect()
        self._wake.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Polls while the context lasts."""
        self._since = now()
        self._bus.is_shared = True
        self._bus.watchers.append(self._saw)
        task = asyncio.create_task(self._run(), name="log-poll")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = 0.0
        while True:
            period = self._hurried_s if self._is_hurried else CALM_S
            due = min(due, loop.time() + period)
            is_due = loop.time() >= due
            followed = {channel.session_id for channel in self._bus.followed}
            sessions = followed if is_due else self._soon & followed
            if is_due:
                due = loop.time() + period
            self._soon.clear()
            self._wake.clear()
            await self._look(sessions)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()

    async def _look(self, sessions: Collection[str]) -> None:
        """One round. What fails is tried again in the next one."""
        try:
            await self.look_at(sessions)
            await self._look_at_feed()
            self._is_failing = False
        except PalimpsestError as error:
            if not self._is_failing:
                log.warning("log_poll_failed", reason=error.detail)
            self._is_failing = True
        except Exception:
            log.exception("log_poll_crashed")

    async def look_at(self, session_ids: Collection[str]) -> None:
        """Wakes the readers of sessions with new events, and ends the streams of deleted ones. Raises
        `StorageError`."""
        if not session_ids:
            return
        heads, deleted = await self._database.read(lambda c: _heads(c, session_ids))
        for channel in self._bus.followed:
            session_id = channel.session_id
            if session_id in heads:
                if heads[session_id] > channel.last_seq:
                    channel.last_seq = heads[session_id]
                    channel.wake()
            elif session_id in session_ids:
                last = deleted.get(session_id)
                self._bus.end(
                    session_id, None if last is None else StreamItem("session.deleted", last.seq, last.data.encode())
                )

    async def _look_at_feed(self) -> None:
        """Publishes the `session.*` events of all sessions since the last look."""
        at = asyncio.get_running_loop().time()
        if not self._is_hurried or not self._bus.all.readers or at < self._feed_due:
            return
        self._feed_due = at + FEED_S
        begun = now()
        async for found in news(self._database, self._since or begun, newest_only=False):
            self._bus.all.publish(self._unseen(found))
        self._since = begun - OVERLAP

    def _unseen(self, found: News) -> list[StreamItem]:
        new = [(session_id, event) for session_id, event in found if (session_id, event.seq) not in self._seen]
        for session_id, event in new:
            self._mark((session_id, event.seq))
        return [news_item(event.type, event.seq, event.data.encode()) for _, event in new]


def _heads(connection: Connection, session_ids: Collection[str]) -> tuple[dict[str, int], dict[str, LastEvent]]:
    """The newest seq of each session, and the last events of those that were deleted."""
    heads = events.heads(connection, session_ids)
    missing = set(session_ids) - heads.keys()
    return heads, {last.session_id: last for last in deletions.of(connection, missing)} if missing else {}
