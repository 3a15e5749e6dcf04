"""SQL in which SQLite and Postgres differ, as expressions that compile for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Float, Integer, LargeBinary, Select, String, Table, Text, text
from sqlalchemy.dialects.sqlite import Insert, dml, insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement

from app.messages import now

STREAMED = {"stream_results": True, "max_row_buffer": 20}
"""Execution options of a query whose reader may stop early. SQLite reads row by row anyway; Postgres would otherwise
send everything first."""


class JsonText(Text):
    """JSON as text. It contains no NUL, so Postgres stores it unchanged; other text is escaped there
    (`app/db/postgres.py`)."""


# Upserts


class _DoUpdate(dml.OnConflictDoUpdate):
    """SQLite's clause, with the attribute that the Postgres compiler reads in addition."""

    inherit_cache = True
    constraint_target = None


class _DoNothing(dml.OnConflictDoNothing):
    inherit_cache = True
    constraint_target = None


def upsert(
    table: Table,
    key: Sequence[str],
    changed: Callable[[ReadOnlyColumnCollection[str, Any]], Mapping[str, Any]],
    *,
    where: ColumnElement[bool] | None = None,
    rows: Select[Any] | None = None,
) -> Insert:
    """An insert that instead changes the row with the same `key`, if it meets `where`. `changed` gets the columns of
    the row that was to be inserted. With `rows`, a query with a condition, it inserts what that finds;
    its columns have the names of the table's."""
    statement = insert(table)
    if rows is not None:
        statement = statement.from_select(rows.selected_columns.keys(), rows)
    return statement.ext(_DoUpdate(index_elements=[*key], set_={**changed(statement.excluded)}, where=where))


def insert_new(table: Table, key: Sequence[str]) -> Insert:
    """An insert that does nothing if there is a row with the same `key`."""
    return insert(table).ext(_DoNothing(index_elements=[*key]))


# Functions


class utf8_length(FunctionElement[int]):
    """The bytes of a text in UTF-8."""

    type = Integer()
    inherit_cache = True


@compiles(utf8_length, "sqlite")
def _utf8_length_sqlite(element: utf8_length, compiler: SQLCompiler, **options: Any) -> str:
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


@compiles(utf8_length, "postgresql")
def _utf8_length_postgres(element: utf8_length, compiler: SQLCompiler, **options: Any) -> str:
    # Of a database in UTF-8, the only kind that is accepted. A compressed text is not read for it.
    return f"octet_length({compiler.process(element.clauses, **options)})"


class utf8_slice(FunctionElement[bytes]):
    """Some bytes of a text in UTF-8: from a place, counted from 1, at most a number of them."""

    type = LargeBinary()
    inherit_cache = True


@compiles(utf8_slice, "sqlite")
def _utf8_slice_sqlite(element: utf8_slice, compiler: SQLCompiler, **options: Any) -> str:
    text_, first, most = (compiler.process(clause, **options) for clause in element.clauses)
    return f"substr(CAST({text_} AS BLOB), {first}, {most})"


@compiles(utf8_slice, "postgresql")
def _utf8_slice_postgres(element: utf8_slice, compiler: SQLCompiler, **options: Any) -> str:
    text_, first, most = (compiler.process(clause, **options) for clause in element.clauses)
    return f"substr(convert_to({text_}, 'UTF8'), CAST({first} AS INTEGER), CAST({most} AS INTEGER))"


class json_number(FunctionElement[float]):
    """A number in a column of JSON, by its key; null if it is missing or null."""

    type = Float()
    inherit_cache = True


@compiles(json_number, "sqlite")
def _json_number_sqlite(element: json_number, compiler: SQLCompiler, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"json_extract({column}, '$.' || {key})"


@compiles(json_number, "postgresql")
def _json_number_postgres(element: json_number, compiler: SQLCompiler, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CAST(CAST({column} AS JSON) ->> {key} AS DOUBLE PRECISION)"


class json_member(FunctionElement[str]):
    """The JSON of a member of an object in a column of JSON, by its key, which has neither quotation marks nor
    backslashes; null if it is missing."""

    type = String()
    inherit_cache = True


@compiles(json_member, "sqlite")
def _json_member_sqlite(element: json_member, compiler: SQLCompiler, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"""({column} -> ('$."' || {key} || '"'))"""


@compiles(json_member, "postgresql")
def _json_member_postgres(element: json_member, compiler: SQLCompiler, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CAST(CAST({column} AS JSON) -> {key} AS TEXT)"


# Locks: SQLite's one writer excludes all others anyway.

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_SHARE = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))")


_CLOCK = text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")


def database_time(connection: Connection) -> datetime:
    """The time by the database's clock, which all servers share."""
    if not is_postgres(connection):
        return now()
    return datetime.fromtimestamp(connection.execute(_CLOCK).scalar_one() / 1000, UTC)


def is_postgres(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def begin_write(connection: Connection, session_id: str | None) -> None:
    """The first statement of a write. On Postgres it locks the session, if there is one, and shows whether the
    connection still works."""
    if session_id is not None:
        lock_session(connection, session_id)
    elif is_postgres(connection):
        connection.exec_driver_sql("SELECT 1")


def lock_session(connection: Connection, session_id: str) -> None:
    """Has all other writes of a session, of whatever process, wait for the end of this transaction."""
    lock(connection, f"session {session_id}")


def lock(connection: Connection, name: str) -> None:
    """Takes a lock by its name until the transaction ends."""
    if is_postgres(connection):
        connection.execute(_LOCK, {"name": name})


def share_lock(connection: Connection, name: str) -> None:
    """As `lock`, together with all others that only share it."""
    if is_postgres(connection):
        connection.execute(_SHARE, {"name": name})


def streamed(query: Select[Any]) -> Select[Any]:
    """The query with `STREAMED`."""
    return query.execution_options(**STREAMED)
