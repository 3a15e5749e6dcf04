"""How sessions share the connections and lookups of the egress proxies, so that no session can starve the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

MAX_CONNECTIONS = 128
"""Maximum connections served at the same time, over all sessions; each takes two of the server's descriptors."""
SESSION_CONNECTIONS = 32
"""Maximum connections served at the same time for one session."""
SESSION_LOOKUPS = 2
"""Maximum names resolved at the same time for one session."""


class Share:
    """One session's share of the connections and lookups."""

    def __init__(self) -> None:
        self.lookups = asyncio.Semaphore(SESSION_LOOKUPS)
        self.served: dict[asyncio.Task[Any], None] = {}
        """Tasks of connections being served, oldest first."""
        self.waiting: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        """Tasks of connections waiting to be served, oldest first."""

    @property
    def is_full(self) -> bool:
        return len(self.served) >= SESSION_CONNECTIONS


class Shares:
    """The shares of all sessions.

    If all connections are in use, a session that needs another one gets it from the session with the most, which closes
    its oldest, unless the first has nearly as many itself. When a connection ends, the session with the fewest is next.
    """

    def __init__(self) -> None:
        self._shares: WeakValueDictionary[str, Share] = WeakValueDictionary()

    def of(self, session: str) -> Share:
        """The share of a session, the same for all its proxies."""
        return self._shares.setdefault(session, Share())

    @asynccontextmanager
    async def serving(self, share: Share) -> AsyncIterator[None]:
        """Waits until the current task may serve a connection, which it may inside the context. The task is cancelled
        to hand its connection to another session."""
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._enter(share, task)
            yield
        finally:
            self._leave(share, task)

    async def _enter(self, share: Share, task: asyncio.Task[Any]) -> None:
        largest = max(self._shares.values(), key=lambda each: len(each.served))
        is_free = sum(len(each.served) for each in self._shares.values()) < MAX_CONNECTIONS
        # A session that would then have the most must wait, or two would keep closing each other's connections.
        if share.is_full or not (is_free or len(largest.served) > len(share.served) + 1):
            share.waiting[task] = asyncio.get_running_loop().create_future()
            await share.waiting[task]
            return
        if not is_free:
            _close_oldest(largest)
        share.served[task] = None

    def _leave(self, share: Share, task: asyncio.Task[Any]) -> None:
        share.waiting.pop(task, None)
        if task in share.served:  # it was not closed for another session
            del share.served[task]
            self._serve_next()

    def _serve_next(self) -> None:
        waiting = [share for share in self._shares.values() if share.waiting and not share.is_full]
        if waiting:
            share = min(waiting, key=lambda each: len(each.served))
            task = next(iter(share.waiting))
            turn = share.waiting.pop(task)
            share.served[task] = None
            if not turn.done():  # a task that was just cancelled leaves on its own
                turn.set_result(None)


def _close_oldest(share: Share) -> None:
    oldest = next(iter(share.served))
    del share.served[oldest]
    oldest.cancel()
