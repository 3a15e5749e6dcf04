"""How runs end: with an outcome justified by their session's events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.soak.database import Logged
from tests.soak.plan import DeedKind

MOST_RECOVERIES = 3
"""Recoveries without a completed step in between, after which the contract parks a run."""
CANCELS: frozenset[DeedKind] = frozenset({"cancel", "cancel_and_clear"})


def check_ends(events: Sequence[Logged], deeds: Sequence[DeedKind]) -> Iterator[str]:
    """No run is cancelled without a cancel, fails without an error, is parked too early, or continues forever."""
    recoveries, gone_on, before = 0, 0, None
    for event, following in pairwise([*events, None]):
        assert event is not None
        if event.type == "session.recovered":
            recoveries += 1
        elif event.type == "session.running" and event.data["trigger"] == "recovery":
            gone_on += 1
            if gone_on > MOST_RECOVERIES:
                yield f"{event.seq} goes on with a run for the {gone_on}th time, and it has completed no step"
        elif event.type == "session.running" or (event.type == "step.finished" and not _recovers(event, following)):
            recoveries = gone_on = 0
        elif event.type == "session.idle":
            ended = (event.data["outcome"], event.data.get("error"))
            # A run that did nothing leaves the outcome of the one before.
            if not (ended == before and event.data["steps"] == 0):
                yield from (f"{event.seq} {wrong}" for wrong in _one(*ended, recoveries, deeds))
            before = ended


def _recovers(finished: Logged, following: Logged | None) -> bool:
    """Whether a step was closed by a recovery, in whose transaction all events have one time, and not by its run."""
    return (
        following is not None
        and following.type == "session.recovered"
        and following.data.get("at") == finished.data.get("at")
    )


def _one(outcome: str, error: dict[str, object] | None, recoveries: int, deeds: Sequence[DeedKind]) -> Iterator[str]:
    code = (error or {}).get("code")
    if outcome == "cancelled" and not CANCELS.intersection(deeds):
        yield "is cancelled, by nobody"
    if outcome in ("failed", "limit_reached", "interrupted") and code is None:
        yield f"is {outcome} and says no reason"
    if outcome == "interrupted" and (code, recoveries > MOST_RECOVERIES) != ("recovery_limit", True):
        yield f"is parked after {recoveries} recoveries without a step: {code}"
