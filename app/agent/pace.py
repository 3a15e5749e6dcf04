"""How much the last rounds of a run helped, which decides the first rung of the next one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from app.agent.rounds import Target
from app.sessions import Rung

CROWDED_STEPS = 10
CROWDED_ROUNDS = 3
"""This many rounds within this many steps did not help enough: the next one starts a rung further up."""

LITTLE = 0.1
"""A round that freed less than this share freed too little."""


@dataclass(frozen=True, slots=True)
class _Past:
    """A finished round: its step, and the share of the context that it freed."""

    step: int
    freed: float


class Pace:
    """Remembers the last automatic rounds."""

    def __init__(self) -> None:
        self._past: deque[_Past] = deque(maxlen=CROWDED_ROUNDS)

    def note(self, step: int, target: Target, after: int) -> None:
        """Records a round that left `after` tokens."""
        self._past.append(_Past(step, 1 - after / max(1, target.before)))

    def first_rung(self, step: int) -> Rung:
        """The first rung of the next round: further up the ladder if the last ones did not help for long."""
        crowded = len(self._past) == CROWDED_ROUNDS and step - self._past[0].step < CROWDED_STEPS
        little = len(self._past) >= 2 and all(past.freed < LITTLE for past in list(self._past)[-2:])
        return "fold" if crowded or little else "summary"

    def start_over(self) -> None:
        """A round has started further up; the next one may ask a model again."""
        self._past.clear()
