"""Migrates a database to the newest schema. Migrations are in `migrations/` (in a wheel: inside the package), each in a
file named after its revision. Alembic is loaded only to migrate; a server does that in a subprocess.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DBAPIError

from app.db.backends import Backend, backend_of
from app.db.errors import reason
from app.errors import StorageError

_PACKAGE = Path(__file__).resolve().parent.parent


def migrations_folder() -> Path:
    """The folder of the migrations: inside an installed package, next to it in a checkout."""
    packaged = _PACKAGE / "_migrations"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "migrations"


@contextmanager
def connect(url: str) -> Iterator[Connection]:
    """A connection for migrations, while no other process migrates the database. Raises `StorageError` if it cannot be
    used."""
    backend = backend_of(url)
    with _usable(backend):
        backend.create()
        with _connect(backend) as connection, backend.migration(connection):
            yield connection


@contextmanager
def _connect(backend: Backend) -> Iterator[Connection]:
    engine = backend.migrating()
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def upgrade(url: str) -> tuple[str | None, str | None]:
    """Migrates to the newest schema; returns the revisions before and after. Blocks: call it in a thread.

    Raises `StorageError` if the database cannot be opened or written, or has an unknown schema.
    """
    backend = backend_of(url)
    with _usable(backend):
        backend.create()
        with _connect(backend) as connection:
            backend.refuse_unusable(connection)
            with backend.migration(connection):
                before = _revision(connection)
                _refuse_unknown(before)
                if before != known_revisions()[-1]:
                    _migrate(connection)
                return before, _revision(connection)


def upgrade_in_subprocess(url: str, reading: Callable[[], AbstractContextManager[Connection]]) -> None:
    """As `upgrade`, in a process that ends afterward: a server would keep the 10 MiB that Alembic and its work take.
    `reading` opens the connection that reads the current revision; a server's pool keeps it.

    Blocks. Raises `StorageError` as `upgrade` does. The subprocess ends its work whatever happens to this one.
    """
    backend = backend_of(url)
    with _usable(backend):
        backend.create()
        with reading() as connection:
            backend.refuse_unusable(connection)
            current = _revision(connection)
    _refuse_unknown(current)
    if current == known_revisions()[-1]:
        return
    # It imports from where this process does, and with -P not from a folder `app` in the working directory.
    ran = subprocess.run(  # noqa: S603 - this file
        [sys.executable, "-P", "-m", __name__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PALIMPSEST_DATABASE_URL": url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    if ran.returncode:
        why = ran.stderr.strip()[-1000:] or f"its process ended with {ran.returncode}"
        raise StorageError(ran.stdout or f"The database {backend} could not be upgraded: {why}")


def revisions(url: str) -> tuple[str | None, str | None]:
    """The revisions of an existing database and of the newest schema. Blocks.

    Raises `StorageError` if the database cannot be opened or has an unknown schema.
    """
    backend = backend_of(url)
    with _usable(backend), _connect(backend) as connection:
        current = _revision(connection)
    _refuse_unknown(current)
    return current, known_revisions()[-1]


@contextmanager
def _usable(backend: Backend) -> Iterator[None]:
    """Turns the errors of a database that cannot be opened or written into `StorageError`."""
    try:
        yield
    except (DBAPIError, OSError) as error:
        why = reason(error) if isinstance(error, DBAPIError) else error
        raise StorageError(f"The database {backend} cannot be used: {why}.") from error


def known_revisions() -> list[str]:
    """All revisions, the newest last."""
    return sorted(path.name.partition("_")[0] for path in (migrations_folder() / "versions").glob("[0-9]*_*.py"))


def _revision(connection: Connection) -> str | None:
    """The revision of a database, None if it has no Palimpsest tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.exec_driver_sql("select version_num from alembic_version").scalar_one_or_none()
    return revision


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()


def _refuse_unknown(revision: str | None) -> None:
    if revision is not None and revision not in known_revisions():
        raise StorageError(f"The database was created by a newer version (schema {revision}); upgrade Palimpsest.")


def _main() -> int:
    """The process of `upgrade_in_subprocess`: prints the detail of an error."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # SQLite commits a migration in parts, so one that was cut off cannot be repeated.
        signal.signal(number, signal.SIG_IGN)
    try:
        upgrade(os.environ["PALIMPSEST_DATABASE_URL"])
    except StorageError as error:
        print(error.detail, end="")  # noqa: T201 - read by the process that started this one
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
