"""Alembic's entry point: runs migrations on the connection passed by `app/db/migrate.py`, or opens its own."""

from alembic import context
from sqlalchemy import Connection

from app.db.migrate import connect
from app.db.models import is_managed, metadata


def run(connection: Connection) -> None:
    # Batch mode rebuilds a table where SQLite cannot alter it.
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_name=is_managed,
        render_as_batch=True,
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with connect() as own:
        run(own)
