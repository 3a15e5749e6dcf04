"""The durable log: gapless seqs taken in a transaction, fenced, and read from any seq."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import queue, sessions
from app.errors import NotFoundError, StaleOwnerError
from app.eventlog.log import Appender, EventLog, Head, StreamItem
from app.events import MessageWithdrawn
from app.messages import new_id, now, rfc3339
from app.sessions import QueueMode, Status
from tests.unit.db.rows import add_session, new_database


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with new_database(tmp_path) as database:
        yield database


@pytest.fixture
async def session_id(database: Database) -> str:
    return await database.writer.write(add_session)


def withdrawn(appender: Appender, mode: QueueMode = QueueMode.STEER) -> MessageWithdrawn:
    return MessageWithdrawn(session_id=appender.session_id, at=appender.at, message_id=new_id(), mode=mode)


async def append(database: Database, session_id: str, *counts: int, epoch: int | None = None) -> list[StreamItem]:
    """Takes seqs in batches of these sizes, within one transaction, and uses all of them."""

    def work(connection: Connection) -> list[StreamItem]:
        appender = Appender(connection, session_id, epoch=epoch)
        for count in counts:
            first = appender.take(count)
            for seq in range(first, first + count):
                appender.add(seq, withdrawn(appender))
        return appender.flush()

    return await database.writer.write(work)


async def test_seqs_have_no_gaps_for_any_batch_sizes(database: Database, session_id: str) -> None:
    other = await database.writer.write(add_session)
    await append(database, other, 5)
    items = [*await append(database, session_id, 1, 0, 3), *await append(database, session_id, 2)]
    assert [item.seq for item in items] == [1, 2, 3, 4, 5, 6]
    row = await database.read(lambda c: sessions.row(c, session_id))
    assert row.last_seq == 6
    assert rfc3339(row.updated_at) == orjson.loads(items[-1].data)["at"]


async def test_appended_events_are_read_back(database: Database, session_id: str) -> None:
    items = await append(database, session_id, 7)
    log = EventLog(database)
    assert await log.after(session_id, 0) == items
    assert await log.after(session_id, 5) == items[5:]
    assert await log.after(session_id, 2, limit=3) == items[2:5]
    assert await log.after(session_id, 7) == []
    assert await log.after(new_id(), 0) == []


async def test_a_failed_write_returns_its_seqs(database: Database, session_id: str) -> None:
    def work(connection: Connection) -> None:
        appender = Appender(connection, session_id)
        appender.add(appender.take(), withdrawn(appender))
        appender.flush()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.writer.write(work)
    assert [item.seq for item in await append(database, session_id, 1)] == [1]


async def test_marks_are_not_stored(database: Database, session_id: str) -> None:
    def work(connection: Connection) -> list[StreamItem]:
        appender = Appender(connection, session_id)
        appender.add(appender.take(), withdrawn(appender), closes="part", voids="message")
        return appender.flush()

    [item] = await database.writer.write(work)
    assert (item.type, item.closes, item.voids) == ("message.withdrawn", "part", "message")
    [stored] = await EventLog(database).after(session_id, 0)
    assert (stored.data, stored.closes, stored.voids) == (item.data, None, None)


@pytest.mark.parametrize("count", [0, 1])
async def test_a_stale_owner_takes_no_seqs(database: Database, session_id: str, count: int) -> None:
    for _ in range(2):
        await database.writer.write(lambda c: sessions.claim(c, session_id))
    with pytest.raises(StaleOwnerError):
        await append(database, session_id, count, epoch=1)
    await append(database, session_id, 1, epoch=2)
    await append(database, session_id, 1)
    assert [item.seq for item in await EventLog(database).after(session_id, 0)] == [1, 2]


async def test_a_deleted_session_accepts_no_events(database: Database) -> None:
    with pytest.raises(NotFoundError) as caught:
        await append(database, new_id(), 1)
    assert caught.value.code == "session_not_found"
    with pytest.raises(NotFoundError):
        await EventLog(database).head(new_id())


@pytest.mark.parametrize(
    ("fields", "waiting", "quiet"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"queue_held": True}, True, True),
        ({"compaction_in_progress": True}, False, False),
        ({"status": Status.RUNNING}, False, False),
        ({"status": Status.RUNNING, "queue_held": True}, True, False),
    ],
)
async def test_a_session_is_quiet_when_nothing_runs_or_can_start(
    database: Database, session_id: str, fields: dict[str, Any], waiting: bool, quiet: bool
) -> None:
    def prepare(connection: Connection) -> None:
        sessions.change(connection, session_id, last_seq=4, **fields)
        for mode in (QueueMode.FOLLOW_UP,) if waiting else ():
            queue.add(connection, session_id, new_id(), ordinal=1, mode=mode, content="x", fingerprint="", at=now())

    await database.writer.write(prepare)
    assert await EventLog(database).head(session_id) == Head(4, quiet)
