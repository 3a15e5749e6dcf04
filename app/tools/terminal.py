"""A command's output as a terminal shows it: a progress bar is its last state, and nothing is left of colors."""

from __future__ import annotations

import re
from collections.abc import Callable

from app.sandbox.base import Stream

LINE_CHARS = 2_000
"""Where a line wraps: a carriage return goes back to the start of what is in its last row. Bounds memory, and the time
that one character takes."""
_FURTHEST = 200
"""The column that moves to the right reach at most, unless the line is longer."""
_TAB = 8

_STRING = r"[^\x07\x18\x1a\x1b\n\x80-\x9f]*"
"""The content of a title, a hyperlink or an image. It ends with its line at the latest, since a program that was
interrupted may not have ended it."""
_STRING_START = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
_PARAMETERS = r"[0-?]*[ -/]*"
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x08\x0b-\x1f\x7f-\x9f]+)"
    rf"|(?P<begun>(?:\x1b(?:\[{_PARAMETERS}|[ -/]*)|\x9b{_PARAMETERS}|{_STRING_START}{_STRING}\x1b?)\Z)"
    rf"|{_STRING_START}{_STRING}(?:\x07|\x1b\\|[\x18\x1a\x9c])?"
    rf"|(?:\x1b\[|\x9b)(?P<parameters>{_PARAMETERS})(?P<final>[@-~]?)"
    r"|\x1b[ -/]*[0-~]?"
    r"|(?P<control>.)",
    re.DOTALL,
)
_LINE_FEEDS = "\x0b\x0c\x85"
_MOST_DIGITS = 9
_MOST_HELD = 64
"""Most characters of a sequence that are kept until its end comes; one that is longer moves nothing."""


class TerminalText:
    """Turns pieces of output into text, whose lines are passed on when nothing can overwrite them.

    Escape sequences are applied if they move within a line or erase it, else removed. Streams share the screen, but a
    sequence belongs to its stream. Takes linear time and bounded memory.
    """

    def __init__(self, take: Callable[[str], None]) -> None:
        """`take` gets the text."""
        self._take = take
        self._begun: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._line = ""
        self._column = 0
        self._overwritten = False

    def feed(self, stream: Stream, text: str) -> None:
        for token in _TOKEN.finditer(self._begun[stream] + text.replace("\r\n", "\n")):
            kind = token.lastgroup
            if kind == "text":
                self._write(token[0])
            elif kind == "final":
                self._move(token["parameters"], token["final"])
            elif kind == "control":
                self._control(token[0])
            elif kind == "begun":
                self._begun[stream] = _shortened(token[0])
                return
        self._begun[stream] = ""

    def close(self) -> None:
        """Passes on the last line. A sequence without an end is dropped."""
        self._end_line("")

    def _control(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character in _LINE_FEEDS:
            self._end_line("\n")

    def _write(self, text: str) -> None:
        if self._overwritten or self._column != len(self._line):
            text = self._overwrite(text)
        if not text:
            return
        lines, newline, rest = text.rpartition("\n")
        if newline:
            self._take(self._line + lines + newline)
            self._line = ""
        self._line += rest
        self._column = len(self._line)
        self._wrap()

    def _overwrite(self, text: str) -> str:
        """Writes the text's first line over the current one; returns the rest."""
        line, newline, rest = text.partition("\n")
        if line and not self._overwritten:
            self._overwritten = True
            self._line = self._line.expandtabs(_TAB)
        for number, part in enumerate(line.split("\t")):
            if number:
                self._column += _TAB - self._column % _TAB
            if part:
                self._put(part)
        if newline:
            self._end_line(newline)
        return rest

    def _put(self, text: str) -> None:
        end = self._column + len(text)
        self._line = self._line[: self._column].ljust(self._column) + text + self._line[end:]
        self._column = end
        self._wrap()

    def _wrap(self) -> None:
        full = (len(self._line) - 1) // LINE_CHARS * LINE_CHARS
        if full > 0:
            self._take(self._line[:full])
            self._line = self._line[full:]
            self._column = max(0, self._column - full)

    def _end_line(self, end: str) -> None:
        # Blanks hide what was there before.
        line = self._line.rstrip(" ") if self._overwritten else self._line
        if line or end:
            self._take(line + end)
        self._line, self._column, self._overwritten = "", 0, False

    def _move(self, parameters: str, final: str) -> None:
        if parameters and not (parameters.isdecimal() and len(parameters) <= _MOST_DIGITS):
            return
        count = int(parameters or 0)
        if final == "K":
            self._erase(count)
        elif final == "G":
            self._go_to(count - 1)
        elif final == "C":
            self._go_to(self._column + max(1, count))
        elif final == "D":
            self._go_to(self._column - max(1, count))

    def _go_to(self, column: int) -> None:
        self._column = max(0, min(column, max(len(self._line), _FURTHEST)))

    def _erase(self, part: int) -> None:
        if part == 0:
            self._line = self._line[: self._column]
        elif part == 1:
            self._line = " " * len(self._line[: self._column + 1]) + self._line[self._column + 1 :]
        elif part == 2:
            self._line = ""
        self._overwritten = True


def _shortened(begun: str) -> str:
    """The start of a sequence, as far as what follows depends on it."""
    if begun[0] in "\x1b\x9b" and begun[1:2] not in (*"]PX^_",):
        return begun if len(begun) <= _MOST_HELD else begun[:2]
    start = begun[: 2 if begun[0] == "\x1b" else 1]
    return start + "\x1b" if begun.endswith("\x1b") and len(begun) > len(start) else start


def folded(text: str) -> str:
    """A whole text as a terminal shows it."""
    lines: list[str] = []
    terminal = TerminalText(lines.append)
    terminal.feed("stdout", text)
    terminal.close()
    return "".join(lines)
