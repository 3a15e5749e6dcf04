"""Which models verify replayed thinking, by name.

From https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks.md (November 2026), which
lists Fable and Mythos from 5.1 on, and Opus, Sonnet and Haiku from 5.5 on. A model that is missing here is learned: its
first refusal is recognized, and the required treatment is stored with the session.
"""

from __future__ import annotations

import re
from functools import lru_cache

_FAMILY = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)")
_SINCE = {"fable": (5, 1), "mythos": (5, 1), "opus": (5, 5), "sonnet": (5, 5), "haiku": (5, 5)}


@lru_cache(maxsize=256)
def binds_thinking(model: str) -> bool:
    """Whether a model verifies replayed thinking against everything before it; ignores providers, regions and dates
    around the family's name."""
    found = _FAMILY.search(model.lower())
    if found is None or found["family"] not in _SINCE:
        return False
    return (int(found["major"]), int(found["minor"] or 0)) >= _SINCE[found["family"]]
