"""Abbreviated ids, as typed by users and as shown for calls.

Ids are UUIDv7: they start with the time, so those of one message look alike, and end with 32 random bits. An id can
therefore be abbreviated to its start or its end, and calls are shown by the end of their id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from app.cli.errors import CliError

SHORTEST = 4
"""Min characters of an abbreviated id."""
SHOWN = 8
"""Characters of a call's id that are shown: the random bits."""
FULL = 36
MAX_LISTED = 10


def typed(given: str, noun: str) -> str:
    """A typed id, or a part of one, in lower case. Raises `CliError` if it is too short."""
    piece = given.strip().lower()
    if len(piece) < SHORTEST:
        raise CliError(f"Give at least {SHORTEST} characters of the {noun}'s id.", code="short_id")
    return piece


def matching(piece: str, ids: Iterable[str]) -> list[str]:
    """The ids that start or end with `piece`."""
    return [each for each in ids if each.startswith(piece) or each.endswith(piece)]


def short(call_id: str, among: Collection[str] = ()) -> str:
    """The end of a call's id, long enough to be unique among `among`."""
    for length in range(SHOWN, len(call_id)):
        end = call_id[-length:]
        if all(each == call_id for each in matching(end, among)):
            return end
    return call_id


def listed(found: list[str]) -> str:
    """The first ten matches, and how many more there are."""
    rest = len(found) - MAX_LISTED
    return ", ".join(found[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")
