"""The server name in the first TLS message (RFC 8446, 4.1.2; RFC 6066, 3)."""

from __future__ import annotations

from app.sandbox.egress.refusals import RefusedError

MAX_HELLO_BYTES = 64 * 1024
"""Including record headers; hellos with post-quantum keys have two thousand bytes."""
MAX_HELLO_RECORDS = 64
"""The hello is parsed again for every piece that arrives, so the cost of one parse must be bounded."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
_NOT_TLS = "only TLS may go through a tunnel"


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
        raise RefusedError("the TLS connection names no server")
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
