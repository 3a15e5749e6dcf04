"""Tells a stream that repeats itself from one that is merely regular."""

from __future__ import annotations

LONGEST_UNIT = 80
"""Characters of the longest repeated unit that is detected: a line. Models that fail this way repeat a token, a word or
a sentence."""

LOOP_CHARS = 8_000
"""How many consecutive characters must be repetitions of one unit: a hundred identical lines. Rules under headings,
table borders, indentation and ASCII art have runs of a few hundred; a table row or a line of code differs from the
next one somewhere."""

_EVERY = 1_000
"""Characters after which a stream is checked again."""


class RepetitionCheck:
    """Checks a text as it grows. The work per character is bounded: `LONGEST_UNIT` comparisons of the newest
    `LOOP_CHARS` characters for every thousand that arrive, nearly all of which end at the first character."""

    def __init__(self) -> None:
        self._tail = ""
        self._fresh: list[str] = []
        self._new = 0

    def grows(self, text: str) -> bool:
        """Takes more of the text; returns whether its newest characters are all one short unit repeated."""
        self._fresh.append(text)
        self._new += len(text)
        if self._new < _EVERY:
            return False
        tail = self._tail = (self._tail + "".join(self._fresh))[-LOOP_CHARS:]
        self._fresh.clear()
        self._new = 0
        return len(tail) == LOOP_CHARS and any(tail.startswith(tail[unit:]) for unit in range(1, LONGEST_UNIT + 1))
