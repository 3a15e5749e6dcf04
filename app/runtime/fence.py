"""Keeps a server that was taken over from working on: the one that started last holds the database.

The epoch of a session's row refuses a stale owner's writes. This tells the whole server, so that it ends what it runs
without waiting for a write, claims no session back and accepts no work that another one would have to do. It matters
where two servers have one database: the first one was frozen, or cut off, and another was started in its place.
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
"""How often a server looks whether it still holds the database, in seconds; what it runs is to end within two more. A
look is one read of one row."""


async def holds(database: Database, check: Callable[[Connection], None]) -> bool:
    """Whether a server holds its database still, as its `Fence.check` tells. Where that cannot be read, nothing is
    known and it does: whatever is written meanwhile is checked by itself."""
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
        """Takes the database over from whoever held it."""
        await self._database.writer.write(lambda c: holders.take(c, self._holder))

    def check(self, connection: Connection) -> None:
        """Raises `SupersededError` where another server holds the database; inside a write, so that what the write
        does is done by the holder."""
        if holders.current(connection) != self._holder:
            raise SupersededError("Another server has been started on this database; it has the sessions now.")

    @asynccontextmanager
    async def watched(self, on_loss: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Looks at the hold while the context lasts; `on_loss` is awaited once it is lost."""
        async with in_background(self._watch(on_loss), "fence"):
            yield

    async def _watch(self, on_loss: Callable[[], Awaitable[None]]) -> None:
        while await holds(self._database, self.check):  # noqa: ASYNC110 - the other server is another process
            await asyncio.sleep(LOOK_S)
        log.error(
            "superseded",
            detail="Another server has been started on this database. This one has ended its runs and accepts no more"
            " work; stop it, or start it again to take the sessions back.",
        )
        await on_loss()
