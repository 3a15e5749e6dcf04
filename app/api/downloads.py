"""Responses with a session's bytes: files, raw outputs and archives.

They come from a model's commands and are untrusted: a browser must save them, and never show them as a page of this
server.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from urllib.parse import quote

import anyio
import anyio.lowlevel
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from app.api.errors import RangeNotSatisfiableError, problem_response
from app.errors import NotFoundError
from app.runtime.values.history import RawOutput

CHUNK_BYTES = 64 * 1024
"""Bytes of a stored output that are read at a time; a stalled reader holds one or two chunks."""

_RANGE = re.compile(r"bytes\s*=\s*(?P<first>[0-9]{0,18})\s*-\s*(?P<last>[0-9]{0,18})\s*", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9 !#$&'()+,.;=@\[\]^_`{}~-]")


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


class ArchiveResponse(StreamingResponse):
    """Streams an iterator of bytes and closes it, even if the reader leaves early."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(_yielding(send))
        finally:
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
        super().__init__(_nothing(), headers={**safe_headers(name), "Accept-Ranges": "bytes"}, media_type=media_type)
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
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
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


async def _nothing() -> AsyncIterator[bytes]:
    """A placeholder until the content is opened."""
    return
    yield b""


async def _with(first: list[bytes], pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """All chunks. The list is emptied so that the first chunk is freed while the others are sent."""
    yield first.pop()
    async for piece in pieces:
        yield piece
