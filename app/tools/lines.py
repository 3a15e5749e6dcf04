"""Lines of a stored output, read as a stream: their positions, and ranges of them."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from app.tools.output import OutputLimit

PIECE = 64 * 1024
"""Bytes of a line that are processed together; a longer line comes in pieces, which bounds memory and a pattern's
backtracking."""

OVERLAP = 4096
"""Characters of a long line that are searched again with its next piece. A longer match there may be missed."""

_BLOCK = 1024 * 1024


class Piece(NamedTuple):
    """A line, or a part of a long one, which then begins with `shared` characters of the part before it. `line` counts
    from 1; `end` is the line ending, if this is the line's last piece."""

    line: int
    text: str
    shared: int
    first: bool
    last: bool
    end: str


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines `first` to `last` of a text of `total` lines; `cut` if the only line is incomplete."""

    text: str
    first: int
    last: int
    total: int
    cut: bool


def locate(file: BinaryIO, line: int) -> tuple[int | None, int]:
    """The byte offset of a line, None if the line does not exist, and the number of lines."""
    found = 0 if line == 1 else None
    offset, passed, ended = 0, 0, True
    while block := file.read(_BLOCK):
        ends = block.count(b"\n")
        if found is None and passed + ends >= line - 1:
            found = offset + _after_ends(block, line - 1 - passed)
        offset += len(block)
        passed += ends
        ended = block.endswith(b"\n")
    total = passed + (not ended)
    return (found if line <= total else None), total


def _after_ends(block: bytes, count: int) -> int:
    position = 0
    for _ in range(count):
        position = block.index(b"\n", position) + 1
    return position


def pieces(file: BinaryIO, line: int = 1) -> Iterator[Piece]:
    """The lines from the file's position, the first numbered `line`, split only at LF. NUL and anything not UTF-8
    become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    shared, first = "", True
    data = file.readline(PIECE)
    while data:
        following = file.readline(PIECE)
        last = data.endswith(b"\n") or not following
        if first and last and data.isascii() and b"\x00" not in data:
            text = data.decode("ascii")  # most lines by far, and several times as fast
        else:
            text = shared + decoder.decode(data, final=last).replace("\x00", "\ufffd")
        body = text.removesuffix("\n").removesuffix("\r") if data.endswith(b"\n") else text
        yield Piece(line, body, min(len(shared), len(body)), first, last, text[len(body) :])
        # One more character than is searched again, so that `^` does not match at the start of a later piece.
        shared = "" if last else text[-OVERLAP - 1 :]
        line, first, data = line + last, last, following


def read_range(file: BinaryIO, start: int, end: int, limit: OutputLimit) -> LineRange | None:
    """Whole lines from `start` to `end`, both inclusive, within the limit, but at least one line, cut if it alone is
    too long. None if `start` is beyond the last line."""
    offset, total = locate(file, start)
    if offset is None:
        return None
    file.seek(offset)
    read: list[str] = []
    size = 0
    for piece in pieces(file, start):
        read.append(piece.text[piece.shared :] + piece.end)
        size += len(read[-1])
        if size > limit.chars or (piece.last and piece.line >= end):
            break
    text = "".join(read)
    shown = limit.lines_of(text)
    cut = shown != text and not shown.endswith("\n")
    count = shown.count("\n") + (not shown.endswith("\n"))
    return LineRange(shown, start, start + count - 1, total, cut)
