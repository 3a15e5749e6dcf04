"""Alembic's entry point. `app/db/migrate.py` passes its connection; the command `alembic` uses the database that
`palimpsest serve` would use, with the same environment and `.env`."""

from collections.abc import Iterable
from logging.config import fileConfig

from alembic import context
from alembic.operations import MigrationScript
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from app.cli.startup import load_settings
from app.db.migrate import connect, known_revisions
from app.db.models import is_managed, metadata


def number(_: MigrationContext, __: str | Iterable[str | None] | Iterable[str], scripts: list[MigrationScript]) -> None:
    """Numbers a new revision after the last one."""
    for script in scripts:
        script.rev_id = f"{int(known_revisions()[-1]) + 1:04}"


def run(connection: Connection) -> None:
    # Batch mode rebuilds a table where SQLite cannot alter it.
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_name=is_managed,
        render_as_batch=True,
        transaction_per_migration=True,
        process_revision_directives=number,
    )
    with context.begin_transaction():
        context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    if context.config.config_file_name is not None:
        fileConfig(context.config.config_file_name)
    with connect(load_settings().url) as own:
        run(own)
        own.commit()
