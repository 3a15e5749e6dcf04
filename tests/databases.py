"""The databases of the tests. `PALIMPSEST_TEST_DATABASE` chooses their kind, SQLite or Postgres. A database is named by
the path that its file has with SQLite; with the newest schema and no row: the migrations have tests of their own."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, Pool, Text, cast, event, select

from app.db.backends import backend_of
from app.db.migrate import upgrade
from app.db.models import metadata
from scripts.servers import postgres
from tests.database_pool import pool, template

_created: set[str] = set()
_kept: set[str] = set()
_dialects: dict[str, Dialect] = {}
_compiled: dict[Any, Any] = {}
"""By the dialect and the statement."""


def on_postgres() -> bool:
    """Whether the tests' databases are Postgres ones."""
    return os.environ.get("PALIMPSEST_TEST_DATABASE", "sqlite") == "postgres" or in_cluster()


def in_cluster() -> bool:
    """Whether the tests of behavior run against a cluster."""
    return os.environ.get("PALIMPSEST_TEST_CLUSTER", "") not in ("", "0")


def prepare() -> None:
    """Migrates once."""
    if on_postgres():
        template()
    else:
        migrated()


@cache
def migrated() -> bytes:
    """A SQLite file's content, in the journal mode that the service sets, as the change costs more than many a test."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "migrated.db"
        upgrade(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        return path.read_bytes()


def make_database(path: Path, *, keep: bool = False) -> Path:
    """Makes the database, with the directories above the file where they are missing, and gives the path back. `keep`
    says that other tests use it too, until `retire_database`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if on_postgres():
        pool.lend(_name(path))
        (_kept if keep else _created).add(_name(path))
    else:
        path.write_bytes(migrated())
    return path


def has_database(path: Path) -> bool:
    """Whether this test has made the database."""
    return _name(path) in _created if on_postgres() else path.exists()


def url_of(path: Path) -> str:
    """The URL of the database. With Postgres it is made if it is missing, without tables."""
    if not on_postgres():
        return f"sqlite:///{path}"
    name = _name(path)
    if name not in _created | _kept:
        if not postgres.cluster().has(name):
            postgres.cluster().create(name)
        _created.add(name)
    return postgres.cluster().url(name)


def database_settings(data_dir: Path) -> dict[str, str]:
    """The settings of a server that make it use this kind of database."""
    return {"database_url": url_of(data_dir / "palimpsest.db")} if on_postgres() else {}


def database_environment(data_dir: Path) -> dict[str, str]:
    """As `database_settings`, as environment variables."""
    return {f"PALIMPSEST_{name.upper()}": value for name, value in database_settings(data_dir).items()}


@contextmanager
def opened(path: Path) -> Iterator[Connection]:
    """A connection to the database; what it changes is committed at the end."""
    with backend_of(url_of(path)).migrating().begin() as connection:
        yield connection


def stored_rows(path: Path) -> bytes:
    """All rows as text. Empty with SQLite, whose files can be read themselves."""
    if not on_postgres():
        return b""
    with opened(path) as connection:
        queries = [select(cast(table.table_valued(), Text)) for table in metadata.sorted_tables]
        return "\n".join(row for query in queries for row in connection.execute(query).scalars()).encode()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Locks the database like another process that writes: it can be read only."""
    with opened(path) as connection:
        lock = "LOCK TABLE server, sessions IN EXCLUSIVE MODE" if on_postgres() else "BEGIN EXCLUSIVE"
        connection.exec_driver_sql(lock)
        yield


def refuse_rows(connection: Connection, table: str) -> None:
    """Makes the database refuse new rows of a table."""
    connection.exec_driver_sql(
        f"ALTER TABLE {table} ADD CONSTRAINT refusal CHECK (false) NOT VALID"
        if on_postgres()
        else f"CREATE TRIGGER refusal BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'full'); END"
    )


def accept_rows(connection: Connection, table: str) -> None:
    """Undoes `refuse_rows`."""
    connection.exec_driver_sql(
        f"ALTER TABLE {table} DROP CONSTRAINT refusal" if on_postgres() else "DROP TRIGGER refusal"
    )


def remove_database(path: Path) -> None:
    """Removes a database of this test, whose sessions are ended."""
    if on_postgres():
        _created.remove(_name(path))
        pool.take_back(_name(path))
    else:
        path.unlink(missing_ok=True)


def retire_database(path: Path) -> None:
    """Marks a kept database for removal at the end of this test."""
    if on_postgres():
        _kept.remove(_name(path))
        _created.add(_name(path))


def remove_databases() -> None:
    """Removes what a test has made on the Postgres server; files are removed with their directory."""
    while _created:
        pool.take_back(_created.pop())


def _name(path: Path) -> str:
    return f"t{sha256(str(path.absolute()).encode()).hexdigest()[:24]}"


@event.listens_for(Engine, "engine_connect")
def _share_compiled(connection: Connection) -> None:
    """Each server has its own engines, and would compile the same statements again: a quarter of the CPU time of many
    tests."""
    connection.dialect = _dialects.setdefault(connection.dialect.name, connection.dialect)
    connection.execution_options(compiled_cache=_compiled)


@event.listens_for(Pool, "checkout")
def _never_sync(connection: Any, record: Any, _proxy: Any) -> None:
    """Tests need not survive a power cut, and would wait for the disk at each start and end of a database."""
    if isinstance(connection, sqlite3.Connection) and not record.info.get("never_synced"):
        connection.execute("PRAGMA synchronous=OFF")
        record.info["never_synced"] = True
