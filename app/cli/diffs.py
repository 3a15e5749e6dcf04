"""What an edit changed, as lines for the screen."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

MAX_SHOWN_LINES = 40
"""Lines of one edit on the screen."""
MAX_COMPARED_LINES = 2_000
"""Longest texts that are compared line by line, which takes quadratic time; longer ones are removed and added whole."""
_CONTEXT_LINES = 2


def edit_counts(old: str, new: str) -> tuple[int, int]:
    """Lines that an edit added and removed."""
    lines = [line[0] for line in _diff(old, new)]
    return lines.count("+"), lines.count("-")


def edit_lines(old: str, new: str) -> list[str]:
    """The lines of an edit, each after `+`, `-` or a space; the last one tells how many are not shown."""
    lines = list(_diff(old, new))
    more = len(lines) - MAX_SHOWN_LINES
    return lines if more <= 0 else [*lines[:MAX_SHOWN_LINES], f" … {more:,} more lines"]


def _diff(old: str, new: str) -> Iterator[str]:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > MAX_COMPARED_LINES:
        yield from (f"-{line}" for line in before)
        yield from (f"+{line}" for line in after)
        return
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES):
        for tag, start, end, first, last in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[start:end])
            else:
                yield from (f"-{line}" for line in before[start:end])
                yield from (f"+{line}" for line in after[first:last])
