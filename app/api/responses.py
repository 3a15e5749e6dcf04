"""Responses in pieces: Server-Sent Events, large JSON, and a session's bytes as files, raw outputs and archives."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, ClassVar
from urllib.parse import quote

import anyio
from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.event import ensure_bytes
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from app.api.auth import while_logged_in
from app.api.errors import MalformedEventIdError, RangeNotSatisfiableError, problem_response
from app.api.guard import ApiConfig
from app.connection_limits import DIRECT_BODY, ChunkedBody
from app.errors import NotFoundError
from app.runtime.values.history import EventStream, Following, RawOutput, StreamItem

MAX_SEQ = 2**63 - 1
"""The largest integer that the database stores."""
_SEQ = re.compile(r"[0-9]{1,19}")
_PING = ServerSentEvent(comment="ping", sep="\n")

PIECE_BYTES = 64 * 1024
"""Most bytes of a shared event that one reader copies at a time."""

_LINE_ENDS = {"\u2028".encode(): rb"\u2028", "\u2029".encode(): rb"\u2029", "\u0085".encode(): rb"\u0085"}
"""What many clients take for the end of a line, and JSON does not escape."""
_CUT_LINE_END = (b"\xe2\x80", b"\xe2", b"\xc2")

CHUNK_BYTES = 64 * 1024
"""Bytes of a stored output that are read at a time; a stalled reader holds one or two chunks."""
_RANGE = re.compile(r"bytes\s*=\s*(?P<first>[0-9]{0,18})\s*-\s*(?P<last>[0-9]{0,18})\s*", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9 !#$&'()+,.;=@\[\]^_`{}~-]")


class _DirectSink:
    """Sends a session's new events to a reader that keeps up."""

    _newest: ClassVar[tuple[list[StreamItem], bytes]] = ([], b"")
    """The newest batch, encoded once for all readers of its session, which get it one after the other."""

    def __init__(self, body: ChunkedBody) -> None:
        self._body = body

    @property
    def is_ready(self) -> bool:
        return self._body.is_ready

    def write(self, items: list[StreamItem]) -> None:
        newest, data = self._newest
        if items != newest:
            data = encode(items)
            _DirectSink._newest = items, data
        self._body.write(data)


def encode(items: Sequence[StreamItem]) -> bytes:
    """The batch of whole events in SSE's wire format. Data is JSON on one line, so it never needs splitting."""
    return _one_line(_encode(items))


def _one_line(data: bytes) -> bytes:
    """Data with the line ends escaped that JSON leaves as they are."""
    if b"\xe2\x80" in data or b"\xc2\x85" in data:
        for character, escape in _LINE_ENDS.items():
            data = data.replace(character, escape)
    return data


def _encode(items: Sequence[StreamItem]) -> bytes:
    return b"".join([field for item in items for field in _fields(item)])


def _pieces(items: list[StreamItem]) -> Iterator[bytes]:
    """The batch in SSE's wire format: small events together, large ones in pieces."""
    small: list[StreamItem] = []
    for item in items:
        if len(item.data) <= PIECE_BYTES:
            small.append(item)
            continue
        if small:
            yield _encode(small)
            small = []
        for field in _fields(item):
            for start in range(0, len(field), PIECE_BYTES):
                yield bytes(field[start : start + PIECE_BYTES])
    if small:
        yield _encode(small)


def _fields(item: StreamItem) -> Iterator[bytes | memoryview]:
    if item.begins:
        if item.seq is not None:
            yield b"id: %d\n" % item.seq
        yield b"event: %b\ndata: " % item.type.encode()
    yield from item.shown
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


async def chunks(batches: EventStream, retry_ms: int, direct: ChunkedBody | None = None) -> AsyncIterator[bytes]:
    """The stream's body: a chunk for each batch. The reconnection delay is in the first event's block, since some
    clients treat a block without data as an event. Once that is sent, `direct` takes what comes while this waits."""
    held = b"retry: %d\n" % retry_ms
    async for items in batches:
        for piece in _pieces(items):
            data = held + piece
            # The pieces of a large event are cut anywhere.
            held = next((start for start in _CUT_LINE_END if data.endswith(start)), b"")
            yield _one_line(data.removesuffix(held))
        if direct is not None and isinstance(batches, Following):
            batches.sink = batches.sink or _DirectSink(direct)


class EventStreamResponse(EventSourceResponse):
    """Sends the events of a subscription until it ends, the client disconnects or the server stops.

    The subscription is entered before the first byte, so that its errors become problem documents and no event after
    the headers is missed; if it yields None, there is nothing to send. It is exited as soon as the stream ends for any
    reason.
    """

    def __init__(
        self,
        subscription: AbstractAsyncContextManager[EventStream | None],
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
            if batches is None:
                # EventSource does not reconnect after it.
                await Response(status_code=204)(scope, receive, send)
                return
            if scope["method"] == "HEAD":
                await _send_headers(self, send)
                return
            direct = scope.get("extensions", {}).get(DIRECT_BODY)
            self.body_iterator = chunks(batches, self._retry_ms, direct)
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


def safe_headers(name: str) -> dict[str, str]:
    """Headers that make a browser save the content as `name` and hide it from other pages."""
    return {
        "Content-Disposition": content_disposition(name),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def content_disposition(name: str) -> str:
    """`attachment` with the name as in RFC 6266: in ASCII for old clients, and also in UTF-8 if that differs."""
    plain = _UNSAFE.sub("_", name)
    if plain == name:
        return f'attachment; filename="{plain}"'
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='', errors='replace')}"


def parse_range(header: str | None, size: int) -> range | None:
    """The bytes that a `Range` header requests: an empty range if none of them exist, None for the whole content.

    A malformed header or one with several ranges is ignored, as RFC 9110 allows.
    """
    match = _RANGE.fullmatch(header) if header else None
    if match is None or not (match["first"] or match["last"]):
        return None
    if not match["first"]:
        return range(max(0, size - int(match["last"])), size)
    first = int(match["first"])
    last = int(match["last"]) if match["last"] else size - 1
    if match["last"] and last < first:
        return None
    return range(first, min(last + 1, size)) if first < size else range(0)


def has_tag(condition: str, tag: str) -> bool:
    """Whether an `If-None-Match` or `If-Match` has the tag, as weak or strong."""
    return tag.removeprefix("W/") in (given.strip().removeprefix("W/") for given in condition.split(","))


async def _send_headers(response: Response, send: Send) -> None:
    """The answer to HEAD."""
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": b""})


class ArchiveResponse(StreamingResponse):
    """Streams an iterator of bytes and closes it, even if the reader leaves early."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "HEAD":
            await super().__call__(scope, receive, send)
            return
        try:
            await _send_headers(self, send)
        finally:
            await self._close()

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(_yielding(send))
        finally:
            await self._close()

    async def _close(self) -> None:
        close = getattr(self.body_iterator, "aclose", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await close()


def _yielding(send: Send) -> Send:
    """`send` that yields to the event loop. The server's own does not wait once the reader has left, so the disconnect
    would go unnoticed while the iterator is busy."""

    async def yielding(message: Message) -> None:
        await send(message)
        await anyio.lowlevel.checkpoint()

    return yielding


class RawResponse(ArchiveResponse):
    """Sends raw content, or the part that a `Range` header requests, and closes it."""

    def __init__(self, raw: RawOutput, *, name: str, media_type: str) -> None:
        super().__init__(_no_body(), headers={**safe_headers(name), "Accept-Ranges": "bytes"}, media_type=media_type)
        self.raw = raw
        self.part = range(raw.size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._send(scope, receive, send)
        finally:
            if self.raw.file is not None:
                with anyio.CancelScope(shield=True):
                    await self.raw.file.aclose()

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = parse_range(_range_header(scope), self.raw.size)
        if wanted is not None and not wanted:
            error = RangeNotSatisfiableError(f"The content has only {self.raw.size} bytes.")
            headers = {"Content-Range": f"bytes */{self.raw.size}"}
            await problem_response(error, scope["path"], headers)(scope, receive, send)
            return
        self._set_part(wanted)
        await super().__call__(scope, receive, send)

    def _set_part(self, wanted: range | None) -> None:
        if wanted is not None:
            self.part = wanted
            self.status_code = 206
            self.headers["Content-Range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{self.raw.size}"
        self.headers["Content-Length"] = str(len(self.part))

    async def stream_response(self, send: Send) -> None:
        if self.raw.file is not None:
            async with aclosing(self.raw.file.read(self.part)) as pieces:
                # Read before the headers are sent, so that a file that cannot be read gets an error response.
                self.body_iterator = _with([await anext(pieces, b"")], pieces)
                await super().stream_response(send)
            return
        if self.raw.path is None:
            self.body_iterator = _of_bytes((self.raw.data or b"")[self.part.start : self.part.stop])
            await super().stream_response(send)
            return
        try:
            file = await anyio.open_file(self.raw.path, "rb")
        except FileNotFoundError:
            raise NotFoundError("The raw output is no longer stored.", code="output_not_found") from None
        async with file:
            self.body_iterator = _of_file(file, self.part)
            await super().stream_response(send)


def _range_header(scope: Scope) -> str | None:
    """The only `Range` header, or None if it depends on a version (`If-Range`), which the server does not track."""
    headers = [value.decode("latin-1") for key, value in scope["headers"] if key == b"range"]
    conditional = any(key == b"if-range" for key, _ in scope["headers"])
    return headers[0] if len(headers) == 1 and not conditional else None


async def _of_file(file: anyio.AsyncFile[bytes], part: range) -> AsyncIterator[bytes]:
    await file.seek(part.start)
    left = len(part)
    while left:
        chunk = await file.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise OSError("a raw output is shorter than its recorded size")
        left -= len(chunk)
        yield chunk


async def _of_bytes(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


async def _no_body() -> AsyncIterator[bytes]:
    """A placeholder until the content is opened."""
    return
    yield b""


async def _with(first: list[bytes], pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """All chunks. The list is emptied so that the first chunk is freed while the others are sent."""
    yield first.pop()
    async for piece in pieces:
        yield piece


def json_response(value: BaseModel) -> Response:
    """A large value, encoded item by item. Call it in a thread; other threads run between the items of a sequence."""
    fields = type(value).model_fields
    pieces = (b'"%s":%s' % (name.encode(), b"".join(_encoded(getattr(value, name)))) for name in fields)
    return Response(b"{" + b",".join(pieces) + b"}", media_type="application/json")


def _encoded(value: Any) -> Iterator[bytes]:
    if not isinstance(value, tuple):
        yield to_json(value)
        return
    yield b"["
    yield b",".join(map(to_json, value))
    yield b"]"
