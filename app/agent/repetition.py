"""Tells a stream that has fallen into repeating itself from one that is merely regular."""

from __future__ import annotations

LONGEST_UNIT = 80
"""Characters of the longest unit that is looked for: a line. Models that fail this way repeat a token, a word or a
sentence."""

LOOP_CHARS = 8_000
"""How many characters in a row must be one unit over and over: a hundred lines that are the same to the letter. Rules
under headings, borders of tables, indentation and ASCII art have runs of some hundred; a row of a table or a line of
code differs from the next one somewhere."""

_EVERY = 1_000
"""Characters after which a stream is looked at again."""


class RepetitionCheck:
    """Looks at a text as it grows. The work for each character is bounded: `LONGEST_UNIT` comparisons of the newest
    `LOOP_CHARS` characters for every thousand that come, of which nearly all end at their first character."""

    def __init__(self) -> None:
        self._tail = ""
        self._fresh: list[str] = []
        self._new = 0

    def grows(self, text: str) -> bool:
        """Takes more of the text; says whether all of its newest characters are one short unit repeated."""
        self._fresh.append(text)
        self._new += len(text)
        if self._new < _EVERY:
            return False
        tail = self._tail = (self._tail + "".join(self._fresh))[-LOOP_CHARS:]
        self._fresh.clear()
        self._new = 0
        return len(tail) == LOOP_CHARS and any(tail.startswith(tail[unit:]) for unit in range(1, LONGEST_UNIT + 1))
