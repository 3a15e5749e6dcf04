"""Events that another process has committed reach readers here, in order, each once, with open parts' text."""

from __future__ import annotations

import asyncio

import pytest

from app.db.repositories import ownership, sessions
from app.db.repositories.ownership import Farewell
from app.eventlog.log import StreamItem
from app.eventlog.reader import Batches
from app.eventlog.tail import LogTail
from tests.unit.eventlog.test_reader import Stage, stage

__all__ = ["stage"]


async def _next(batches: Batches) -> list[StreamItem]:
    return await asyncio.wait_for(anext(batches), 5)


async def test_events_committed_elsewhere_wake_readers(stage: Stage) -> None:
    tail = LogTail(stage.database, stage.bus)
    async with stage.follow() as batches:
        await stage.publish(2)
        assert [item.seq for item in await _next(batches)] == [1, 2]
        waiting = asyncio.ensure_future(anext(batches))
        await stage.commit(3)
        await tail.look()
        assert [item.seq for item in await asyncio.wait_for(waiting, 5)] == [3, 4, 5]


async def test_published_events_leave_no_hole_where_others_came_between(stage: Stage) -> None:
    async with stage.follow() as batches:
        await stage.publish(2)
        await stage.commit(2)
        await stage.publish(1)
        seqs = [item.seq for item in await _next(batches)]
        assert seqs == [1, 2, 3, 4, 5]


async def test_an_owners_reader_gets_text_after_an_event_of_another_node(stage: Stage) -> None:
    tail = LogTail(stage.database, stage.bus)
    stage.bus.channel(stage.session_id).running = True
    async with stage.follow() as batches:
        await stage.publish(1)
        stage.write("one")
        assert [item.seq for item in await _next(batches)] == [1, None]
        await stage.commit(1)
        await tail.look()
        assert [item.seq for item in await _next(batches)] == [2]
        stage.write(" two")
        # What its owner commits is published within moments; what is not by the next look is another's.
        await tail.look()
        assert [item.seq for item in await _next(batches)] == [None]


async def test_the_stream_of_a_session_deleted_elsewhere_ends(stage: Stage) -> None:
    tail = LogTail(stage.database, stage.bus)
    async with stage.follow() as batches:
        await stage.publish(1)
        await _next(batches)
        await stage.database.writer.write(lambda c: sessions.remove(c, stage.session_id))
        await stage.database.writer.write(
            lambda c: ownership.say_farewell(c, stage.session_id, Farewell(2, '{"type":"session.deleted"}'))
        )
        await tail.look()
        [last] = await _next(batches)
        assert (last.type, last.seq) == ("session.deleted", 2)
        with pytest.raises(StopAsyncIteration):
            await anext(batches)
