"""Lists: a table that fits a terminal, lines with tabs for other programs, and chosen fields as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from app.cli.screen import Screen, UsageError, columns, visible

if TYPE_CHECKING:
    from pydantic import BaseModel

ALL = "all"
_GAP = "  "


class Listing(TyperCommand):
    """A command whose `--json` takes fields, or stands alone to list them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_optional_values(args, "--json"))


def with_optional_values(args: list[str], *names: str) -> list[str]:
    """The arguments, with an empty value for each of these options that has none."""
    following = [*args[1:], "-"]
    return [
        f"{each}=" if each in names and after.startswith("-") else each
        for each, after in zip(args, following, strict=False)
    ]


def chosen(fields: str | None, model: type[BaseModel]) -> list[str] | None:
    """The fields named in the option `--json`; None without it. Prints the available ones and exits if it names none.
    Raises `UsageError` for an unknown field."""
    if fields is None:
        return None
    known = [*model.model_fields]
    if not fields.strip():
        for name in known:
            typer.echo(name)
        raise typer.Exit
    names = known if fields.strip() == ALL else [name.strip() for name in fields.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"{visible(unknown[0])} is not a field. --json alone lists the fields; --json {ALL} prints them all.",
            code="unknown_field",
        )
    return names


def print_json(items: Iterable[dict[str, Any]], names: Sequence[str]) -> None:
    """Prints an array of objects with these fields; null for one that this server does not send."""
    typer.echo(json.dumps([{name: item.get(name) for name in names} for item in items], indent=2))


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: `text` for a person, `plain` for a program, if that differs."""

    text: str
    plain: str | None = None
    style: dict[str, Any] = field(default_factory=dict)


def print_table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """In a terminal: aligned columns below a header, the last of which is cut to fit. Otherwise: a line for each row,
    with full values separated by tabs and no header."""
    if not sys.stdout.isatty():
        for row in rows:
            typer.echo("\t".join(_flat(cell.text if cell.plain is None else cell.plain) for cell in row))
        return
    screen, width = Screen(), columns(sys.stdout)
    widths = [max(len(name), *(len(_flat(row[at].text)) for row in rows)) for at, name in enumerate(head)]
    _print_row(screen, [Cell(name, style={"dim": True}) for name in head], widths, width)
    for row in rows:
        _print_row(screen, row, widths, width)


def _print_row(screen: Screen, row: Sequence[Cell], widths: Sequence[int], width: int) -> None:
    from rich.cells import cell_len, set_cell_size

    left = width
    for cell, wanted in zip(row[:-1], widths, strict=False):
        screen.write(_flat(cell.text).ljust(wanted)[:left], **cell.style)
        screen.write(_GAP[: max(0, left - wanted)])
        left = max(0, left - wanted - len(_GAP))
    text = _flat(row[-1].text)
    cut = text if cell_len(text) <= left else set_cell_size(text, max(0, left - 1)).rstrip() + "…" * (left > 0)
    screen.write(cut, **row[-1].style)
    screen.write("\n")


def _flat(text: str) -> str:
    """A text on one line, without tabs and control characters."""
    return visible(" ".join(text.split()))


def ago(time: str, now: datetime) -> str:
    """How long ago an RFC 3339 time was: `just now`, `3 min ago`, `5 h ago` or `12 d ago`, rounded down."""
    age = now - datetime.fromisoformat(time)
    return "just now" if age < timedelta(minutes=1) else f"{short_age(age)} ago"


def short_age(age: timedelta) -> str:
    """`12 d`, `5 h` or `3 min`, rounded down."""
    if age >= timedelta(days=1):
        return f"{age.days} d"
    minutes = max(0, int(age.total_seconds())) // 60
    return f"{minutes // 60} h" if minutes >= 60 else f"{minutes} min"
