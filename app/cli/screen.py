"""Terminal output that neutralizes control sequences: text from models, commands and file names is untrusted."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

from typer import style

# C0 except newline and tab, DEL and C1, which start all escape sequences, and characters that reorder text (bidi).
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with control characters escaped, as `\\x1b`; newlines and tabs stay."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def one_line(text: str, width: int = 120) -> str:
    """`text` on one line of at most `width` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def silence() -> None:
    """Discards further output: the reader has closed the pipe, and the interpreter would report an error at exit."""
    with open(os.devnull, "w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere.fileno(), stream.fileno())


class Screen:
    """Writes untrusted text to `out` as it arrives, and tracks whether a line is open. Styles are those of
    `typer.style` and apply only on a terminal."""

    def __init__(self, out: TextIO | None = None, *, colour: bool | None = None) -> None:
        self._out = out or sys.stdout
        self._colour = _wants_colour(self._out) if colour is None else colour
        self._at_start = True
        reconfigure = getattr(self._out, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")

    def write(self, text: str, **styles: Any) -> None:
        """Continues where the last text ended."""
        shown = visible(text)
        if not shown:
            return
        self._out.write(style(shown, **styles) if self._colour and styles else shown)
        self._out.flush()
        self._at_start = shown.endswith("\n")

    def fresh(self) -> None:
        """Ends an open line."""
        if not self._at_start:
            self.write("\n")

    def line(self, text: str = "", **styles: Any) -> None:
        """Writes `text` on its own line or lines."""
        self.fresh()
        self.write(text, **styles)
        self.write("\n")


def _wants_colour(out: TextIO) -> bool:
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
