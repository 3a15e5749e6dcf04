"""The durable log: gapless seqs assigned in a transaction, fenced, and read from any seq."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import queue, sessions
from app.db.repositories.events import StoredEvent
from app.errors import NotFoundError, StaleOwnerError
from app.eventlog.log import Appender, EventLog, Head, StreamItem
from app.events import MessageWithdrawn, SessionUpdated
from app.messages import new_id, now, rfc3339
from app.sessions import QueueMode, Session, Status
from tests.unit.db.rows import add_session


@pytest.fixture
async def session_id(database: Database) -> str:
    return await database.writer.write(add_session)


def withdraw(appender: Appender, **marks: str) -> int:
    return appender.emit(MessageWithdrawn, **marks, message_id=new_id(), mode=QueueMode.STEER)


async def append(database: Database, session_id: str, *counts: int, epoch: int | None = None) -> list[StreamItem]:
    """Appends events within one transaction, flushed in batches of these sizes."""

    def work(connection: Connection) -> list[StreamItem]:
        appender = Appender(connection, session_id, epoch=epoch)
        items: list[StreamItem] = []
        for count in counts:
            expected = [appender.next_seq + place for place in range(count)]
            assert [withdraw(appender) for _ in expected] == expected
            items += appender.flush()
        return items

    return await database.writer.write(work)


async def test_seqs_have_no_gaps_for_any_batch_sizes(database: Database, session_id: str) -> None:
    other = await database.writer.write(add_session)
    await append(database, other, 5)
    items = [*await append(database, session_id, 1, 0, 3), *await append(database, session_id, 2, epoch=0)]
    assert [item.seq for item in items] == [1, 2, 3, 4, 5, 6]
    row = await database.read(lambda c: sessions.row(c, session_id))
    assert row.last_seq == 6
    assert rfc3339(row.updated_at) == orjson.loads(items[-1].data)["at"]


async def test_the_session_in_an_event_includes_that_event(database: Database, session_id: str) -> None:
    def work(connection: Connection) -> Session:
        appender = Appender(connection, session_id)
        withdraw(appender)
        session = appender.session()
        appender.emit(SessionUpdated, session=session)
        appender.flush()
        return session

    shown = await database.writer.write(work)
    assert shown.last_seq == 2
    assert shown == await database.read(lambda c: sessions.snapshot(c, session_id))


async def test_a_copied_event_must_be_the_next_one(database: Database, session_id: str) -> None:
    def work(connection: Connection, seq: int) -> list[StreamItem]:
        appender = Appender(connection, session_id)
        withdraw(appender)
        appender.copy(StoredEvent(seq, "test", "{}"))
        return appender.flush()

    for seq in (1, 3):
        with pytest.raises(AssertionError, match="not the next one"):
            await database.writer.write(lambda c, seq=seq: work(c, seq))  # type: ignore[misc]
    items = await database.writer.write(lambda c: work(c, 2))
    assert await EventLog(database).after(session_id, 0) == items
    assert (items[1].seq, items[1].data) == (2, b"{}")


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
        withdraw(appender)
        appender.flush()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.writer.write(work)
    assert [item.seq for item in await append(database, session_id, 1)] == [1]


async def test_marks_are_not_stored(database: Database, session_id: str) -> None:
    def work(connection: Connection) -> list[StreamItem]:
        appender = Appender(connection, session_id)
        withdraw(appender, closes="part", voids="message")
        return appender.flush()

    [item] = await database.writer.write(work)
    assert (item.type, item.closes, item.voids) == ("message.withdrawn", "part", "message")
    [stored] = await EventLog(database).after(session_id, 0)
    assert (stored.data, stored.closes, stored.voids) == (item.data, None, None)


@pytest.mark.parametrize("count", [0, 1])
async def test_a_stale_owner_appends_nothing(database: Database, session_id: str, count: int) -> None:
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
        if waiting:
            message = queue.Accepted(new_id(), 1, QueueMode.FOLLOW_UP, "x", fingerprint="", created_at=now())
            queue.add(connection, session_id, message)

    await database.writer.write(prepare)
    assert await EventLog(database).head(session_id) == Head(4, quiet)
