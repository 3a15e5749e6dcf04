"""Places for summaries that are prepared in the background, by all sessions together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Places:
    """How many may be prepared at the same time; `refused` counts those that found no place."""

    most: int = 8
    taken: int = 0
    refused: int = 0

    def has_room(self) -> bool:
        """Whether one more may be prepared; where not, it counts as refused."""
        if self.taken < self.most:
            return True
        self.refused += 1
        return False

    def take(self) -> None:
        self.taken += 1

    def give_back(self) -> None:
        self.taken -= 1
