"""Round-robin over several streams of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def take_turns(rows: Iterable[Iterator[T]]) -> Iterator[T]:
    """One item of each row in turn, until all are exhausted."""
    waiting = list(rows)
    while waiting:
        for row in list(waiting):
            try:
                item = next(row)
            except StopIteration:
                waiting.remove(row)
            else:
                yield item
