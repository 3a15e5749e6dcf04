"""What readers of all sessions that reconnect have missed: nothing is left out, however long the logs, and it is read
page by page."""

from __future__ import annotations

from datetime import timedelta

import orjson
from sqlalchemy import Connection

from app.db.repositories import sessions
from app.eventlog.log import Appender, StreamItem
from app.eventlog.missed import NEWS_BYTES, RECENTLY
from app.eventlog.reader import Batches, follow_all
from app.events import MessageWithdrawn, SessionCreated, SessionIdle, SessionRunning, SessionUpdated
from app.messages import Usage, new_id, now
from app.sessions import Outcome, QueueMode, Status
from tests.unit.db.rows import add_session
from tests.unit.eventlog.test_reader import Stage, stage

__all__ = ["stage"]


def _filled(connection: Connection, session_id: str, count: int, *, ago: timedelta = timedelta()) -> None:
    appender = Appender(connection, session_id)
    appender.at -= ago
    for _ in range(count):
        appender.emit(MessageWithdrawn, message_id=new_id(), mode=QueueMode.STEER)
    appender.flush()


def _idle(appender: Appender) -> None:
    appender.emit(SessionIdle, outcome=Outcome.COMPLETED, error=None, usage=Usage(), steps=1)


def _cursor(minutes: int) -> str:
    return f"{int((now() - timedelta(minutes=minutes)).timestamp() * 1000):x}"


async def _rest(stage: Stage, batches: Batches) -> list[StreamItem]:
    """The items before the first live event."""
    stage.bus.publish("live", [StreamItem("session.running", 1, b'{"session_id":"live"}')])
    items: list[StreamItem] = []
    while not items or b'"live"' not in items[-1].data:
        items += await anext(batches)
    return items[:-1]


async def _missed(stage: Stage, cursor: str) -> list[StreamItem]:
    async with follow_all(stage.log, stage.bus, cursor) as batches:
        return await _rest(stage, batches)


async def test_long_logs_hide_nothing(stage: Stage) -> None:
    def work(connection: Connection) -> dict[str, str]:
        ids = {name: add_session(connection) for name in ("imported", "running", "resumed", "old")}
        appender = Appender(connection, ids["imported"])
        appender.emit(SessionCreated, session=appender.session())
        appender.flush()
        _filled(connection, ids["imported"], RECENTLY, ago=timedelta(days=1))
        appender = Appender(connection, ids["running"])
        appender.emit(SessionRunning, trigger="message")
        appender.flush()
        sessions.change(connection, ids["running"], status=Status.RUNNING)
        _filled(connection, ids["running"], RECENTLY)
        _filled(connection, ids["old"], RECENTLY + 1, ago=timedelta(hours=1))
        appender = Appender(connection, ids["resumed"])
        appender.at -= timedelta(hours=1)
        appender.emit(SessionUpdated, session=appender.session())
        appender.flush()
        for name in ("resumed", "old"):
            appender = Appender(connection, ids[name])
            appender.emit(SessionRunning, trigger="message")
            _idle(appender)
            appender.emit(SessionRunning, trigger="message")
            appender.flush()
        long_ago = now() - timedelta(hours=1)
        for name in ("running", "resumed", "old"):
            sessions.change(connection, ids[name], created_at=long_ago)
        return ids

    ids = await stage.database.writer.write(work)
    found = [(item.type, orjson.loads(item.data)) for item in await _missed(stage, _cursor(1))]
    by_session = {name: [(t, d) for t, d in found if d["session_id"] == id] for name, id in ids.items()}
    assert [type_ for type_, _ in by_session["imported"]] == ["session.created"]
    [(type_, data)] = by_session["running"]
    assert (type_, data["session"]["status"]) == (SessionUpdated.type, "running")
    # Each type once, the newest one last, and nothing older than the cursor.
    for name in ("resumed", "old"):
        assert [type_ for type_, _ in by_session[name]] == ["session.idle", "session.running"], name


async def test_what_was_missed_is_read_in_pages_of_which_only_the_last_item_moves_the_cursor(stage: Stage) -> None:
    def work(connection: Connection) -> None:
        for _ in range(4):
            session_id = add_session(connection, task="x" * NEWS_BYTES)
            appender = Appender(connection, session_id)
            appender.emit(SessionCreated, session=appender.session())
            appender.flush()

    await stage.database.writer.write(work)
    cursor, before = _cursor(1), _cursor(0)
    items = await _missed(stage, cursor)
    cursors = [orjson.loads(item.data)["cursor"] for item in items]
    assert cursors[:-1] == [cursor] * 3
    assert before <= cursors[-1] <= _cursor(0)

    async with follow_all(stage.log, stage.bus, cursor) as batches:
        first = await anext(batches)
        assert len(first) == 1
        # The rest has not been read yet.
        last_id = max(orjson.loads(item.data)["session_id"] for item in items)
        await stage.database.writer.write(lambda c: sessions.remove(c, last_id), session_id=last_id)
        rest = await _rest(stage, batches)
    assert len(first) + len(rest) == 3
