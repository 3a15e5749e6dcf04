"""A terminal that shows a run as it happens: finished lines scroll up, and a region below them is redrawn with the text
that is being written, the current activity, and the line that is being typed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TextIO

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from app.cli.markdown import MAX_BLOCK_CHARS, closed_part, markdown_lines, text_lines
from app.cli.screen import Screen, visible

REDRAWN_S = 0.1
"""Seconds between redraws of the region."""
MAX_LINE_CHARS = 4_000
"""Characters of an unfinished line that are kept in the region; a longer one is printed."""
# Terminals that support the first pair show what is between them at once; others ignore it.
_BEGIN, _END = "\x1b[?2026h\x1b[?25l", "\x1b[?2026l"
_SHOW_CURSOR = "\x1b[?25h"
Footer = Callable[[int], list[Text]]
"""The lines below the open text, for a width in cells; the cursor stays at the end of the last one."""


class LiveScreen(Screen):
    """A screen whose open text and footer are redrawn by `redraw`, ten times a second. Lines are wrapped between words;
    `prose` is Markdown."""

    def __init__(self, out: TextIO, size: Callable[[], tuple[int, int]] | None = None) -> None:
        super().__init__(out, color=True)
        self._wraps = False  # `write` does
        self._size = size or (lambda: size_of(out))
        self._done: list[str] = []
        self._line = Text()
        self._prose = ""
        self._height = 0
        self._shown = ""
        self.footer: Footer = lambda _: []
        self.has_cursor = False
        """Whether the footer ends with a line that is being typed."""

    def write(self, text: str, **styles: Any) -> None:
        self.end_prose()
        self._line.append(visible(text), _style(styles))
        *whole, self._line = self._line.split("\n", allow_blank=True) if "\n" in self._line.plain else [self._line]
        if len(self._line) > MAX_LINE_CHARS:
            whole.append(self._line)
            self._line = Text()
        for line in whole:
            self._done += _wrapped(line, self._width)

    def fresh(self) -> None:
        self.end_prose()
        if self._line:
            self.write("\n")

    def prose(self, text: str) -> None:
        if self._line:
            self.write("\n")
        self._prose += text

    def end_prose(self) -> None:
        text, self._prose = self._prose, ""
        if text.strip():
            self._print_prose(text)

    def _print_prose(self, text: str) -> None:
        self._done += ["", *markdown_lines(text, self._width)]

    @property
    def _width(self) -> int:
        """One less than the terminal's: in the last column, terminals differ in when they wrap."""
        return max(1, self._size()[0] - 1)

    def redraw(self) -> None:
        """Prints what has been finished, and draws the region below it."""
        width, height = self._width, self._size()[1]
        if done := closed_part(self._prose):
            self._print_prose(self._prose[:done])
            self._prose = self._prose[done:]
        footer = [cut(line, width) for line in self.footer(width)]
        region = [*self._open(width, max(1, height - len(footer) - 1)), *footer]
        drawn = "\n".join(region)
        if not self._done and drawn == self._shown:
            return
        printed = "".join(f"{line}\n" for line in self._done)
        cursor = _SHOW_CURSOR if self.has_cursor else ""
        self._out.write(f"{_BEGIN}{self._erase()}{printed}{drawn}{cursor}{_END}")
        self._out.flush()
        self._done.clear()
        self._shown, self._height = drawn, len(region)

    def close(self) -> None:
        """Finishes the open text, removes the footer and shows the cursor."""
        self.fresh()
        self.footer = lambda _: []
        self.redraw()
        self._out.write(_SHOW_CURSOR)
        self._out.flush()

    def _open(self, width: int, most: int) -> list[str]:
        """The last lines of the text that is being written."""
        if self._prose.strip():
            return ["", *markdown_lines(self._prose[-MAX_BLOCK_CHARS:], width)][-most:]
        return _wrapped(self._line, width)[-most:] if self._line else []

    def _erase(self) -> str:
        up = f"\x1b[{self._height - 1}A" if self._height > 1 else ""
        return f"\r{up}\x1b[J"


def size_of(out: TextIO) -> tuple[int, int]:
    """Columns and lines of a terminal; 80 and 24 if unknown."""
    try:
        columns, lines = os.get_terminal_size(out.fileno())
    except (OSError, ValueError):
        return 80, 24
    return columns or 80, lines or 24


def status_line(text: str) -> Text:
    return Text(visible(text), style="cyan", no_wrap=True)


def typed_line(prompt: str, line: str, width: int) -> Text:
    """The end of a line that is being typed, after its prompt."""
    shown = visible(line).replace("\n", "⏎")
    room = max(1, width - cell_len(prompt) - 1)
    while cell_len(shown) > room:
        shown = shown[max(1, (len(shown) - room) // 2) :]
    return Text.assemble((visible(prompt), "bold"), shown)


def cut(text: Text, width: int) -> str:
    """A text as one line of at most `width` cells."""
    text.truncate(width, overflow="ellipsis")
    return text_lines(text, width)[0]


def _wrapped(line: Text, width: int) -> list[str]:
    if not line.spans and line.plain.isascii() and "\t" not in line.plain and len(line) <= width:
        return [line.plain]  # most output of commands, a hundred times faster
    return text_lines(line, width)


def _style(styles: dict[str, Any]) -> Style:
    """Rich's style for those of `typer.style`."""
    return Style(color=styles.get("fg"), bold=styles.get("bold"), dim=styles.get("dim"))
