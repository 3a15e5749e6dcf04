"""How much a server may send, and why a connection ended."""

from __future__ import annotations

import asyncio
import time
from typing import Any

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Largest message: an image of 5 MB is 6.7 MB in base64."""
BURST_BYTES = 64 * 1024 * 1024
"""Bytes that a connection may receive at once, on top of `BYTES_PER_S`."""
BYTES_PER_S = 1024 * 1024
LINE_BYTES = 2_048
"""Bytes that a line counts for in addition to its own, since each may be a message that takes time to read: thousands
of short ones would otherwise block the event loop for seconds."""
MAX_VALUES = 20_000
"""Values of one message that the `mcp` package checks in the event loop, up to 30 µs each; the definitions of 256 tools
have about 15,000."""
VALUE_BYTES = 256
"""Bytes that such a value counts for in addition to its own."""


class ServerError(Exception):
    """A server cannot be used; `code` and `detail` are those of `mcp.failed`."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Received:
    """Counts what a connection receives. `broken` is the bound that it has exceeded, which ends it, and `status` the
    newest HTTP status that was an error. `doubt` is set when the server may be gone, for example when a stream ends
    that it should keep open."""

    def __init__(self) -> None:
        self.broken: ServerError | None = None
        self.status: int | None = None
        self.doubt = asyncio.Event()
        self._left = float(BURST_BYTES)
        self._at = time.monotonic()

    def take(self, data: bytes, *, lines: bool) -> None:
        """Counts bytes, and lines where each may be a message. Raises `ServerError` (code `flooded`)."""
        self._charge(len(data) + (LINE_BYTES * data.count(b"\n") if lines else 0))

    def _charge(self, size: int) -> None:
        now = time.monotonic()
        self._left = min(float(BURST_BYTES), self._left + (now - self._at) * BYTES_PER_S) - size
        self._at = now
        if self._left < 0:
            raise self.fail("flooded", "The server sent too much in a short time.")

    def check_size(self, size: int) -> None:
        """Raises `ServerError` (code `too_large`) for a message of so many bytes."""
        if size > MAX_MESSAGE_BYTES:
            raise self.fail("too_large", f"The server sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MiB.")

    def check_values(self, message: Any) -> None:
        """Counts the values in a parsed message. Raises `ServerError` (code `too_large` for one with too many, or
        `flooded`)."""
        count, left = 0, [message]
        while left:
            value = left.pop()
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            count += len(inner)
            if count > MAX_VALUES:
                raise self.fail("too_large", f"The server sent a message of more than {MAX_VALUES:,} values.")
            left += inner
        self._charge(VALUE_BYTES * count)

    def forget_status(self) -> None:
        """Resets `status`, so that only a later request sets it."""
        self.status = None

    def fail(self, code: str, detail: str) -> ServerError:
        """Notes why the connection ends; the first reason counts."""
        self.broken = self.broken or ServerError(code, detail)
        return self.broken
