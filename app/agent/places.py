"""Slots for background summaries, shared by all sessions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Places:
    """`most` summaries may be prepared at the same time; `refused` counts those that found no free slot."""

    most: int = 8
    taken: int = 0
    refused: int = 0

    def has_room(self) -> bool:
        """Whether a slot is free; if not, this counts as a refusal."""
        if self.taken < self.most:
            return True
        self.refused += 1
        return False

    def take(self) -> None:
        self.taken += 1

    def give_back(self) -> None:
        self.taken -= 1
