"""The commands of `palimpsest db`, which need no server. Each fetches its work when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

database = typer.Typer(no_args_is_help=True, help="Manage the database.")


@database.command()
def upgrade() -> None:
    """Upgrade the database to the newest schema. The server does this automatically when it starts."""
    from app.cli.startup import load_settings
    from app.db.migrate import upgrade as migrate

    before, after = migrate(load_settings().url)
    if before == after:
        typer.echo(f"The database is already at the newest schema, {after}.")
    else:
        typer.echo(f"Upgraded the database from {f'schema {before}' if before else 'empty'} to schema {after}.")


@database.command()
def copy(
    source: Annotated[
        str, typer.Option("--from", metavar="URL", help="SQLAlchemy URL of the database to copy, sqlite or postgresql.")
    ],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="SQLAlchemy URL of an empty database.")],
) -> None:
    """Copy a database into an empty one, such as from SQLite to Postgres. Stop the server first.

    Copies everything but the full-text index, which searches build again, in one transaction: a failed copy leaves no
    rows behind. Raw outputs and workspaces are in the data directory and stay there. To use the copy, set
    PALIMPSEST_DATABASE_URL and start the server.
    """
    from app.cli.copying import copy as work

    work(source, target)
