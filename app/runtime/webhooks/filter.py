"""Which events a webhook gets."""

from __future__ import annotations

from collections.abc import Collection

from app.events import DURABLE_EVENTS

NAMES = tuple(event.type for event in DURABLE_EVENTS)


def types_of(patterns: Collection[str] | None) -> frozenset[str]:
    """The types of events that these names and prefixes ending in `.*` select; all of them for None."""
    if patterns is None:
        return frozenset(NAMES)
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith(".*"))
    return frozenset(name for name in NAMES if name in patterns or (prefixes and name.startswith(prefixes)))
