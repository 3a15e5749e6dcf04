"""Events that other processes commit to the same database: readers here get them from the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import ownership
from app.db.repositories.ownership import Farewell
from app.errors import PalimpsestError
from app.eventlog.bus import Bus
from app.eventlog.channel import Channel
from app.eventlog.log import EventLog, StreamItem

TAIL_S = 0.2
"""How often the log's end is looked up, in seconds. All sessions that are followed here share one query."""

log = structlog.get_logger(__name__)


class LogTail:
    """Looks for new events of the sessions that have readers in this process, and wakes those readers."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._log = EventLog(database)
        self._bus = bus
        self._behind: dict[str, int] = {}
        """By session, the newest event published here, if newer ones were found in the log."""

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Looks regularly while the context lasts."""
        task = asyncio.create_task(self._run(), name="log-tail")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        failing = False
        while True:
            try:
                await self.look()
                failing = False
            except PalimpsestError as error:
                if not failing:
                    log.warning("log_tail_failed", reason=error.detail)
                failing = True
            except Exception:
                log.exception("log_tail_crashed")
            await asyncio.sleep(TAIL_S)

    async def look(self) -> None:
        """Wakes the readers of sessions with new events, and ends the streams of deleted ones."""
        channels = {channel.session_id: channel for channel in self._bus.followed}
        self._behind = {id: seq for id, seq in self._behind.items() if id in channels}
        if not channels:
            return
        last, farewells = await self._database.read(lambda c: _read(c, set(channels)))
        for session_id, seq in last.items():
            await self._note(channels[session_id], seq)
        for session_id, farewell in farewells.items():
            self._bus.delete(session_id, StreamItem("session.deleted", farewell.seq, farewell.data.encode()))

    async def _note(self, channel: Channel, last: int) -> None:
        """An event of the log was found to be the newest one."""
        if last > channel.last_seq:
            channel.last_seq = last
            channel.wake()
        if not channel.running or last <= channel.published:
            self._behind.pop(channel.session_id, None)
        elif self._behind.get(channel.session_id) != channel.published:
            self._behind[channel.session_id] = channel.published
        else:
            # Its owner is here. What it has committed itself is published within moments, so that these are others'
            # events. Readers get the text of open parts only once they are past everything that was published.
            channel.publish(await self._log.after(channel.session_id, max(channel.published, last - 1)))


def _read(connection: Connection, session_ids: set[str]) -> tuple[Mapping[str, int], Mapping[str, Farewell]]:
    """The newest event of each session, and the last ones of those that were deleted."""
    last = ownership.last_seqs(connection, session_ids)
    gone = {id: ownership.farewell_of(connection, id) for id in session_ids - last.keys()}
    return last, {id: farewell for id, farewell in gone.items() if farewell is not None}
