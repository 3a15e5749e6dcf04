"""Slots for running sandboxes, given in order of request, and a session's hold on its sandbox."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from app.errors import SandboxAwayError
from app.sandbox.base import Sandbox

AWAY_RETRY_S = 1.0
"""Seconds between retries while the sandbox engine does not answer."""
log = structlog.get_logger(__name__)


async def _nothing() -> None: ...


class Slots:
    """`make_room` is called when a waiter arrives, to free a slot that is not really needed."""

    def __init__(self, most: int, make_room: Callable[[], None] = lambda: None) -> None:
        self.most = most
        self.taken = 0
        self.refused = 0
        self._make_room = make_room
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """Number of waiters. Thread-safe."""
        return len(self._line)

    @property
    def has_room(self) -> bool:
        """Whether half of the slots are free, so that one may be taken for a sandbox that may not be needed."""
        return not self._line and 2 * self.taken < self.most

    def force(self) -> None:
        """Takes a slot for something that already exists, even beyond the bound."""
        self.taken += 1

    async def take(self, wait_s: float) -> None:
        """Takes a slot. Raises `TimeoutError` if none becomes free within `wait_s` seconds."""
        if self.taken < self.most and not self._line:
            self.taken += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        self._make_room()
        try:
            async with asyncio.timeout(wait_s):
                await place
        except BaseException as error:
            self.refused += isinstance(error, TimeoutError)
            if place.done() and not place.cancelled():
                # The slot was granted at the same moment and is not used.
                self.give_back()
            elif place in self._line:
                # Otherwise a concurrent `give_back` has already skipped this waiter.
                self._line.remove(place)
            raise

    def give_back(self) -> None:
        """Frees a slot, which goes to the longest waiter."""
        self.taken -= 1
        while self._line and self.taken < self.most:
            place = self._line.popleft()
            if not place.done():
                self.taken += 1
                place.set_result(None)


@dataclass(slots=True)
class Lease:
    """A session's hold on its sandbox: while it lasts, the sandbox is not stopped as idle."""

    sandbox: Sandbox
    release: Callable[[], None] = field(repr=False)
    admit: Callable[[float], Awaitable[None]] = field(repr=False)
    """Waits at most this many seconds until the sandbox may run. Its workspace may be changed from then on."""
    wait_s: float
    as_of: datetime | None = None
    """The time of the snapshot that is read in place of the sandbox, None if it is the sandbox itself."""

    admit_ahead: Callable[[], Awaitable[None]] = field(default=_nothing, repr=False)
    """Like `admit`, for a sandbox that nothing uses yet, with a slot that is free."""

    async def start(self) -> Sandbox:
        """The started sandbox. Waits at most `wait_s` seconds for a free slot and for the sandbox engine; then raises
        `SandboxUnavailableError`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.wait_s
        await self.admit(self.wait_s)
        return await self._started(deadline)

    async def start_ahead(self) -> Sandbox:
        """Like `start`, for a use that may follow and begins with `start`."""
        await self.admit_ahead()
        return await self._started(0.0)

    async def _started(self, deadline: float) -> Sandbox:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self.sandbox.start()
            except SandboxAwayError as error:
                if loop.time() >= deadline:
                    raise
                log.warning("sandbox_waiting", error=error.detail)
                await asyncio.sleep(AWAY_RETRY_S)
            else:
                return self.sandbox
