"""Whether an answer states what it should: compares words after normalizing how they are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_MARKUP = re.compile(r"[`*_\"'“”‘’«»]")
"""What a model may put around a name without changing it; removed from the expected text as well."""

_POSSESSIVE = re.compile(r"['’]s(?![a-z0-9])")
_BLANKS = re.compile(r"\s+")
_ASCII_WORD = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_DASHES = str.maketrans({"‐": "-", "‑": "-", "–": "-", "—": "-", "−": "-"})


def normalised(text: str) -> str:
    """The text in one case and form, without markup and possessive 's, with single blanks, plain hyphens, and numbers
    without commas between thousands."""
    even = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).translate(_DASHES)
    even = _MARKUP.sub("", _POSSESSIVE.sub("", even))
    even = re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", even)
    return _BLANKS.sub(" ", even).strip()


def states(answer: str, fact: Iterable[str]) -> bool:
    """Whether the answer has the fact in one of its spellings, as separate words: `7` is not stated by `17`, nor
    `app.py` by `myapp.py`. Scripts without blanks between words are matched anywhere."""
    return found(answer, [[*fact]])[0]


def found(answer: str, facts: Sequence[Sequence[str]]) -> tuple[bool, ...]:
    """For each fact whether the answer states it."""
    text = normalised(answer)
    return tuple(any(_occurs(normalised(spelling), text) for spelling in fact) for fact in facts)


def _occurs(wanted: str, text: str) -> bool:
    if not wanted:
        return False
    start = text.find(wanted)
    while start >= 0:
        if not _cuts(text, start) and not _cuts(text, start + len(wanted)):
            return True
        start = text.find(wanted, start + 1)
    return False


def _cuts(text: str, place: int) -> bool:
    """Whether a boundary at this index splits a word or a number."""
    if not 0 < place < len(text):
        return False
    return text[place - 1] in _ASCII_WORD and text[place] in _ASCII_WORD
