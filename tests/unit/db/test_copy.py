"""Copies between SQLite and Postgres: every row, to the letter, or nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, select
from typer.testing import CliRunner

from app.cli.commands import app
from app.db import copy as copy_module
from app.db.copy import TABLES, copy_database
from app.db.engine import open_database
from app.db.migrate import upgrade
from app.db.repositories import costs, events, messages, search, sessions
from app.db.repositories.events import StoredEvent
from app.errors import StorageError
from app.messages import Message, Role, TextPart, Usage, new_id, now
from app.runtime.searching import search_messages
from tests.unit.db.rows import add_session
from tests.unit.db.test_migrations import downgrade


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'data' / 'palimpsest.db'}"
    upgrade(url)
    return url


def fill(connection: Connection) -> str:
    """Two sessions, one with a history."""
    sessions.instance_id(connection)
    add_session(connection, title="nul \x00 and \ue000")
    session_id = add_session(connection, metadata={"b": 1, "a": [0.1, 1e300, "é"]})
    for seq in range(1, 8):
        part = TextPart(id=new_id(), index=0, text=f"word{seq} " * 10)
        messages.add(
            connection, session_id, Message(id=new_id(), seq=seq, role=Role.USER, parts=(part,), created_at=now())
        )
    events.append(
        connection, session_id, [StoredEvent(n, "test", f'{{"n": {n}, "t": "\ue000"}}') for n in range(1, 12)]
    )
    costs.add(connection, day="2026-01-01", model="m", usage=Usage(input_tokens=5, cost_usd=0.1))
    found = search.unindexed(connection, session_id, before=100)
    assert found is not None
    search.add(connection, session_id, found.passages, after=found.after)
    return session_id


def write(url: str) -> str:
    async def work() -> str:
        database = open_database(url)
        try:
            return await database.writer.write(fill)
        finally:
            await database.aclose()

    return asyncio.run(work())


def rows(url: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows by table."""
    database = open_database(url)

    def read(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=str) for table in TABLES
        }

    found = database.read_here(read)
    asyncio.run(database.aclose())
    return found


def test_a_copy_there_and_back_is_the_same(
    postgres_url: str, file_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_module, "BATCH_ROWS", 3)
    session_id = write(file_url)
    shown: list[tuple[str, int, int]] = []
    copied = copy_database(file_url, postgres_url, lambda *now: shown.append(now))
    assert (copied["sessions"], copied["messages"], copied["events"]) == (2, 7, 11)
    assert [done for table, done, total in shown if (table, total) == ("messages", 7)] == [0, 3, 6, 7]
    back = f"sqlite:///{tmp_path / 'back' / 'palimpsest.db'}"
    copy_database(postgres_url, back)
    assert rows(file_url) == rows(postgres_url) == rows(back)

    async def searched(url: str) -> int:
        database = open_database(url)
        found = await search_messages(database, session_id, "word3", 9)
        await database.aclose()
        return found.items[0].seq

    assert asyncio.run(searched(postgres_url)) == asyncio.run(searched(back)) == 3


def test_a_target_with_rows_is_refused(postgres_url: str, file_url: str) -> None:
    write(file_url)
    copy_database(file_url, postgres_url)
    with pytest.raises(StorageError, match=r"has rows already \(.*sessions.*\)"):
        copy_database(file_url, postgres_url)


def test_a_copy_that_fails_leaves_no_rows(postgres_url: str, file_url: str) -> None:
    write(file_url)

    def broken(table: str, done: int, total: int) -> None:
        if (table, done) == ("messages", 7):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        copy_database(file_url, postgres_url, broken)
    assert not any(rows(postgres_url).values())


def test_a_source_must_exist_with_the_newest_schema(postgres_url: str, file_url: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="There is no database"):
        copy_database(f"sqlite:///{tmp_path / 'absent.db'}", postgres_url)
    assert not (tmp_path / "absent.db").exists()
    downgrade(file_url, "0011")
    with pytest.raises(StorageError, match="is at schema 0011, the newest is"):
        copy_database(file_url, postgres_url)
    with pytest.raises(StorageError, match="same database"):
        copy_database(postgres_url, postgres_url)


def test_the_command_reports_what_it_copied(postgres_url: str, file_url: str) -> None:
    write(file_url)
    done = CliRunner().invoke(app, ["db", "copy", "--from", file_url, "--to", postgres_url])
    assert done.exit_code == 0
    assert "sessions                        2" in done.stdout
    refused = CliRunner().invoke(app, ["db", "copy", "--from", file_url, "--to", postgres_url])
    assert refused.exit_code == 1
    assert refused.stderr.endswith("(storage_unavailable)\n")
