"""Server-Sent Events: encodes batches of events and sends them while the client is connected."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.event import ensure_bytes
from starlette.types import Message, Receive, Scope, Send

from app.api.auth import while_logged_in
from app.api.config import ApiConfig
from app.api.errors import MalformedEventIdError
from app.runtime.values.events import EventStream, StreamItem

MAX_SEQ = 2**63 - 1
"""The largest integer that the database stores."""

_SEQ = re.compile(r"[0-9]{1,19}")
_PING = ServerSentEvent(comment="ping", sep="\n")


PIECE_BYTES = 64 * 1024
"""Most bytes of a shared event that one reader copies at a time."""


def encode(items: list[StreamItem]) -> bytes:
    """The batch in SSE's wire format. Data is JSON on one line, so it never needs splitting."""
    return b"".join([field for item in items for field in _fields(item)])


def _pieces(items: list[StreamItem]) -> Iterator[bytes]:
    """The batch in SSE's wire format: small events together, large ones in pieces."""
    small: list[StreamItem] = []
    for item in items:
        if len(item.data) <= PIECE_BYTES:
            small.append(item)
            continue
        if small:
            yield encode(small)
            small = []
        for field in _fields(item):
            for start in range(0, len(field), PIECE_BYTES):
                yield field[start : start + PIECE_BYTES]
    if small:
        yield encode(small)


def _fields(item: StreamItem) -> Iterator[bytes]:
    if item.begins:
        if item.seq is not None:
            yield b"id: %d\n" % item.seq
        yield b"event: %b\ndata: " % item.type.encode()
    yield item.data
    if item.ends:
        yield b"\n\n"


def start_after(after: str | None, last_event_id: str | None) -> int:
    """The last seq that the client has. `Last-Event-ID` wins, since a browser reconnects with the original URL. Raises
    `MalformedEventIdError`."""
    given = after if last_event_id is None else last_event_id
    if given is None:
        return 0
    if not _SEQ.fullmatch(given) or int(given) > MAX_SEQ:
        raise MalformedEventIdError("An event id must be a decimal number, 0 or greater.")
    return int(given)


async def chunks(batches: EventStream, retry_ms: int) -> AsyncIterator[bytes]:
    """The stream's body: the reconnection delay, then a chunk for each batch."""
    yield b"retry: %d\n\n" % retry_ms
    async for items in batches:
        for piece in _pieces(items):
            yield piece


class EventStreamResponse(EventSourceResponse):
    """Sends the events of a subscription until it ends, the client disconnects or the server stops.

    The subscription is entered before the first byte, so that its errors become problem documents and no event after
    the headers is missed. It is exited as soon as the stream ends for any reason.
    """

    def __init__(
        self,
        subscription: AbstractAsyncContextManager[EventStream],
        config: ApiConfig,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(_nothing(), headers=headers, ping=config.ping_s, sep="\n")
        self._subscription = subscription
        self._retry_ms = config.retry_ms
        self._sleep = config.sleep
        self._sending = asyncio.Lock()
        self._in_event = False

    async def _ping(self, send: Send) -> None:
        """As in the base class, but with an injected clock, and never inside an event that is sent in pieces."""
        comment = ensure_bytes(_PING, "\n")
        while self.active:
            await self._sleep(self.ping_interval)
            async with self._send_lock, self._sending:
                if not self._in_event and self.active:
                    await send({"type": "http.response.body", "body": comment, "more_body": True})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._subscription as batches:
            self.body_iterator = chunks(batches, self._retry_ms)
            await self._send_all(scope, while_logged_in(scope, receive), send)

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        """Sends without a timeout, since the connection has one; the base class's cancel scope would be the largest
        cost per event here."""
        async with self._sending:
            self._in_event = not message["body"].endswith(b"\n\n")
            await send(message)

    async def _send_all(self, scope: Scope, receive: Receive, send: Send) -> None:
        complete = False

        async def noted(message: Message) -> None:
            nonlocal complete
            complete = complete or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        await super().__call__(scope, receive, noted)
        if not complete:
            # The client has disconnected, which makes this a no-op, or the server is stopping: end the body properly.
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _nothing() -> AsyncIterator[bytes]:
    """A placeholder until the subscription is entered."""
    return
    yield b""
