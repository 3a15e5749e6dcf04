"""Reads sessions out of the server's database, through a connection that cannot write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

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
    """A session as the database has it; `messages`, `parts`, `steps` and so on are its rows in order."""

    row: Row
    events: list[Logged]
    messages: list[Row]
    parts: list[Row]
    steps: list[Row]
    rounds: list[Row]
    queue: list[Row]


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads one state of the database."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")
        yield connection


def instance_id(path: Path) -> str | None:
    """What labels the containers of this database."""
    with reading(path) as connection:
        found = connection.execute("SELECT value FROM server WHERE key = 'instance_id'").fetchone()
    return None if found is None else str(found[0])


def session_ids(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT id FROM sessions ORDER BY created_at, id")]


def rows_left(connection: sqlite3.Connection, session_id: str) -> dict[str, int]:
    """Rows of a session by table, those that have any."""
    counts = {"sessions": _count(connection, "sessions", "id", session_id)}
    counts |= {table: _count(connection, table, "session_id", session_id) for table in OWNED}
    return {table: count for table, count in counts.items() if count}


def _count(connection: sqlite3.Connection, table: str, column: str, value: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (value,)).fetchone()[0])


def seen_of(connection: sqlite3.Connection, session_id: str) -> dict[int, tuple[str, bytes]]:
    """Type and digest of each event in the log, by seq."""
    rows = connection.execute("SELECT seq, type, data FROM events WHERE session_id = ?", (session_id,))
    return {seq: (kind, digest(data.encode())) for seq, kind, data in rows}


def load(connection: sqlite3.Connection, session_id: str) -> Stored | None:
    """A session with all its rows, None where it is gone."""
    found = connection.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if found is None:
        return None
    events = connection.execute(
        "SELECT seq, type, data FROM events WHERE session_id = ? ORDER BY seq", (session_id,)
    ).fetchall()
    order = {"messages": "seq", "message_parts": 'message_id, "index"', "steps": "step, attempt"}
    order |= {"compaction_events": "round", "queue": "ordinal"}
    rows = {
        table: [
            dict(row)
            for row in connection.execute(f"SELECT * FROM {table} WHERE session_id = ? ORDER BY {by}", (session_id,))
        ]
        for table, by in order.items()
    }
    return Stored(
        dict(found),
        [Logged(seq, kind, orjson.loads(data), digest(data.encode())) for seq, kind, data in events],
        rows["messages"],
        rows["message_parts"],
        rows["steps"],
        rows["compaction_events"],
        rows["queue"],
    )


def integrity(path: Path) -> str:
    """`ok`, or what SQLite finds wrong with the file."""
    with reading(path) as connection:
        return "; ".join(row[0] for row in connection.execute("PRAGMA integrity_check").fetchall())
