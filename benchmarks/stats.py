"""The little statistics that the measurements need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

__all__ = ["gaps", "median", "percentile", "quiet_mean", "spread"]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed: the nearest rank, never a value
    between two that were measured. Raises `ValueError` where there are none."""
    if not values:
        raise ValueError("There is nothing to take a percentile of.")
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def spread(values: Sequence[float]) -> float:
    """How far the rounds of one measurement lie apart: (largest - smallest) / median."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def quiet_mean(rounds: Sequence[Sequence[float]]) -> float:
    """The mean of what each step takes by itself, where all rounds took the same steps: of each the least of all
    rounds, since what else the machine did could only add to it. Raises `ValueError` where the rounds are not of one
    length, or there are none."""
    fastest = [min(step) for step in zip(*rounds, strict=True)]
    if not fastest:
        raise ValueError("There is nothing to take a mean of.")
    return math.fsum(fastest) / len(fastest)


def gaps(calls: Sequence[tuple[float, float]]) -> list[float]:
    """The time from each call's end to the next one's begin, for (begin, end) in order."""
    return [begin - end for (_, end), (begin, _) in pairwise(calls)]
