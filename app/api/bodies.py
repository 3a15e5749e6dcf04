"""Limits for request bodies in memory: a size and a minimum speed for each, and a total for all."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from app.errors import MalformedRequestError, ServerBusyError, TooLargeError

MAX_HELD_BYTES = 96 * 1024 * 1024
"""Total for all bodies; raised only if a single body may be larger."""

GRACE_S = 30.0
"""Seconds that a client may keep the server waiting for a body, in addition to the time that it takes at `PACE`."""

PACE = 16 * 1024
"""Minimum speed of a client in bytes per second, low enough for a slow connection."""


class Bodies:
    """The memory that all request bodies hold."""

    def __init__(self, most: int = MAX_HELD_BYTES, grace_s: float = GRACE_S) -> None:
        self.most = most
        self.grace_s = grace_s
        self.held = 0


class Body:
    """The body of one request, from its first byte until `release`."""

    def __init__(self, bodies: Bodies, receive: Receive, limit: int) -> None:
        self._bodies = bodies
        self._receive = receive
        self._limit = limit
        self._taken = 0
        self._patience_s = bodies.grace_s
        self._complete = False

    async def receive(self) -> Message:
        """The client's next message. Raises `TooLargeError`, `ServerBusyError` (`too_many_bodies`), and
        `MalformedRequestError` for a body that does not arrive in time."""
        if self._complete:
            return await self._receive()
        message = await self._in_time()
        self._complete = not message.get("more_body", False)
        self._take(len(message.get("body", b"")))
        return message

    def release(self) -> None:
        """Frees the body's memory after the response."""
        self._bodies.held -= self._taken
        self._taken = 0

    async def _in_time(self) -> Message:
        """Counts only the time that the server waits for the client, not the client's wait for its turn."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._receive()
        except TimeoutError:
            raise MalformedRequestError("The body did not arrive in time.") from None
        finally:
            self._patience_s -= loop.time() - began

    def _take(self, size: int) -> None:
        self._taken += size
        self._bodies.held += size
        self._patience_s += size / PACE
        if self._taken > self._limit:
            raise too_large(self._limit)
        if size and self._bodies.held > self._bodies.most:
            raise ServerBusyError("Other requests use all memory for request bodies.", code="too_many_bodies")


def too_large(limit: int, what: str = "The body") -> TooLargeError:
    return TooLargeError(f"{what} is larger than {limit} bytes.", limit_bytes=limit)
