"""The line that a person types below a run. It is edited here, because the terminal's own echo would mix with the
output."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CHARS = 100_000
"""Longest line; more is ignored."""
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
"""Makes the terminal mark what is pasted, so that a text of several lines is one message."""
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)
"""An arrow, a function key or Alt with a key; none of them has a function here."""
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*)?\Z")
_LAST_WORD = re.compile(r"\S*\s*\Z")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass
class LineEditor:
    """A line without its end. Backspace deletes a character, Ctrl-W a word, Ctrl-U all."""

    text: str = ""
    _is_pasting: bool = False
    _held: str = ""

    def feed(self, typed: str) -> list[str]:
        """Takes what was typed or pasted, in pieces of any size, and returns the lines that it completed."""
        if self._held != "\x1b" or typed.startswith("["):  # else it was the key Esc
            typed = self._held + typed
        cut = _UNFINISHED.search(typed)
        self._held = cut[0] if cut else ""
        rest = typed.removesuffix(self._held)
        lines: list[str] = []
        while rest:
            piece, mark, rest = rest.partition(_PASTE_ENDS if self._is_pasting else _PASTE_BEGINS)
            if self._is_pasting:
                self._add(piece.replace("\r", "\n"))
            else:
                self._type(piece, lines)
            self._is_pasting ^= bool(mark)
        return lines

    def _type(self, typed: str, lines: list[str]) -> None:
        for key in _SEQUENCE.sub("", typed):
            if key in "\r\n":
                lines.append(self.text)
                self.text = ""
            elif key in "\x7f\b":
                self.text = self.text[:-1]
            elif key == "\x17":
                self.text = _LAST_WORD.sub("", self.text)
            elif key == "\x15":
                self.text = ""
            elif not _UNPRINTABLE.match(key):
                self._add(key)

    def _add(self, text: str) -> None:
        self.text = (self.text + text)[:MAX_CHARS]
