"""Stops a superseded server: the most recently started server holds the database.

The epoch of a session's row refuses a stale owner's writes. The fence applies to the whole server, so that it ends its
runs without waiting for a write, reclaims no sessions and accepts no new work. It matters if two servers share a
database: the first one was frozen or disconnected, and another was started in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import holders
from app.errors import StorageError, SupersededError
from app.messages import new_id
from app.runtime.background import in_background

log = structlog.get_logger(__name__)

LOOK_S = 1.0
"""How often a server checks whether it still holds the database, in seconds; its runs should end within two more. A
check reads one row."""


async def holds(database: Database, check: Callable[[Connection], None]) -> bool:
    """Whether a server still holds its database, according to its `Fence.check`. True if that cannot be read: every
    write is checked separately."""
    try:
        await database.read(check)
    except SupersededError:
        return False
    except StorageError:
        return True
    return True


class Fence:
    """One server's hold on its database, from `take` until another server takes it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder = new_id()

    async def take(self) -> None:
        """Takes over the database."""
        await self._database.writer.write(lambda c: holders.take(c, self._holder))

    def check(self, connection: Connection) -> None:
        """Raises `SupersededError` if another server holds the database; called inside a write, so that only the holder
        writes."""
        if holders.current(connection) != self._holder:
            raise SupersededError("Another server was started on this database and has taken over the sessions.")

    @asynccontextmanager
    async def watched(self, on_loss: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Checks the hold while the context lasts; `on_loss` is awaited once it is lost."""
        async with in_background(self._watch(on_loss), "fence"):
            yield

    async def _watch(self, on_loss: Callable[[], Awaitable[None]]) -> None:
        while await holds(self._database, self.check):  # noqa: ASYNC110 - the other server is another process
            await asyncio.sleep(LOOK_S)
        log.error(
            "server_superseded",
            detail="Another server was started on this database. This one has ended its runs and accepts no more work;"
            " stop it, or restart it to take the sessions back.",
        )
        await on_loss()
