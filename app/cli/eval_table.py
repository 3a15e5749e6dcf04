"""What both forms of `palimpsest eval` print and write: tables, reports, and progress on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from app.cli.screen import CliError, Screen, visible

LINE_CHARS = 79
"""Max length of a progress line, so that it fits one line of a narrow terminal."""
_CLEAR_LINE = "\r\x1b[2K"


class ProgressLine:
    """Progress on standard error: on a terminal in one changing line, elsewhere only what is completed."""

    def __init__(self) -> None:
        self._screen = Screen(sys.stderr)
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def change(self, text: str) -> None:
        """Replaces the changing line."""
        if self._live:
            self._show(text, end="")

    def end(self, text: str) -> None:
        """Prints a line that stays."""
        if self._live:
            self._show(text, end="\n")
        else:
            self._screen.line(text, dim=True)

    def clear(self) -> None:
        """Removes the changing line."""
        self.change("")

    def _show(self, text: str, end: str) -> None:
        sys.stderr.write(_CLEAR_LINE + visible(text)[:LINE_CHARS] + end)
        sys.stderr.flush()


def percent(value: float | None) -> str:
    """`83%`; a dash for None."""
    return "–" if value is None else f"{round(100 * value)}%"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their contents; the first is left-aligned, figures are right-aligned. A row of two cells has a
    remark instead of figures."""
    whole = [titles, *(row for row in rows if len(row) == len(titles))]
    widths = [max(len(row[column]) for row in whole) for column in range(len(titles))]
    widths[0] = max(widths[0], *(len(row[0]) for row in rows), 12)
    return "\n".join(_line(row, widths) for row in [titles, *rows])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    if len(row) < len(widths):
        return f"  {row[0]:<{widths[0]}}  {row[1]}"
    cells = [f"{row[0]:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))]
    return "  " + "  ".join(cells).rstrip()


def write_report(document: Mapping[str, Any], *, out: Path | None, as_json: bool) -> None:
    """Writes the report as JSON: to `out` if given, and to standard output with `as_json`."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if out is not None:
        try:
            out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise _not_written(out, error) from error
    if as_json:
        typer.echo(text)


def check_writable(out: Path) -> None:
    """Raises `CliError` before any work or paid call."""
    try:
        with out.open("a"):
            pass
    except OSError as error:
        raise _not_written(out, error) from error


def _not_written(out: Path, error: OSError) -> CliError:
    return CliError(f"{out} cannot be written: {error.strerror}.", code="not_written")
