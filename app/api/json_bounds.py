"""Counts what a JSON text will cost while its bytes arrive, before anything is made of them."""

from __future__ import annotations

import re
from itertools import accumulate

from app.api.errors import MalformedJsonError

MAX_DEPTH = 100
"""Levels of nesting; the serialisers of the answer give up at 254 (orjson) and 255 (pydantic)."""

MAX_VALUES = 1_000_000
"""Values in one body. Each costs up to 200 bytes, for two or three that are sent; the largest history that is taken has
100,000 messages."""

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class JsonBounds:
    """Follows a JSON text piece by piece. What is no JSON is counted somehow, and refused by the parser."""

    def __init__(self) -> None:
        self._values = 1
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, piece: bytes) -> None:
        """Takes the next bytes. Raises `MalformedJsonError` where there are too many values or levels by now."""
        parts = self._unescaped(piece).split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self._in_string ^= len(parts) % 2 == 0
        self._values += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        if self._values > MAX_VALUES:
            raise MalformedJsonError(f"The body has more than {MAX_VALUES:,} values.")
        if self._is_too_deep(outside.translate(None, _NO_BRACKETS)):
            raise MalformedJsonError(f"The body is nested deeper than {MAX_DEPTH} levels.")

    def _unescaped(self, piece: bytes) -> bytes:
        """The piece without its escapes, of which none holds a quote that matters."""
        if self._escaped:
            piece = piece[1:]
        self._escaped = False
        if b"\\" not in piece:
            return piece
        piece = _ESCAPE.sub(b"", piece)
        self._escaped = piece.endswith(b"\\")
        return piece

    def _is_too_deep(self, brackets: bytes) -> bool:
        """Whether the next brackets lead too deep. Pairs are taken out from the innermost on, until it is plain that
        they do not; only where it does not get plain are they followed one by one, at twenty times the cost."""
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
