"""Looks at the database for events of followed sessions that no message has announced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import orjson
import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import events
from app.errors import StorageError
from app.eventlog.bus import Bus
from app.eventlog.channel import Channel
from app.eventlog.log import StreamItem
from app.messages import now
from app.runtime.setup import in_background

HURRIED_S, CALM_S = 1.0, 5.0
"""Seconds between looks at all followed sessions: without a broker, and with one, where a message is rarely lost."""
OVERLAP = timedelta(seconds=5)
"""How far back a look for events of all sessions reaches: a transaction may take that long, and the loss of the broker
be noticed that late."""
MAX_SEEN = 10_000
"""Events that are remembered, so that none is repeated; if one is, that does no harm."""

log = structlog.get_logger(__name__)


class LogPoll:
    """Reads the last seq of each followed session in one query, and wakes the readers of those with new events."""

    def __init__(self, bus: Bus, database: Database) -> None:
        self._bus, self._database = bus, database
        self._followed: dict[str, Channel] = {}
        self._soon: set[str] = set()
        self._wake = asyncio.Event()
        self._is_hurried = True
        self._seen: dict[tuple[str, int], None] = {}
        """The events that readers of all sessions have got while there is no broker, by session and seq, oldest
        first."""
        self._since: datetime | None = None

    def follow(self, channel: Channel) -> None:
        self._followed[channel.session_id] = channel

    def unfollow(self, session_id: str) -> None:
        self._followed.pop(session_id, None)
        self._soon.discard(session_id)

    def saw(self, session_id: str, items: Sequence[StreamItem]) -> None:
        """Events that readers of all sessions have got without the poll."""
        for item in items:
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
        """Whether to look once a second, also for readers of all sessions, since no messages come."""
        if is_hurried == self._is_hurried:
            return
        self._is_hurried = is_hurried
        if is_hurried:
            self._since = now() - OVERLAP
        else:
            self._seen.clear()
            # A deletion is in no log: readers of all sessions may have missed one. They reload when they reconnect.
            self._bus.all.disconnect()
        self._wake.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Polls while the context lasts."""
        self._since = now()
        async with in_background(self._run(), "log-poll"):
            yield

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = 0.0
        while True:
            period = HURRIED_S if self._is_hurried else CALM_S
            due = min(due, loop.time() + period)
            is_due = loop.time() >= due
            sessions = set(self._followed) if is_due else self._soon & self._followed.keys()
            if is_due:
                due = loop.time() + period
            self._soon.clear()
            self._wake.clear()
            try:
                await self._look_at(sessions)
                if is_due and self._is_hurried and self._bus.all.readers:
                    await self._read_feed()
            except StorageError as error:
                log.warning("log_poll_failed", error=error.detail)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()

    async def _look_at(self, sessions: Collection[str]) -> None:
        if not sessions:
            return
        heads = await self._database.read(lambda c: events.heads(c, sessions))
        for session_id in sessions:
            channel = self._followed.get(session_id)
            if channel is None:
                continue
            if session_id not in heads:
                self._bus.end(session_id, None)
            elif heads[session_id] > channel.last_seq:
                channel.last_seq = heads[session_id]
                channel.wake()

    async def _read_feed(self) -> None:
        """Publishes the `session.*` events of all sessions since the last look."""
        since, self._since = self._since or now(), now() - OVERLAP
        found = await self._database.read(lambda c: _news(c, since))
        self._bus.all.publish(self._unseen(found, since))

    def _unseen(self, found: Iterable[tuple[str, events.StoredEvent]], since: datetime) -> list[StreamItem]:
        items: list[StreamItem] = []
        for session_id, event in found:
            is_new = (session_id, event.seq) not in self._seen
            if is_new and datetime.fromisoformat(orjson.loads(event.data)["at"]) >= since:
                items.append(StreamItem(event.type, None, event.data.encode()))
                self._mark((session_id, event.seq))
        return items


def _news(connection: Connection, since: datetime) -> list[tuple[str, events.StoredEvent]]:
    return list(events.of_sessions(connection, since))
