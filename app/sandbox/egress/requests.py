"""What a client asks the proxy for: HTTP/1.1 on one connection, or the server's name in the first message of TLS (RFC
8446, 4.1.2; RFC 6066, 3)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass

import h11

from app.sandbox.egress.gateway import RefusedError
from app.sessions import host_name

READ_BYTES = 64 * 1024
MAX_HEAD_BYTES = 32 * 1024
MAX_HEAD_LINES = 128
"""Parsing a head takes 1 µs for each line, and servers take about 100 headers."""
HTTP, HTTPS = 80, 443
_ABSOLUTE = re.compile(r"http://([^/?#]+)([/?][^#]*)?", re.IGNORECASE)
_BLANK_LINE = re.compile(rb"\n\r?\n")
_OF_ONE_CONNECTION = {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"expect"}
"""Headers that are not forwarded; `Transfer-Encoding` is, since h11 encodes the body by it."""

MAX_HELLO_BYTES = 64 * 1024
"""Including record headers; hellos with post-quantum keys have two thousand bytes."""
MAX_HELLO_RECORDS = 64
"""The hello is parsed again for every piece that arrives, so the cost of one parse must be bounded."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
_NOT_TLS = "only TLS may go through a tunnel"


class BadRequestError(Exception):
    """The proxy cannot parse the request; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is for. `path` is None for a tunnel."""

    host: str
    port: int
    path: str | None = None


class Peer:
    """A connection on which the server speaks HTTP in the given role."""

    def __init__(
        self, role: type[h11.CLIENT | h11.SERVER], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._http = h11.Connection(role, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._head = bytearray()
        self._head_lines = 0

    @property
    def has_answered(self) -> bool:
        """Whether, as a server, it has sent the head of its response."""
        return self._http.our_state is not h11.SEND_RESPONSE and self._http.our_state is not h11.IDLE

    @property
    def surplus(self) -> bytes:
        """Bytes read that belong to no message."""
        return self._http.trailing_data[0]

    async def event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next part of a message. Raises `h11.RemoteProtocolError`."""
        # A body in one-byte chunks has thousands of parts per read, and parsing them would not yield to other tasks.
        await asyncio.sleep(0)
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            data = await self.reader.read(READ_BYTES)
            if self._http.their_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._count_lines(data)
            self._http.receive_data(data)
        return event

    def _count_lines(self, data: bytes) -> None:
        """Follows a head as it arrives, up to the blank line that ends it."""
        before = len(self._head)
        self._head += data
        end = _BLANK_LINE.search(self._head, max(0, before - 2))
        self._head_lines += self._head.count(b"\n", before, end.end() if end else len(self._head))
        if self._head_lines > MAX_HEAD_LINES:
            raise h11.RemoteProtocolError(f"the head has more than {MAX_HEAD_LINES} lines", error_status_hint=431)

    async def send(self, event: h11.Event) -> None:
        if data := self._http.send(event):
            self.writer.write(data)
            await self.writer.drain()


def named_host(request: h11.Request) -> str:
    """The host in a request, as written, for messages."""
    text = request.target.decode("ascii")
    if request.method == b"CONNECT":
        return text.rpartition(":")[0] or text
    found = _ABSOLUTE.fullmatch(text)
    return found[1].rpartition("@")[2].removesuffix(f":{HTTP}") if found else text


def target_of(request: h11.Request) -> Target:
    """The target of a request. Raises `RefusedError` for other ports and invalid names, and `BadRequestError`."""
    names = [name for name, _ in request.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise BadRequestError("the request has conflicting length headers")
    text = request.target.decode("ascii")
    if request.method == b"CONNECT":
        if b"content-length" in names or b"transfer-encoding" in names:
            raise BadRequestError("CONNECT takes no body")
        host, _, port = text.rpartition(":")
        return Target(_name(host, port, HTTPS), HTTPS)
    found = _ABSOLUTE.fullmatch(text)
    if found is None:
        raise BadRequestError("this is a proxy: ask for http://host/path, or CONNECT host:443")
    host, colon, port = found[1].partition(":")
    path = found[2] or "/"
    return Target(_name(host, port if colon else str(HTTP), HTTP), HTTP, path if path.startswith("/") else f"/{path}")


def _name(host: str, port: str, wanted: int) -> str:
    try:
        name = host_name(host)
    except ValueError as exc:
        raise RefusedError("only full host names can be reached, not IP addresses") from exc
    if port != str(wanted):
        raise RefusedError(f"only port {HTTP} for HTTP and port {HTTPS} for HTTPS can be reached")
    return name


def passed_on(request: h11.Request, target: Target) -> h11.Request:
    """The request as sent to the host: `Host` holds the host's name, whatever the client wrote there."""
    headers = [(name, value) for name, value in _headers(request.headers) if name != b"host"]
    headers = [(b"host", target.host.encode()), *headers, (b"connection", b"close")]
    return h11.Request(method=request.method, target=target.path or "/", headers=headers)


def passed_back(response: h11.Response) -> h11.Response:
    """The host's response as sent to the client."""
    headers = [*_headers(response.headers), (b"connection", b"close")]
    return h11.Response(status_code=response.status_code, headers=headers, reason=response.reason)


def _headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    named = {one.strip().lower() for name, value in headers if name == b"connection" for one in value.split(b",")}
    named -= {b"content-length", b"transfer-encoding"}
    return [
        (name, value)
        for name, value in headers
        if name not in _OF_ONE_CONNECTION | named and not name.startswith(b"proxy-")
    ]


class _Reader:
    """Reads numbers and vectors in sequence. Raises `RefusedError` at the end of the data."""

    def __init__(self, data: bytes) -> None:
        self._left = memoryview(data)

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, count: int) -> bytes:
        if len(self._left) < count:
            raise RefusedError(_NOT_TLS)
        taken, self._left = self._left[:count], self._left[count:]
        return bytes(taken)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """A vector whose length prefix has `size` bytes."""
        return self.take(self.number(size))


def server_name(data: bytes) -> str | None:
    """The server name a client asks for; None if more bytes are needed. Raises `RefusedError` if the data is not a
    ClientHello, or has not exactly one name."""
    hello = _message(data)
    if hello is None:
        return None
    reader = _Reader(hello)
    reader.take(2 + 32)  # version and random
    for size in (1, 2, 1):  # session id, cipher suites, compression methods
        reader.vector(size)
    extensions = _Reader(reader.vector(2))
    names = []
    while extensions:
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            listed = _Reader(_Reader(body).vector(2))
            while listed:
                names.append((listed.number(1), listed.vector(2)))
    if len(names) != 1 or names[0][0] != _HOST_NAME:
        raise RefusedError("the TLS connection has no server name (SNI)")
    return names[0][1].decode("ascii", "replace").lower()


def _message(data: bytes) -> bytes | None:
    """The body of the ClientHello, assembled from its records; None if more bytes are needed."""
    if len(data) > MAX_HELLO_BYTES:
        raise RefusedError(_NOT_TLS)
    message = bytearray()
    at = 0
    for _ in range(MAX_HELLO_RECORDS):
        record = data[at : at + 5]
        if record and (record[0] != _HANDSHAKE or record[1:2] not in (b"", b"\x03")):
            raise RefusedError(_NOT_TLS)
        if len(record) < 5:
            return None
        size = int.from_bytes(record[3:], "big")
        message += data[at + 5 : at + 5 + size]
        at += 5 + size
        if size == 0 or (message and message[0] != _CLIENT_HELLO):  # RFC 8446, 5.1: no record is empty
            raise RefusedError(_NOT_TLS)
        end = 4 + int.from_bytes(message[1:4], "big")
        if len(message) >= end > 4:
            return bytes(message[4:end])
    raise RefusedError(_NOT_TLS)
