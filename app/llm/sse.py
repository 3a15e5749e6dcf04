"""An incremental parser for server-sent events from raw bytes."""

from __future__ import annotations

import re

from app.errors import ProviderError

MAX_EVENT_BYTES = 5 * 1024 * 1024
"""The largest accepted event; the largest that providers send is a complete tool call with a large file."""

_BOM = b"\xef\xbb\xbf"

_NEXT_EVENT = re.compile(rb"\}\n(?=(?:(?::|id:|retry:)[^\n]*\n){0,3}(?:event:|data: ?[^\s,}\]]))")
"""Where the next event begins though the blank line is missing: after a closing brace, a JSON document continues with a
comma or another bracket, or not at all."""

_STARTS = (b"}\ndata: {", b"}\nevent:", b"}\nid:", b"}\nretry:")
"""The same where it is certain before the rest has arrived."""

_BLANK_LINES = re.compile(rb"\n{3,}")
"""Blank lines that cost as much as an event each if a stream sends millions."""


class SseParser:
    """Turns chunks of bytes, split anywhere, into `(event, data)` pairs of bytes.

    Follows the WHATWG algorithm: LF, CRLF and CR end a line, a leading BOM is dropped, comments and unknown fields are
    ignored, several `data` lines are joined by LF, an event without `data` is dropped. `event` is empty if the stream
    names no type. Works only on bytes, so a character split between chunks needs no care. `id` and `retry` are ignored,
    since they mean nothing in a model's stream.

    In addition, an event may begin right after one that ends with a JSON object, since hand-written servers leave out
    the blank line.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._buffer = bytearray()
        self._limit = max_event_bytes
        self._head: bytes | None = b""
        self._skip_lf = False

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """The events that `chunk` completes. Raises `ProviderError` for an event over the limit."""
        chunk = self._normalize(self._without_bom(chunk) if self._head is not None else chunk)
        whole = self._complete_part(chunk)
        if len(self._buffer) > self._limit:
            raise _too_large(self._limit)
        return self._events(whole) if whole else []

    def close(self) -> list[tuple[bytes, bytes]]:
        """The last event if its blank line is missing; several servers end `[DONE]` that way."""
        rest, self._buffer = bytes(self._buffer), bytearray()
        return self._events(rest) if rest else []

    def _without_bom(self, chunk: bytes) -> bytes:
        """Buffers the first bytes until it is known whether they are a BOM."""
        head = (self._head or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _normalize(self, chunk: bytes) -> bytes:
        """Converts line ends to LF. A CR at a chunk's end ends the line at once; a following LF belongs to it."""
        if self._skip_lf and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_lf = False
        if b"\r" in chunk:
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _complete_part(self, chunk: bytes) -> bytes:
        """Removes and returns everything up to the last blank line; the rest stays in the buffer."""
        buffer = self._buffer
        if not buffer:
            end = chunk.rfind(b"\n\n")
            buffer += chunk[end + 2 :] if end >= 0 else chunk
            return chunk[:end] if end >= 0 else b""
        seen = len(buffer)
        buffer += chunk
        end = buffer.rfind(b"\n\n", seen - 1)
        if end < 0:
            return self._complete_lines(seen)
        whole = bytes(buffer[:end])
        del buffer[: end + 2]
        return whole

    def _complete_lines(self, seen: int) -> bytes:
        """The same for a stream without blank lines."""
        start = max(0, seen - 9)
        end = max(self._buffer.rfind(next_event, start) for next_event in _STARTS) + 1
        whole = bytes(self._buffer[:end])
        del self._buffer[: end + 1 if end else 0]
        return whole

    def _events(self, whole: bytes) -> list[tuple[bytes, bytes]]:
        events: list[tuple[bytes, bytes]] = []
        whole = _BLANK_LINES.sub(b"\n\n", _NEXT_EVENT.sub(b"}\n\n", whole))
        for block in whole.split(b"\n\n"):
            if len(block) > self._limit:
                raise _too_large(self._limit)
            if block.startswith(b"data: ") and b"\n" not in block:
                events.append((b"", block[6:]))
            elif (event := _parse_block(block)) is not None:
                events.append(event)
        return events


def _parse_block(block: bytes) -> tuple[bytes, bytes] | None:
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        key, _, value = line.partition(b":")
        if key == b"data":
            data.append(value.removeprefix(b" "))
        elif key == b"event":
            name = value.removeprefix(b" ")
    if len(data) > 1:
        # Words before a document are events of their own, which say nothing.
        del data[: next((at for at, line in enumerate(data) if line.startswith(b"{")), 0)]
    return (name, b"\n".join(data)) if data else None


def _too_large(limit: int) -> ProviderError:
    return ProviderError(f"The provider sent an event of more than {limit} bytes.", code="provider_bad_response")
