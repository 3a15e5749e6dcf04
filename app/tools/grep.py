"""A stored output read as a stream of lines, and the search in it by a model's regular expression, bounded in time."""

from __future__ import annotations

import codecs
import io
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from app.errors import ToolError
from app.tools.output import OutputLimit
from app.tools.text import Pattern, PatternError

CONTEXT = 2
"""Lines shown before and after a match."""
MAX_MATCHES = 200
MAX_LINE_CHARS = 500
"""Maximum characters of a line that are shown, around the match; as in `search_files`."""
SEARCH_S = 2.0
"""Seconds of CPU time per search, so that a busy machine finds as much as an idle one."""
BLOCK = 16 * 1024
"""Bytes of short lines that are searched together, which is many times as fast as one by one."""

PIECE = 64 * 1024
"""Bytes of a line that are processed together; a longer line comes in pieces, which bounds memory and a pattern's
backtracking."""
OVERLAP = 4096
"""Characters of a long line that are searched again with its next piece. A longer match there may be missed."""
_BLOCK = 1024 * 1024


def compile_pattern(pattern: str) -> Pattern:
    """Raises `ToolError` for an invalid pattern."""
    try:
        return Pattern(pattern)
    except PatternError as exc:
        raise ToolError(
            f"grep is not a regular expression that can be used: {exc}. The syntax is RE2's; put a backslash before"
            " ( ) [ ] . * + ? | to take them literally."
        ) from exc


class Grep:
    """Matches with their line numbers and two lines of context, as `grep -n -C 2` prints them, limited in length.

    After `run`, `text` is what is shown and `matches` the number of matches in it. `go_on` is the line to continue from
    if the search ended early, because of its time (`timed_out`) or the length of its result.
    """

    def __init__(
        self,
        pattern: Pattern,
        limit: OutputLimit,
        *,
        seconds: float = SEARCH_S,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._pattern = pattern
        self._block_pattern = pattern.over_lines()
        self._left = limit
        self._clock = clock
        self._deadline = clock() + seconds
        self._shown: list[str] = []
        self._before: deque[Piece] = deque(maxlen=CONTEXT)
        self._after = 0
        self._last_line = 0
        self._skip = 0
        self.matches = 0
        self.go_on: int | None = None
        self.timed_out = False

    @property
    def text(self) -> str:
        return "".join(self._shown)

    def run(self, file: BinaryIO, start: int, end: int | None) -> None:
        """Searches from the file's position, which is line `start`, to line `end`, or to the end of the file."""
        line = start
        while self.go_on is None and (end is None or line <= end):
            at = file.tell()
            block = file.read(BLOCK)
            if not block.endswith(b"\n"):
                block += file.readline(PIECE)
            if not block.endswith(b"\n"):
                # The end of the file, or a line that is too long for this.
                file.seek(at)
                self._look_at_lines(file, line, end)
                return
            if not self._pass_over(block, line):
                self._look_at_lines(io.BytesIO(block), line, end)
            line += block.count(b"\n")

    def _pass_over(self, block: bytes, line: int) -> bool:
        """Whether no line of the block matches, and none is context of an earlier match."""
        if self._block_pattern is None or self._after or self._clock() >= self._deadline:
            return False
        text = block.decode("utf-8", "replace").replace("\x00", "\ufffd").replace("\r\n", "\n")
        if self._block_pattern.search(text) is not None:
            return False
        lines = text.split("\n")[:-1]
        for number in range(max(0, len(lines) - CONTEXT), len(lines)):
            self._before.append(Piece(line + number, lines[number], 0, True, True, "\n"))
        return True

    def _look_at_lines(self, file: BinaryIO, start: int, end: int | None) -> None:
        for piece in pieces(file, start):
            if end is not None and piece.line > end:
                return
            try:
                self._look(piece)
            except TimeoutError:
                self.timed_out = True
                self.go_on = piece.line
            if self.go_on is not None:
                return

    def _look(self, piece: Piece) -> None:
        """Shows the piece's matches; without any, it may be context."""
        match = self._search(piece.text, 0) if piece.first and piece.last else None
        if match is None and piece.first and piece.last:
            self._take_context(piece)
            return
        found = False
        # A match at the end of a piece may continue in the next one, which searches there again.
        limit = len(piece.text) if piece.last else len(piece.text) - OVERLAP
        at = max(self._skip, 0 if piece.first else 1)
        while self.go_on is None and (match := self._search(piece.text, at)) is not None:
            if match[0] >= limit and not piece.last:
                break
            found = True
            at = self._show_match(piece, match)
            if at > len(piece.text):
                break
        self._skip = 0 if piece.last else max(0, at - limit + 1)
        if not found and piece.first:
            self._take_context(piece)

    def _search(self, text: str, at: int) -> tuple[int, int] | None:
        if self._clock() >= self._deadline:
            raise TimeoutError
        return self._pattern.search(text, at)

    def _show_match(self, piece: Piece, match: tuple[int, int]) -> int:
        """Shows a match; returns the index to continue the search from, beyond the line's end if all of it is shown."""
        for before in self._before:
            self._show_context(before)
        self._before.clear()
        begin, end = _window(len(piece.text), match[0])
        head = "…" if begin or not piece.first else ""
        tail = "…" if end < len(piece.text) or not piece.last else ""
        self._show(piece.line, ":", f"{head}{piece.text[begin:end]}{tail}")
        self.matches += self.go_on is None
        self._after = CONTEXT
        if self.matches >= MAX_MATCHES and self.go_on is None:
            self.go_on = piece.line + 1
        return max(end, match[1], match[0] + 1) if tail else len(piece.text) + 1

    def _take_context(self, piece: Piece) -> None:
        if self._after:
            self._after -= 1
            self._show_context(piece)
        else:
            self._before.append(piece)

    def _show_context(self, piece: Piece) -> None:
        text = piece.text[:MAX_LINE_CHARS]
        self._show(piece.line, "-", text if piece.last and len(text) == len(piece.text) else f"{text}…")

    def _show(self, line: int, mark: str, text: str) -> None:
        """Adds a line to what is shown, or ends the search if there is no room for it."""
        gap = "--\n" if self._last_line and line > self._last_line + 1 else ""
        entry = f"{gap}{line}{mark}{text}\n"
        if self.go_on is None and not self._shown:
            # The first entry is always shown, if necessary only its start, so that continuing makes progress.
            entry = self._left.start_of(entry)
        elif self.go_on is None and self._left.start_of(entry) != entry:
            self.go_on = line + (line == self._last_line)
        if self.go_on is None:
            self._shown.append(entry)
            self._left = self._left.less(entry)
            self._last_line = line


def _window(length: int, start: int) -> tuple[int, int]:
    """The part of a line that is shown: all of a short one, else the characters around the match's start."""
    if length <= MAX_LINE_CHARS:
        return 0, length
    begin = max(0, min(start - MAX_LINE_CHARS // 4, length - MAX_LINE_CHARS))
    return begin, begin + MAX_LINE_CHARS


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
