"""Events: one session's as a stream or in pages, and the changes of all sessions."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager

from app.db.engine import Database
from app.errors import ConflictError
from app.eventlog.bus import Bus
from app.eventlog.log import EventLog
from app.eventlog.reader import follow, follow_all
from app.runtime.cursors import read_seq
from app.runtime.log_pages import log_page
from app.runtime.values.events import EventStream, LogPage


class EventService:
    """Opens streams of events; leaving a stream's context ends its subscription."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._log = EventLog(database)
        self._bus = bus

    def check_room(self) -> None:
        """Raises `ServerBusyError` if no further stream may be opened."""
        self._bus.check_room()

    async def follow(
        self, session_id: str, *, after: int, until_idle: bool, promised: bool = False
    ) -> AbstractAsyncContextManager[EventStream]:
        """The session's events after `after`, durable and live. Raises `ConflictError` (code `ahead_of_log`) if `after`
        is larger than the session's last seq. `promised` marks a stream that has already passed `check_room`."""
        head = await self._log.head(session_id)
        if after > head.last_seq:
            raise ConflictError(
                f"The session's last event is {head.last_seq}, not {after}.",
                code="ahead_of_log",
                last_seq=head.last_seq,
            )
        return follow(self._log, self._bus, session_id, after=after, until_idle=until_idle, promised=promised)

    def follow_all(self) -> AbstractAsyncContextManager[EventStream]:
        """`session.*` events of all sessions from now on, without seq."""
        return follow_all(self._bus)

    async def page(
        self, session_id: str, *, after: str | None, limit: int, types: Collection[str], newest_first: bool
    ) -> LogPage:
        """Durable events as data, optionally only of some types. Raises `MalformedRequestError` for an invalid
        `after`."""
        start = None if after is None else read_seq(after)
        return await self._database.read(
            lambda c: log_page(c, session_id, after=start, limit=limit, types=types, newest_first=newest_first)
        )
