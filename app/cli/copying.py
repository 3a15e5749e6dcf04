"""`palimpsest db copy`: copies a database and shows how far it is."""

from __future__ import annotations

import sys

import typer

from app.db.copy import copy_database


def copy(source: str, target: str) -> None:
    """Copies and reports what was copied. Raises `StorageError`."""
    copied = copy_database(source, target, _show if sys.stderr.isatty() else lambda *_: None)
    for table, rows in copied.items():
        typer.echo(f"{table:<20} {rows:>12,}")
    typer.echo(f"Copied {sum(copied.values()):,} rows. Set PALIMPSEST_DATABASE_URL to use the copy.")


def _show(table: str, done: int, total: int) -> None:
    """One line on the terminal, written over until the table is done."""
    typer.echo(f"\r{table:<20} {done:>12,} of {total:,}\x1b[K", nl=False, err=True)
    if done == total:
        typer.echo("\r\x1b[K", nl=False, err=True)
