"""Reads sessions out of the server's database, through a connection that cannot write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.db.backends import backend_of
from app.eventlog.log import with_type
from tests.databases import on_postgres, url_of
from tests.soak.ledger import digest

Row = dict[str, Any]

TABLES = ("messages", "message_parts", "steps", "compaction_events", "queue")
OWNED = (*TABLES, "events", "generations", "search_entries")
"""All tables whose rows belong to a session."""


@dataclass(frozen=True, slots=True)
class Logged:
    """An event of the log."""

    seq: int
    type: str
    data: Row
    digest: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """A session as the database has it; `messages`, `parts`, `steps` and so on are its rows in order, `children` its
    sub-agents."""

    row: Row
    events: list[Logged]
    messages: list[Row]
    parts: list[Row]
    steps: list[Row]
    rounds: list[Row]
    queue: list[Row]
    children: Sequence[Stored] = ()


@contextmanager
def reading(path: Path | str) -> Iterator[Connection]:
    """A connection that reads one state of the database, which has this path or URL."""
    engine = backend_of(path if isinstance(path, str) else url_of(path)).reading(1)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def instance_id(path: Path) -> str | None:
    """What labels the containers of this database."""
    with reading(path) as connection:
        found = connection.execute(text("SELECT value FROM server WHERE key = 'instance_id'")).scalar()
    return None if found is None else str(found)


def session_ids(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT id FROM sessions ORDER BY created_at, id")).scalars())


def running_ids(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT id FROM sessions WHERE status = 'running'")).scalars())


def rows_left(connection: Connection, session_id: str) -> dict[str, int]:
    """Rows of a session by table, those that have any."""
    counts = {"sessions": _count(connection, "sessions", "id", session_id)}
    counts |= {table: _count(connection, table, "session_id", session_id) for table in OWNED}
    return {table: count for table, count in counts.items() if count}


def _count(connection: Connection, table: str, column: str, value: str) -> int:
    query = text(f"SELECT count(*) FROM {table} WHERE {column} = :value")
    return int(connection.execute(query, {"value": value}).scalar_one())


def seen_of(connection: Connection, session_id: str) -> dict[int, tuple[str, bytes]]:
    """Type and digest of each event in the log, by seq."""
    rows = connection.execute(text("SELECT seq, type, data FROM events WHERE session_id = :id"), {"id": session_id})
    return {seq: (kind, digest(with_type(kind, seq, data.encode()))) for seq, kind, data in rows}


def load(connection: Connection, session_id: str) -> Stored | None:
    """A session with all its rows, None where it is gone."""
    key = {"id": session_id}
    found = connection.execute(text("SELECT * FROM sessions WHERE id = :id"), key).mappings().first()
    if found is None:
        return None
    events = connection.execute(
        text("SELECT seq, type, data FROM events WHERE session_id = :id ORDER BY seq"), key
    ).all()
    query = text("SELECT id FROM sessions WHERE parent_id = :id AND kind = 'subagent' ORDER BY created_at, id")
    children = connection.execute(query, key).scalars().all()
    order = {"messages": "seq", "message_parts": 'message_id, "index"', "steps": "step, attempt"}
    order |= {"compaction_events": "round", "queue": "ordinal"}
    rows = {
        table: [
            dict(row)
            for row in connection.execute(
                text(f"SELECT * FROM {table} WHERE session_id = :id ORDER BY {by}"), key
            ).mappings()
        ]
        for table, by in order.items()
    }
    return Stored(
        dict(found),
        [
            Logged(seq, kind, orjson.loads(data), digest(with_type(kind, seq, data.encode())))
            for seq, kind, data in events
        ],
        rows["messages"],
        rows["message_parts"],
        rows["steps"],
        rows["compaction_events"],
        rows["queue"],
        [child for each in children if (child := load(connection, each)) is not None],
    )


def integrity(path: Path | str) -> str:
    """`ok`, or what SQLite finds wrong with the file."""
    if isinstance(path, str) or on_postgres():
        return "ok"
    with reading(path) as connection:
        return "; ".join(connection.execute(text("PRAGMA integrity_check")).scalars())
