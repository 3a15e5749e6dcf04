"""A memory budget for responses that send or list files: downloads, raw outputs, archives, listings.

Each response is charged the most memory it may hold. The total is bounded, and no session can use all of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from app.api.dependencies import SessionId
from app.errors import ServerBusyError

MIB = 1024 * 1024

MOST_BYTES = 64 * MIB
"""The total for all responses. The server uses 120 MB when idle and must stay below 300 MB."""

WAIT_S = 5.0
"""How long a request waits for its share, in seconds, before it is refused with `Retry-After`."""

MOST_WAITING = 50
"""Max waiting requests per session; more are refused at once. Thousands that time out in the same moment would block
the event loop for a second."""

DOWNLOAD_BYTES = MIB // 2
"""One file or raw output: a chunk being read, a chunk waiting to be sent, the Docker Engine's buffers, the
connection."""

ARCHIVE_BYTES = 4 * MIB
"""One archive: chunks, and the names of the directories on the current path."""

LISTING_BYTES = 8 * MIB
"""One listing while it is built; then it is charged its actual size."""


class _Waiter(NamedTuple):
    size: int
    granted: asyncio.Future[None]


class DownloadBudget:
    """Grants shares of the memory. A session may hold half of what the others leave, so that some is always left for a
    new one."""

    def __init__(self, most: int = MOST_BYTES, wait_s: float = WAIT_S) -> None:
        self.most = most
        self.held = 0
        self._wait_s = wait_s
        self._by_session: Counter[str] = Counter()
        self._lines: dict[str, deque[_Waiter]] = {}

    @asynccontextmanager
    async def share(self, session_id: str, size: int) -> AsyncIterator[Share]:
        """Holds `size` bytes while the context lasts. Raises `ServerBusyError` (`too_many_downloads`) if no memory
        becomes free in time, or if too many requests of the session are waiting."""
        await self._take(session_id, size)
        share = Share(self, session_id, size)
        try:
            yield share
        finally:
            share.shrink(0)

    async def _take(self, session_id: str, size: int) -> None:
        if session_id not in self._lines and self._fits(session_id, size):
            self._add(session_id, size)
            return
        line = self._lines.setdefault(session_id, deque())
        if len(line) >= MOST_WAITING:
            raise too_many_downloads()
        waiter = _Waiter(size, asyncio.get_running_loop().create_future())
        line.append(waiter)
        try:
            async with asyncio.timeout(self._wait_s):
                await waiter.granted
        except BaseException as error:
            self._leave(session_id, waiter)
            if isinstance(error, TimeoutError):
                raise too_many_downloads() from None
            raise

    def _leave(self, session_id: str, waiter: _Waiter) -> None:
        if waiter.granted.done() and not waiter.granted.cancelled():
            # Granted in the same moment as the wait ended: give it back unused.
            self.give_back(session_id, waiter.size)
            return
        line = self._lines.get(session_id)
        # A `give_back` in the same moment may have removed it already.
        if line is not None and waiter in line:
            line.remove(waiter)
            self._grant(session_id)

    def _fits(self, session_id: str, size: int) -> bool:
        own = self._by_session[session_id]
        return own + size <= (self.most - (self.held - own)) // 2

    def _add(self, session_id: str, size: int) -> None:
        self.held += size
        self._by_session[session_id] += size

    def give_back(self, session_id: str, size: int) -> None:
        """Frees a part of a session's share and grants it to waiters: sessions that hold the least come first."""
        self._add(session_id, -size)
        if not self._by_session[session_id]:
            del self._by_session[session_id]
        for waiting in sorted(self._lines, key=self._by_session.__getitem__):
            self._grant(waiting)

    def _grant(self, session_id: str) -> None:
        line = self._lines[session_id]
        while line and (line[0].granted.done() or self._fits(session_id, line[0].size)):
            if not line[0].granted.done():
                self._add(session_id, line[0].size)
                line[0].granted.set_result(None)
            line.popleft()
        if not line:
            del self._lines[session_id]


class Share:
    """The memory charged to one response."""

    def __init__(self, budget: DownloadBudget, session_id: str, size: int) -> None:
        self._budget = budget
        self._session_id = session_id
        self.size = size

    def shrink(self, size: int) -> None:
        """Keeps at most `size` bytes and frees the rest."""
        rest, self.size = self.size - min(size, self.size), min(size, self.size)
        if rest:
            self._budget.give_back(self._session_id, rest)


def too_many_downloads() -> ServerBusyError:
    return ServerBusyError("The memory for downloads is in use by other requests.", code="too_many_downloads")


def _held(size: int) -> Callable[[Request, SessionId], AsyncIterator[Share]]:
    async def held(request: Request, session_id: SessionId) -> AsyncIterator[Share]:
        budget: DownloadBudget = request.app.state.downloads
        async with budget.share(session_id, size) as share:
            yield share

    return held


# FastAPI exits these after the response has been sent.
DownloadShare = Annotated[Share, Depends(_held(DOWNLOAD_BYTES))]
ArchiveShare = Annotated[Share, Depends(_held(ARCHIVE_BYTES))]
ListingShare = Annotated[Share, Depends(_held(LISTING_BYTES))]
