"""How the last rounds of a run have helped, which says where the next one begins."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from app.agent.rounds import Target
from app.sessions import Rung

CROWDED_STEPS = 10
CROWDED_ROUNDS = 3
"""So many rounds within so many steps did not help enough: the next one starts a rung further."""

LITTLE = 0.1
"""A round that freed less than this share has freed little."""


@dataclass(frozen=True, slots=True)
class _Past:
    """A round that is over: at which step, and what share of the context it freed."""

    step: int
    freed: float


class Pace:
    """Knows the last rounds that nobody asked for."""

    def __init__(self) -> None:
        self._past: deque[_Past] = deque(maxlen=CROWDED_ROUNDS)

    def note(self, step: int, target: Target, after: int) -> None:
        """A round has left `after` tokens."""
        self._past.append(_Past(step, 1 - after / max(1, target.before)))

    def first_rung(self, step: int) -> Rung:
        """Where the next round begins: further up the ladder where the last ones did not help for long."""
        crowded = len(self._past) == CROWDED_ROUNDS and step - self._past[0].step < CROWDED_STEPS
        little = len(self._past) >= 2 and all(past.freed < LITTLE for past in list(self._past)[-2:])
        return "fold" if crowded or little else "summary"

    def start_over(self) -> None:
        """A round has begun further up; the next one may ask a model again."""
        self._past.clear()
