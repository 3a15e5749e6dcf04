"""Lanes: how many transactions a kind of database writes at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lanes:
    """Writes of one lane run in order and share commits; lanes run in parallel, at most `connections` at a time.
    `by_session` gives each session a lane, else all writes share one. A commit has at most `most_writes`, which bounds
    how long the first of them waits for the last."""

    connections: int
    by_session: bool
    most_writes: int


ONE_LANE = Lanes(connections=1, by_session=False, most_writes=200)
LANE_PER_SESSION = Lanes(connections=8, by_session=True, most_writes=100)
