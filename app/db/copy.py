"""Copies a database into another one, of the same kind or of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, TypeDecorator, column, func, insert, select, table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import TableClause
from sqlalchemy.types import TypeEngine

from app.db.backends import Backend, backend_of, refusal
from app.db.dialects import is_postgres
from app.db.migrate import revisions, upgrade
from app.db.models import metadata, search_entries
from app.errors import StorageError

BATCH_ROWS = 500
BATCH_CHARS = 4 * 1024 * 1024
"""A batch ends with whichever is reached first, so that large rows do not fill the memory."""

TABLES: tuple[Table, ...] = tuple(found for found in metadata.sorted_tables if found is not search_entries)
"""In the order in which their rows can be inserted. The full-text index is left out: searches build it again."""

Progress = Callable[[str, int, int], None]
"""Called with a table's name, its rows copied so far and all its rows."""


def copy_database(source_url: str, target_url: str, progress: Progress = lambda *_: None) -> dict[str, int]:
    """Copies all rows into an empty database, whose schema it creates; returns their number by table. Both servers must
    be stopped. Either everything is copied or nothing. Blocks.

    Raises `StorageError` if a database cannot be used, the source is not at the newest schema, the target has rows, or
    the numbers of rows differ at the end.
    """
    source, target = backend_of(source_url), backend_of(target_url)
    if str(source) == str(target):
        raise StorageError("The source and the target are the same database.")
    _require_newest_schema(source_url, source)
    upgrade(target_url)
    with _reading(source) as reader, _writing(target) as writer:
        _require_empty(writer, target)
        copied = {found.name: _copy_table(reader, writer, found, progress) for found in TABLES}
        _verify(writer, copied)
    return copied


def _require_newest_schema(url: str, source: Backend) -> None:
    if not source.exists():
        raise StorageError(f"There is no database {source}.")
    current, newest = revisions(url)
    if current != newest:
        raise StorageError(
            f"The database {source} is at schema {current or 'none'}, the newest is {newest}. Upgrade it first:"
            " PALIMPSEST_DATABASE_URL=… palimpsest db upgrade."
        )


@contextmanager
def _reading(source: Backend) -> Iterator[Connection]:
    engine = source.reading(1)
    try:
        with _refusals(f"The database {source} cannot be read"), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def _writing(target: Backend) -> Iterator[Connection]:
    """One transaction, so that a failed copy leaves nothing behind."""
    engine = target.writing()
    try:
        with _refusals(f"The database {target} refused the copy"), engine.begin() as connection:
            if is_postgres(connection):
                # It waits for the source between two batches.
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield connection
    finally:
        engine.dispose()


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise refusal(error, what) from error


def _require_empty(writer: Connection, target: Backend) -> None:
    filled = [found.name for found in TABLES if writer.execute(select(found).limit(1)).first() is not None]
    if filled:
        raise StorageError(f"The database {target} has rows already ({', '.join(filled)}); a copy needs an empty one.")


def _copy_table(reader: Connection, writer: Connection, copied: Table, progress: Progress) -> int:
    plain = _plain(copied)
    total, done = _count(reader, copied), 0
    progress(copied.name, done, total)
    query = select(plain).order_by(*(plain.c[key.name] for key in copied.primary_key))
    for batch in _batches(reader, query):
        writer.execute(insert(plain), [row._asdict() for row in batch])
        done += len(batch)
        progress(copied.name, done, total)
    return done


def _plain(copied: Table) -> TableClause:
    """The table with the values as they are stored: JSON stays the same to the letter."""
    return table(copied.name, *(column(found.name, _stored_type(found.type)) for found in copied.columns))


def _stored_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    return type_.impl_instance if isinstance(type_, TypeDecorator) else type_


def _batches(reader: Connection, query: Select[Any]) -> Iterator[Sequence[Row[Any]]]:
    batch: list[Row[Any]] = []
    chars = 0
    with reader.execute(query.execution_options(stream_results=True, max_row_buffer=BATCH_ROWS // 10)) as rows:
        for row in rows:
            batch.append(row)
            chars += sum(len(value) for value in row if isinstance(value, str | bytes))
            if len(batch) == BATCH_ROWS or chars > BATCH_CHARS:
                yield batch
                batch, chars = [], 0
    if batch:
        yield batch


def _verify(writer: Connection, copied: dict[str, int]) -> None:
    for found in TABLES:
        stored = _count(writer, found)
        if stored != copied[found.name]:
            raise StorageError(
                f"The copy of {found.name} has {stored} rows instead of {copied[found.name]}; nothing is kept."
            )


def _count(connection: Connection, counted: Table) -> int:
    return connection.execute(select(func.count()).select_from(counted)).scalar_one()
