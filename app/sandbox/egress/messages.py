"""HTTP/1.1 on one connection of the proxy, and what a client asks the proxy for.

Messages are read by h11 and written anew by it, so that nothing is passed on whose end two readers could see in
different places.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass

import h11

from app.hostnames import host_name
from app.sandbox.egress.refusals import RefusedError

READ_BYTES = 64 * 1024
MAX_HEAD_BYTES = 32 * 1024
MAX_HEAD_LINES = 128
"""Parsing a head takes 1 µs for each line, and servers take about 100 headers."""
HTTP, HTTPS = 80, 443
_ABSOLUTE = re.compile(r"http://([^/?#]+)([/?][^#]*)?", re.IGNORECASE)
_BLANK_LINE = re.compile(rb"\n\r?\n")
_OF_ONE_CONNECTION = {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"expect"}
"""Headers that are not passed on; `Transfer-Encoding` is, as h11 writes the body by it."""


class BadRequestError(Exception):
    """The proxy cannot read what it was asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is for. `path` is None for a tunnel."""

    host: str
    port: int
    path: str | None = None


class Peer:
    """One end of a connection, as which the server speaks HTTP in the given role."""

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
        """Whether, as a server, it has sent the head of its answer."""
        return self._http.our_state is not h11.SEND_RESPONSE and self._http.our_state is not h11.IDLE

    @property
    def surplus(self) -> bytes:
        """What has been read and belongs to no message."""
        return self._http.trailing_data[0]

    async def event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next part of a message. Raises `h11.RemoteProtocolError`."""
        # A body in chunks of a byte has thousands of parts in what is read at once, and nothing else waits for them.
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
    """The host that a request names, as it is written, for a person."""
    text = request.target.decode("ascii")
    if request.method == b"CONNECT":
        return text.rpartition(":")[0] or text
    found = _ABSOLUTE.fullmatch(text)
    return found[1].rpartition("@")[2].removesuffix(f":{HTTP}") if found else text


def target_of(request: h11.Request) -> Target:
    """What a request asks for. Raises `RefusedError` for another port or what is no name, and `BadRequestError`."""
    names = [name for name, _ in request.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise BadRequestError("the request gives its length in two ways")
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
        raise RefusedError("only full host names can be reached, no addresses and nothing else") from exc
    if port != str(wanted):
        raise RefusedError(f"only port {HTTP} for HTTP and port {HTTPS} for HTTPS can be reached")
    return name


def passed_on(request: h11.Request, target: Target) -> h11.Request:
    """The request as the host gets it: its own name in `Host`, whatever the client has written there."""
    headers = [(name, value) for name, value in _headers(request.headers) if name != b"host"]
    headers = [(b"host", target.host.encode()), *headers, (b"connection", b"close")]
    return h11.Request(method=request.method, target=target.path or "/", headers=headers)


def passed_back(response: h11.Response) -> h11.Response:
    """The host's answer as the client gets it."""
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
