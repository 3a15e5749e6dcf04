"""Line ends of files that a model edits: it writes LF, and a file keeps those it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from app.tools.text import skip_lines

_END = re.compile(r"\r?\n")
_BARE = re.compile(r"(?<!\r)\n")


def unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def in_crlf(content: str, at: int) -> bool:
    """Whether a place is between CR and LF."""
    return content[max(0, at - 1) : at + 1] == "\r\n"


def place_in(content: str, unix_content: str, at: int) -> int:
    """The place in `content` of a place in its `unix` form; an end of a line is before its CR."""
    line = unix_content.count("\n", 0, at)
    return skip_lines(content, 0, line) + at - (unix_content.rfind("\n", 0, at) + 1)


def inserted(content: str, start: int, end: int, new: str) -> str:
    """`new` for a part of one line, `content[start:end]`: its bare LF become the line's own end."""
    newline = content.find("\n", end)
    if newline < 0:
        newline = content.rfind("\n", 0, start)
    return _BARE.sub("\r\n", new) if newline > 0 and content[newline - 1] == "\r" else new


def rewritten(lines: str, new: str) -> str:
    """`new` for some lines: those at its start and end that stay keep their ends, others get the first one's."""
    ends, old = _END.findall(lines), unix(lines).split("\n")
    written = unix(new).split("\n")
    same_first = _same(old, written)
    same_last = _same(old[same_first:][::-1], written[same_first:][::-1])
    count = len(written) - 1
    text = written[0]
    for number, line in enumerate(written[1:]):
        from_last = count - number
        if number < min(same_first, len(ends)):
            end = ends[number]
        elif from_last <= min(same_last, len(ends)):
            end = ends[-from_last]
        else:
            end = ends[0]
        text += end + line
    return text


def _same(first: Sequence[str], second: Sequence[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
