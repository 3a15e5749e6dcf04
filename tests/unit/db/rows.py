"""Rows for tests of what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.db.engine import Database, open_database
from app.db.repositories import sessions
from app.messages import Usage, new_id, now
from app.sessions import Status
from tests.databases import has_database, make_database, remove_database, url_of


@asynccontextmanager
async def new_database(folder: Path) -> AsyncIterator[Database]:
    """A migrated database, closed at the end. It is also removed then, unless the test has made it: the examples of a
    property have one each."""
    path = folder / "test.db"
    is_new = not has_database(path)
    if is_new:
        make_database(path)
    database = open_database(url_of(path))
    try:
        yield database
    finally:
        await database.aclose()
        if is_new:
            remove_database(path)


def add_session(connection: Connection, id: str | None = None, **fields: Any) -> str:
    """Adds a session's row; returns its id."""
    id = id or new_id()
    values: dict[str, Any] = {
        "title": None,
        "task": None,
        "status": Status.IDLE,
        "model": "scripted/demo",
        "sandbox": {"kind": "bubblewrap", "network": False},
        "compaction": {"policy": "reactive"},
        "limits": {},
        "approval": {},
        "metadata": {},
        "plan": [],
        "usage": Usage().model_dump(),
        "run_usage": Usage().model_dump(),
        "context": {},
        "fingerprint": "",
        "created_at": now(),
        "updated_at": now(),
    }
    sessions.add(connection, id=id, **{**values, **fields})
    return id
