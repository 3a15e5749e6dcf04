"""Bounds the cost of a JSON text while its bytes arrive, before it is parsed: a client's body, a provider's response, a
model's arguments."""

from __future__ import annotations

from itertools import accumulate

MAX_DEPTH = 100
"""Levels of nesting; the serializers of the response give up at 254 (orjson) and 255 (pydantic)."""

MAX_VALUES = 1_000_000
"""Values in one body. Each costs up to 200 bytes for two or three sent; the largest accepted history has 100,000
messages."""

_PIECE = 64 * 1024

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class JsonBoundsError(ValueError):
    """A JSON text has too many values or levels; worded to follow `The body`."""


class JsonBounds:
    """Scans a JSON text piece by piece. Invalid JSON gives an arbitrary count; the parser rejects it later."""

    def __init__(self, max_values: int = MAX_VALUES, *, levels: bool = True) -> None:
        self._most = max_values
        self._has_levels = levels
        self._values = 1
        self._depth = 0
        self._in_string = False
        self._escaped = False

    @property
    def values(self) -> int:
        """How many values there were so far, at least."""
        return self._values

    def feed(self, piece: bytes) -> None:
        """Scans the next bytes. Raises `JsonBoundsError` if there are now too many values or levels."""
        parts = self._unescaped(piece).split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self._in_string ^= len(parts) % 2 == 0
        self._values += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        if self._values > self._most:
            raise JsonBoundsError(f"has more than {self._most:,} values")
        if self._has_levels and self._is_too_deep(outside.translate(None, _NO_BRACKETS)):
            raise JsonBoundsError(f"is nested deeper than {MAX_DEPTH} levels")

    def _unescaped(self, piece: bytes) -> bytes:
        """The piece without escaped backslashes and then without escaped quotes: no other escape matters."""
        if self._escaped:
            piece = piece[1:]
        piece = piece.replace(rb"\\", b"")
        self._escaped = piece.endswith(b"\\")
        return piece.replace(rb"\"", b"")

    def _is_too_deep(self, brackets: bytes) -> bool:
        """Whether the next brackets nest too deep. Pairs are removed from the inside out until it is clear that they do
        not; otherwise they are followed one by one, at twenty times the cost."""
        left = brackets
        for removed in range(MAX_DEPTH):
            if self._depth + removed + len(left) <= MAX_DEPTH:
                self._depth += sum(map(_STEP.__getitem__, left))
                return False
            fewer = left.replace(b"[]", b"").replace(b"{}", b"")
            if len(fewer) == len(left):
                break
            left = fewer
        depths = list(accumulate(map(_STEP.__getitem__, brackets), initial=self._depth))
        self._depth = depths[-1]
        return max(depths) > MAX_DEPTH


def has_more_values(text: bytes, most: int) -> bool:
    """Whether a whole JSON text has more values than that."""
    # Each value takes a byte, and each but the first one of these three characters.
    if len(text) <= most or text.count(b",") + text.count(b"[") + text.count(b"{") < most:
        return False
    bounds = JsonBounds(most, levels=False)
    try:
        for start in range(0, len(text), _PIECE):
            bounds.feed(text[start : start + _PIECE])
    except JsonBoundsError:
        return True
    return False
