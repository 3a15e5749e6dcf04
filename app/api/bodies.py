"""The bodies of requests while they are in memory: each has a size and a pace, and all together have a bound."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from app.errors import MalformedRequestError, ServerBusyError, TooLargeError

MAX_HELD_BYTES = 96 * 1024 * 1024
"""All bodies together; more only where a single one may be larger."""

GRACE_S = 30.0
"""Seconds that a client may keep the server waiting for a body, besides the time that it takes at `PACE`."""

PACE = 16 * 1024
"""Bytes in a second that the slowest client sends; a slow telephone line does."""


class Bodies:
    """What the bodies of all requests hold."""

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
        """The next message of the client. Raises `TooLargeError`, `ServerBusyError` (`too_many_bodies`), and
        `MalformedRequestError` for a body that does not arrive."""
        if self._complete:
            return await self._receive()
        message = await self._in_time()
        self._complete = not message.get("more_body", False)
        self._take(len(message.get("body", b"")))
        return message

    def release(self) -> None:
        """The request is answered, and nothing holds its body any more."""
        self._bodies.held -= self._taken
        self._taken = 0

    async def _in_time(self) -> Message:
        """Only the time counts in which the server waits: it may keep a client waiting for its turn."""
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
            raise ServerBusyError("Other bodies fill the memory that there is for them.", code="too_many_bodies")


def too_large(limit: int, what: str = "The body") -> TooLargeError:
    return TooLargeError(f"{what} is larger than {limit} bytes.", limit_bytes=limit)
