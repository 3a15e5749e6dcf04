"""Rate limit for failed attempts."""

from __future__ import annotations

from collections.abc import Callable


class Attempts:
    """Allows a burst of `most` failures, and then `per_s` per second. `clock` is monotonic and counts seconds."""

    def __init__(self, most: int, per_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._per_s = per_s
        self._clock = clock
        self._left = float(most)
        self._at = clock()

    @property
    def allowed(self) -> bool:
        """Whether another attempt is allowed now."""
        now = self._clock()
        self._left = min(float(self._most), self._left + (now - self._at) * self._per_s)
        self._at = now
        return self._left >= 1

    def failed(self) -> None:
        """Counts a failed attempt."""
        self._left -= 1
