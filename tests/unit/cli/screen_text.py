"""What a terminal shows after some output, for the few sequences that the command line uses."""

from __future__ import annotations

import re

_PIECES = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|(.)", re.DOTALL)


def screen_text(written: str) -> str:
    """The lines of the screen, without colors. Fails on any other escape sequence or control character."""
    lines, row, column = [""], 0, 0
    for found in _PIECES.finditer(written):
        argument, final, char = found.groups()
        if final == "A":
            row -= int(argument)
            assert row >= 0
        elif final == "J":
            lines[row:] = [lines[row][:column]]
        elif final is not None:
            assert final == "m" or argument in ("?25", "?2026"), found[0]
        elif char == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif char == "\r":
            column = 0
        else:
            assert char.isprintable(), repr(char)
            lines[row] = lines[row][:column].ljust(column) + char + lines[row][column + 1 :]
            column += 1
    return "\n".join(line.rstrip() for line in lines)
