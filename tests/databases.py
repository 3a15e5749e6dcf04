"""A database with the newest schema and no row: the migrations have tests of their own, all others begin after them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Pool, event

from app.db.migrate import upgrade


@cache
def migrated() -> bytes:
    """The file's content, in the journal mode that the service sets, as the change costs more than many a test."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "migrated.db"
        upgrade(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        return path.read_bytes()


def make_database(path: Path) -> Path:
    """Makes the file, with the directories above it where they are missing, and gives it back."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(migrated())
    return path


@event.listens_for(Pool, "checkout")
def _never_sync(connection: Any, record: Any, _proxy: Any) -> None:
    """Tests need not survive a power cut, and would wait for the disk at each start and end of a database."""
    if not record.info.get("never_synced"):
        connection.execute("PRAGMA synchronous=OFF")
        record.info["never_synced"] = True
