"""Unpacks a compressed answer, which we never request, in small pieces: a few hundred kilobytes may be gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from app.errors import ProviderError

PIECE_BYTES = 64 * 1024
"""Bytes of an answer that are unpacked at a time."""

_ZLIB_OR_GZIP = zlib.MAX_WBITS | 32

Unpack = Callable[[bytes], Iterator[bytes]]
"""Takes the next bytes off the wire; gives what they hold."""


def unpacker(encoding: str) -> Unpack:
    """What unpacks a body with this `Content-Encoding`. Raises `ProviderError` for more than one layer, which multiply,
    and for a compression that only programs use that ask for it. What it gives raises `zlib.error`."""
    match encoding.strip().lower():
        case "identity" | "":
            return lambda chunk: iter((chunk,))
        case "gzip" | "x-gzip" | "deflate":
            return _Inflation().feed
    raise ProviderError(f"The answer is compressed as {encoding[:100]!r}.", code="provider_bad_response")


class _Inflation:
    """A stream of gzip or zlib."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_ZLIB_OR_GZIP)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        while chunk and not self._stream.eof:
            piece = self._stream.decompress(chunk, PIECE_BYTES)
            chunk = self._stream.unconsumed_tail
            if piece:
                yield piece
        # zlib may hold back what it has read of a piece that is full.
        while piece := self._stream.decompress(b"", PIECE_BYTES):
            yield piece
