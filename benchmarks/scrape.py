"""Parses the service's metrics from `/metrics`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)
_EDGE = re.compile(r'le="([^"]+)"')

Histogram = Mapping[float, float]
"""The number of values up to each edge; the last edge is infinite."""


def total(text: str, name: str) -> float:
    """A metric's value, summed over its labels; 0 if it has none yet."""
    return math.fsum(float(value) for found, _, value in _SAMPLE.findall(text) if found == name)


def histogram(text: str, name: str) -> Histogram:
    """A histogram without labels."""
    return {
        float(_EDGE.search(labels)[1]): float(value)  # type: ignore[index]
        for found, labels, value in _SAMPLE.findall(text)
        if found == f"{name}_bucket"
    }


def between(before: Histogram, after: Histogram) -> Histogram:
    """The difference between two scrapes."""
    return {edge: count - before.get(edge, 0.0) for edge, count in after.items()}


def at_most(values: Histogram, share: float) -> float:
    """The smallest edge that at least `share` (0 to 1) of the values do not exceed: the true value lies between it and
    the previous edge. Raises `ValueError` if there are no values."""
    count = values.get(math.inf, 0.0)
    if not count:
        raise ValueError("Cannot take a percentile of no values.")
    return next(edge for edge in sorted(values) if values[edge] >= max(share * count, 1))
