"""Bounds how fast something can be tried in vain."""

from __future__ import annotations

from collections.abc import Callable


class Attempts:
    """Failures that may still be made: `most` at once, and then `per_s` in a second. `clock` counts seconds, from
    anywhere and never backwards."""

    def __init__(self, most: int, per_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._per_s = per_s
        self._clock = clock
        self._left = float(most)
        self._at = clock()

    @property
    def allowed(self) -> bool:
        """Whether there may be another attempt now."""
        now = self._clock()
        self._left = min(float(self._most), self._left + (now - self._at) * self._per_s)
        self._at = now
        return self._left >= 1

    def failed(self) -> None:
        """Counts an attempt that was allowed and failed."""
        self._left -= 1
