"""Two cheap HTTP clients: measuring must cost little, and must record when the first byte was sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Self, cast

import orjson

from benchmarks.source import STAMP, age_ms

_IDLE = b"event: session.idle"


class Connection:
    """A persistent connection for one request at a time. Responses need a length, or end with the connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.sent_at = 0.0
        """The monotonic time just before the last request's bytes were written, in seconds."""

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def _open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def request(self, method: str, path: str, document: object = None) -> tuple[int, bytes]:
        """Status and body of the response."""
        body = b"" if document is None else orjson.dumps(document)
        if self._reader.at_eof():
            # The server has closed the idle connection.
            self._writer.close()
            await self._open()
        message = head(method, path, self._port, len(body)) + body
        self.sent_at = time.monotonic()
        self._writer.write(message)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        status = int(lines[0].split()[1])
        if status == 204:
            return status, b""
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if line)
        if b"content-length" in headers:
            return status, await self._reader.readexactly(int(headers[b"content-length"]))
        return status, b"" if headers.get(b"transfer-encoding") else await self._reader.read()

    async def ask(self, method: str, path: str, document: object = None) -> Any:
        """The response's JSON document. Raises `RuntimeError` for an error status."""
        status, body = await self.request(method, path, document)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {body.decode()}")
        return orjson.loads(body) if body else None


def head(method: str, path: str, port: int, length: int) -> bytes:
    """A request's head, with a JSON body of `length` bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    if length:
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


class StreamReader(asyncio.Protocol):
    """Reads an event stream and records the age of each stamped token on arrival. Only the first `limit` stamps count:
    the event that closes a text repeats them."""

    def __init__(self, request: bytes, limit: int) -> None:
        self._request = request
        self.limit = limit
        self._rest = b""
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.ages_ms: list[float] = []
        self.idle = False
        self.closed = False
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int, path: str, limit: int = 0) -> Self:
        loop = asyncio.get_running_loop()
        _, reader = await loop.create_connection(lambda: cls(head("GET", path, port, 0), limit), "127.0.0.1", port)
        return reader

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest
        if not newline:
            return
        if len(self.ages_ms) < self.limit:
            self.ages_ms += [age_ms(digits, now) for digits in STAMP.findall(whole)]
            del self.ages_ms[self.limit :]
        self.idle = self.idle or _IDLE in whole
        if self._waiting:
            self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._tell()

    def _tell(self) -> None:
        for condition, future in self._waiting:
            if not future.done() and (self.closed or condition()):
                future.set_result(None)

    async def until(self, condition: Callable[[], bool], timeout_s: float = 120) -> None:
        """Waits for a condition on this reader. Raises `RuntimeError` if the stream ends first."""
        if not condition():
            entry = (condition, asyncio.get_running_loop().create_future())
            self._waiting.append(entry)
            try:
                async with asyncio.timeout(timeout_s):
                    await entry[1]
            finally:
                self._waiting.remove(entry)
        if not condition():
            raise RuntimeError("The stream ended too early.")

    async def until_idle(self) -> None:
        """Waits for the end of the next run, or of one that has ended since the last call."""
        await self.until(lambda: self.idle)
        self.idle = False

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
