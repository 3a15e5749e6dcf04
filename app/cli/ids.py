"""Ids as a person types them, and calls' ids as they are shown to be typed.

Ids are UUIDv7: they begin with the time, so those of one message begin alike, and end with 32 random bits. An id may
therefore be given by its end too, and it is the end of a call's id that is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from app.cli.errors import CliError

SHORTEST = 4
"""Characters of an id that have to be given."""
SHOWN = 8
"""Characters of a call's id that are shown: all of the random bits."""
FULL = 36
MAX_LISTED = 10


def typed(given: str, noun: str) -> str:
    """An id, or a piece of one, as it is looked for. Raises `CliError` for one that is too short."""
    piece = given.strip().lower()
    if len(piece) < SHORTEST:
        raise CliError(f"Give at least {SHORTEST} characters of the {noun}'s id.", code="short_id")
    return piece


def matching(piece: str, ids: Iterable[str]) -> list[str]:
    """The ids that begin or end with the piece."""
    return [each for each in ids if each.startswith(piece) or each.endswith(piece)]


def short(call_id: str, among: Collection[str] = ()) -> str:
    """The end of a call's id, long enough to mean no other of those that it is shown `among`."""
    for length in range(SHOWN, len(call_id)):
        end = call_id[-length:]
        if all(each == call_id for each in matching(end, among)):
            return end
    return call_id


def listed(found: list[str]) -> str:
    """What an id may mean, the first ten of it."""
    rest = len(found) - MAX_LISTED
    return ", ".join(found[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")
