"""Statements that are executed all the time: by every step, every start of a run, and every node of a cluster. Compiled
once and executed by the driver: SQLAlchemy takes several times as long for such a statement as SQLite does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Delete, Dialect, Insert, Row, Select, Update
from sqlalchemy.engine import result_tuple
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

Values = Mapping[str, Any]
Convert = Callable[[Any], Any]


class _Parameter(NamedTuple):
    """A parameter in SQL. `fixed` is its value if the statement itself has it, already converted."""

    name: str
    convert: Convert | None
    is_given: bool
    fixed: Any

    def of(self, values: Values) -> Any:
        if not self.is_given:
            return self.fixed
        value = values[self.name]
        return value if self.convert is None else self.convert(value)


@dataclass(slots=True)
class _Compiled:
    """A statement's SQL in one dialect, and how its rows are made."""

    sql: str
    parameters: Sequence[_Parameter]
    is_positional: bool
    types: Sequence[TypeEngine[Any]]
    make_row: Callable[[Sequence[Any]], Row[Any]]
    converts: Sequence[tuple[int, Convert]] | None = None
    """The places of columns that the driver returns in another form. Known from the first rows, since it depends on the
    types that the driver names."""

    def bound(self, values: Values) -> Any:
        if self.is_positional:
            return tuple([parameter.of(values) for parameter in self.parameters])
        return {parameter.name: parameter.of(values) for parameter in self.parameters}

    def rows(self, dialect: Dialect, cursor: Any) -> list[Row[Any]]:
        """All rows of an executed cursor; none for a statement that returns none."""
        if cursor.description is None:
            return []
        if self.converts is None:
            self.converts = [*self._find_converts(dialect, cursor.description)]
        return [self._row(found) for found in cursor.fetchall()]

    def _find_converts(self, dialect: Dialect, described: Sequence[Any]) -> Iterator[tuple[int, Convert]]:
        for place, (type_, description) in enumerate(zip(self.types, described, strict=True)):
            convert = type_.dialect_impl(dialect).result_processor(dialect, description[1])
            if convert is not None:
                yield place, convert

    def _row(self, found: Sequence[Any]) -> Row[Any]:
        made = list(found)
        for place, convert in self.converts or ():
            made[place] = convert(made[place])
        return self.make_row(made)


class Prepared:
    """A statement whose SQL depends only on the names of the values given. The types of its columns convert values as
    usual, and errors are SQLAlchemy's. It cannot have lists of values, nor columns with a default that is not given."""

    def __init__(self, statement: Select[Any] | Insert | Update | Delete) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, ...], _Compiled] = {}

    def run(self, connection: Connection, values: Values) -> None:
        """Executes a statement whose rows, if any, are not needed."""
        self.all(connection, values)

    def run_all(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Executes it for each of these values, which have the same names; at least one."""
        if len(rows) == 1:
            return self.run(connection, rows[0])
        compiled = self._of(connection, rows[0])
        _execute(connection, compiled, [compiled.bound(values) for values in rows], is_many=True)

    def first(self, connection: Connection, values: Values) -> Row[Any] | None:
        """The first row, None without one."""
        return next(iter(self.all(connection, values)), None)

    def value(self, connection: Connection, values: Values) -> Any:
        """The first value of the first row, None without one."""
        row = self.first(connection, values)
        return None if row is None else row[0]

    def all(self, connection: Connection, values: Values) -> list[Row[Any]]:
        """All rows."""
        compiled = self._of(connection, values)
        return _execute(connection, compiled, compiled.bound(values))

    def _of(self, connection: Connection, values: Values) -> _Compiled:
        key = (connection.dialect.name, *values)
        if (compiled := self._compiled.get(key)) is None:
            compiled = self._compiled[key] = _compile(self._statement, connection.dialect, [*values])
        return compiled


def _execute(connection: Connection, compiled: _Compiled, bound: Any, *, is_many: bool = False) -> list[Row[Any]]:
    if not connection.in_transaction():
        connection.begin()
    cursor = None
    try:
        cursor = connection.connection.cursor()
        for listener in connection.dispatch.before_cursor_execute:
            listener(connection, cursor, compiled.sql, bound, None, is_many)
        if is_many:
            cursor.executemany(compiled.sql, bound)
        else:
            cursor.execute(compiled.sql, bound)
        rows = compiled.rows(connection.dialect, cursor)
        cursor.close()
    except Exception as error:
        # As for a statement that SQLAlchemy executes: it raises a `DBAPIError`, and gives up a broken connection.
        connection._handle_dbapi_exception(error, compiled.sql, bound, cursor, None)
    return rows


def _compile(statement: Select[Any] | Insert | Update | Delete, dialect: Dialect, names: Sequence[str]) -> _Compiled:
    compiled = statement.compile(dialect=dialect, column_keys=names)
    assert isinstance(compiled, SQLCompiler)
    unsupported = (compiled.insert_prefetch, compiled.update_prefetch, compiled.post_compile_params)
    assert not any(unsupported), f"cannot be prepared: {compiled}"
    parameters = {}
    for bind, name in compiled.bind_names.items():
        convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
        is_given = name in names
        assert is_given or not bind.required, f"no value for {name}: {compiled}"
        fixed = bind.effective_value if is_given or convert is None else convert(bind.effective_value)
        parameters[name] = _Parameter(name, convert, is_given, fixed)
    columns = list(statement.exported_columns)
    return _Compiled(
        str(compiled),
        [parameters[name] for name in compiled.positiontup or parameters],
        bool(compiled.positional),
        [column.type for column in columns],
        result_tuple([str(column.key) for column in columns]),
    )
