"""Prepared statements: the same values, rows and errors as those that SQLAlchemy executes."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, bindparam, event, insert, select, update
from sqlalchemy.exc import IntegrityError

from app.db.engine import Database
from app.db.models import events, messages, sessions
from app.db.prepared import Prepared
from app.errors import StorageError
from app.messages import now
from tests.unit.db.rows import add_session

_BY_ID = select(sessions).where(sessions.c.id == bindparam("sid"), sessions.c.kind == "session")
_CHANGE = update(sessions).where(sessions.c.id == bindparam("sid"))
_ADD = Prepared(insert(events))
_SEQS = Prepared(select(events.c.seq).where(events.c.session_id == bindparam("sid")).order_by(events.c.seq))


def event_row(session_id: str, seq: int, data: str = "{}") -> dict[str, Any]:
    return {"session_id": session_id, "seq": seq, "type": "test", "data": data, "traceparent": None}


async def test_values_and_rows_are_those_of_the_statement(database: Database) -> None:
    """Times, JSON, booleans, text with NUL, and null: what a prepared statement writes is read by an ordinary one, and
    the other way around."""
    session_id = await database.writer.write(add_session)
    change, by_id = Prepared(_CHANGE), Prepared(_BY_ID)
    at = now().replace(microsecond=0)
    fields = {"title": "a\x00\ue000b", "limits": {"max_steps": 3}, "unseen": True, "updated_at": at, "outcome": None}

    def write(connection: Connection) -> None:
        change.run(connection, {"sid": session_id, **fields})
        change.run(connection, {"sid": session_id, "steps": 7})

    await database.writer.write(write)

    def read(connection: Connection) -> tuple[Any, Any, Any]:
        ordinary = connection.execute(_BY_ID, {"sid": session_id}).one()
        return ordinary, by_id.first(connection, {"sid": session_id}), by_id.all(connection, {"sid": "none"})

    ordinary, prepared, none = await database.read(read)
    assert prepared == ordinary
    assert prepared._fields == ordinary._fields
    assert (prepared.title, prepared.limits, prepared.unseen) == ("a\x00\ue000b", {"max_steps": 3}, True)
    assert prepared.updated_at == at
    assert (prepared.steps, prepared.outcome, none) == (7, None, [])


async def test_a_refused_statement_raises_the_usual_error_without_values(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    await database.writer.write(lambda c: _ADD.run_all(c, [event_row(session_id, seq) for seq in (1, 2)]))
    with pytest.raises(IntegrityError) as refused:
        await database.writer.write(lambda c: _ADD.run(c, event_row(session_id, 2, '"secret value"')))
    assert "secret value" not in str(refused.value)
    # The transaction of a refused write leaves nothing, and the next one works.
    with pytest.raises(IntegrityError):
        await database.writer.write(lambda c: _ADD.run_all(c, [event_row(session_id, seq) for seq in (3, 1)]))
    found = await database.read(lambda c: _SEQS.all(c, {"sid": session_id}))
    assert [row.seq for row in found] == [1, 2]
    assert await database.read(lambda c: _SEQS.value(c, {"sid": session_id})) == 1


async def test_a_reader_cannot_write_and_listeners_see_the_statement(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        with pytest.raises(StorageError, match="cannot be read"):
            await database.read(lambda c: _ADD.run(c, event_row(session_id, 1)))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert any(statement.startswith("INSERT INTO events") for statement in seen)


async def test_what_is_missing_or_cannot_be_prepared_is_noticed(database: Database) -> None:
    """A parameter without a value, a column's default that is not given, and a list."""
    lacks_default = Prepared(insert(messages))
    has_list = Prepared(select(events.c.seq).where(events.c.seq.in_(bindparam("seqs", expanding=True))))
    for attempt, reason in (
        (lambda c: _SEQS.all(c, {}), "no value for sid"),
        (lambda c: lacks_default.run(c, {"session_id": "s", "id": "m"}), "cannot be prepared"),
        (lambda c: has_list.all(c, {"seqs": [1]}), "cannot be prepared"),
    ):
        with pytest.raises(AssertionError, match=reason):
            await database.read(attempt)
