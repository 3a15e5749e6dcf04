"""Events that another process has committed reach readers here, in order, each once, with open parts' text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest
from sqlalchemy import Connection

from app.db.repositories import deletions, sessions
from app.db.repositories.deletions import LastEvent
from app.eventlog.log import Appender, StreamItem
from app.eventlog.polling import LogPoll
from app.eventlog.reader import Batches, follow_all
from app.events import SessionIdle
from app.messages import Usage
from app.sessions import Outcome
from tests.unit.db.rows import add_session
from tests.unit.eventlog.test_reader import Stage, stage

__all__ = ["stage"]


@pytest.fixture
async def poll(stage: Stage) -> AsyncIterator[LogPoll]:
    """Runs, and looks often."""
    poll = LogPoll(stage.bus, stage.database, 0.01)
    async with poll.running():
        yield poll


async def _next(batches: Batches) -> list[StreamItem]:
    return await asyncio.wait_for(anext(batches), 60)


async def test_events_committed_elsewhere_wake_readers(stage: Stage, poll: LogPoll) -> None:
    async with stage.follow() as batches:
        await stage.publish(2)
        assert [item.seq for item in await _next(batches)] == [1, 2]
        await stage.commit(3)
        assert [item.seq for item in await _next(batches)] == [3, 4, 5]


async def test_published_events_leave_no_hole_where_others_came_between(stage: Stage) -> None:
    async with stage.follow() as batches:
        await stage.publish(2)
        await stage.commit(2)
        await stage.publish(1)
        assert [item.seq for item in await _next(batches)] == [1, 2, 3, 4, 5]


async def test_an_owners_reader_gets_text_after_an_event_of_another_node(stage: Stage, poll: LogPoll) -> None:
    stage.bus.channel(stage.session_id).running = True
    async with stage.follow() as batches:
        await stage.publish(1)
        stage.write("one")
        assert [item.seq for item in await _next(batches)] == [1, None]
        await stage.commit(1)
        assert [item.seq for item in await _next(batches)] == [2]
        stage.write(" two")
        assert [item.seq for item in await _next(batches)] == [None]


async def test_the_stream_of_a_session_deleted_elsewhere_ends(stage: Stage, poll: LogPoll) -> None:
    async with stage.follow() as batches:
        await stage.publish(1)
        await _next(batches)
        await _delete(stage)
        [last] = await _next(batches)
        assert (last.type, last.seq) == ("session.deleted", 2)
        with pytest.raises(StopAsyncIteration):
            await anext(batches)


async def _delete(stage: Stage) -> None:
    def work(connection: Connection) -> None:
        sessions.remove(connection, stage.session_id)
        deletions.add(connection, LastEvent(stage.session_id, 2, '{"type":"session.deleted"}'))

    await stage.database.writer.write(work, session_id=stage.session_id)


async def _idle(stage: Stage, session_id: str) -> list[StreamItem]:
    """Commits an event of a session without publishing it."""

    def work(connection: Connection) -> list[StreamItem]:
        appender = Appender(connection, session_id)
        appender.emit(SessionIdle, outcome=Outcome.COMPLETED, error=None, usage=Usage(), steps=1)
        return appender.flush()

    return await stage.database.writer.write(work, session_id=session_id)


async def test_readers_of_all_sessions_get_others_events_and_deletions_once(stage: Stage, poll: LogPoll) -> None:
    mine = await stage.database.writer.write(add_session)
    got: list[str] = []
    async with follow_all(stage.log, stage.bus) as batches:
        stage.bus.publish(mine, await _idle(stage, mine))
        await _idle(stage, stage.session_id)
        while len(got) < 2:
            got += [_short(item) for item in await _next(batches)]
        await _delete(stage)
        while "session.deleted" not in got[-1]:
            got += [_short(item) for item in await _next(batches)]
    assert got == [f"session.idle {mine}", f"session.idle {stage.session_id}", "session.deleted"]


def _short(item: StreamItem) -> str:
    return " ".join([item.type, *filter(None, [orjson.loads(item.data).get("session_id")])])
