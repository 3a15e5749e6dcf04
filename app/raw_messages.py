"""The messages of a large history while they wait to be read: as JSON, of which one at a time is parsed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

RELEASE_BYTES = 1024 * 1024
"""Bytes of messages read after which their memory is freed."""


class RawMessages:
    """Messages in `text`, a message between each two of `bounds`; `parse` makes a value of one. Iterating parses them
    all, as often as needed, until `taken`."""

    def __init__(self, text: bytearray, bounds: array[int], parse: Callable[[bytearray], Any]) -> None:
        self._text = text
        self._bounds = bounds
        self._parse = parse

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __iter__(self) -> Iterator[Any]:
        for place in range(len(self)):
            yield self._parse(self._text[self._bounds[place] + 1 : self._bounds[place + 1]])

    def taken(self) -> Iterator[Any]:
        """The messages for the last time: frees the text as it is read."""
        freed = 0
        for place in range(len(self)):
            start, end = self._bounds[place] + 1 - freed, self._bounds[place + 1] - freed
            value = self._parse(self._text[start:end])
            if end >= RELEASE_BYTES:
                del self._text[:end]
                freed += end
            yield value
        self._text.clear()
        del self._bounds[1:]
