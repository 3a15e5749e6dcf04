"""Statistics for the measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

__all__ = ["gaps", "median", "percentile", "quiet_mean", "spread"]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed: the nearest rank, never an
    interpolated value. Raises `ValueError` if there are none."""
    if not values:
        raise ValueError("Cannot take a percentile of no values.")
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def spread(values: Sequence[float]) -> float:
    """The range of the rounds of one measurement: (largest - smallest) / median."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def quiet_mean(rounds: Sequence[Sequence[float]]) -> float:
    """The mean over the steps of each one's minimum over all rounds, since disturbances can only slow a step down. All
    rounds must consist of the same steps. Raises `ValueError` if their lengths differ, or there are none."""
    fastest = [min(step) for step in zip(*rounds, strict=True)]
    if not fastest:
        raise ValueError("Cannot take a mean of no rounds.")
    return math.fsum(fastest) / len(fastest)


def gaps(calls: Sequence[tuple[float, float]]) -> list[float]:
    """The time from each call's end to the next one's start, for (start, end) in order."""
    return [begin - end for (_, end), (begin, _) in pairwise(calls)]
