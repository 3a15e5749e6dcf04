"""A reader's stream over a real log: first the log, then live, each event once, ending when it should."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import queue, sessions
from app.errors import ConflictError, NotFoundError
from app.eventlog.bus import GLOBAL_EVENTS, Bus
from app.eventlog.channel import DELTA_CHARS
from app.eventlog.log import PAGE, PAGE_BYTES, Appender, EventLog, StreamItem
from app.eventlog.reader import AT_ONCE_BYTES, Batches, Following, follow, follow_all
from app.events import MessageWithdrawn
from app.messages import new_id, now
from app.sessions import QueueMode, Status
from tests.unit.db.rows import add_session, new_database


class Stage:
    """One session with its log and bus."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database, self.session_id = database, session_id
        self.log, self.bus = EventLog(database), Bus()

    async def commit(self, count: int = 1, **marks: str) -> list[StreamItem]:
        """Appends events to the log without publishing them."""
        return await self.database.writer.write(lambda c: self._append(c, count, marks))

    def _append(self, connection: Connection, count: int, marks: dict[str, str]) -> list[StreamItem]:
        appender = Appender(connection, self.session_id)
        for _ in range(count):
            appender.emit(MessageWithdrawn, **marks, message_id=new_id(), mode=QueueMode.STEER)
        return appender.flush()

    async def publish(self, count: int = 1, **marks: str) -> None:
        self.bus.publish(self.session_id, await self.commit(count, **marks))

    async def change(self, **fields: Any) -> None:
        await self.database.writer.write(lambda c: sessions.change(c, self.session_id, **fields))

    @asynccontextmanager
    async def follow(self, after: int = 0, until_idle: bool = False) -> AsyncIterator[Following]:
        async with follow(self.log, self.bus, self.session_id, after=after, until_idle=until_idle) as batches:
            assert batches is not None
            yield batches

    def write(self, text: str, part_id: str = "p") -> None:
        channel = self.bus.channel(self.session_id)
        channel.open_part(part_id, "text.delta", {"message_id": "m", "part_id": part_id}).append(text, "")
        channel.wake()


class Collector:
    """A sink that adds events to a list."""

    def __init__(self, items: list[StreamItem]) -> None:
        self.items, self.is_ready = items, True

    def write(self, items: list[StreamItem]) -> None:
        assert self.is_ready
        self.items += items


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with new_database(tmp_path) as database:
        yield Stage(database, await database.writer.write(lambda c: add_session(c, status=Status.RUNNING)))


async def take(batches: Batches, count: int) -> list[StreamItem]:
    items: list[StreamItem] = []
    async with asyncio.timeout(60):
        while len(items) < count:
            items += await anext(batches)
    return items


async def nothing_more(batches: Batches) -> asyncio.Future[list[StreamItem]]:
    """The reader's next batch, which it is waiting for."""
    waiting = asyncio.ensure_future(anext(batches))
    await nothing_more_of(waiting)
    return waiting


async def nothing_more_of(waiting: asyncio.Future[list[StreamItem]]) -> None:
    # Reads of the log go through a thread: when this one has finished, so has the reader's.
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not waiting.done(), waiting


async def test_the_log_in_pages_then_new_events(stage: Stage) -> None:
    await stage.commit(1203)
    async with stage.follow() as batches:
        items = await take(batches, 1203)
        await stage.publish(2)
        items += await take(batches, 2)
    assert [item.seq for item in items] == list(range(1, 1206))
    assert len(stage.bus) == 0


@pytest.mark.parametrize("live", [False, True])
async def test_a_large_event_comes_in_pieces_and_nothing_in_between(stage: Stage, live: bool) -> None:
    stage.bus.channel(stage.session_id).running = True
    stage.write("text")

    def append(connection: Connection) -> list[StreamItem]:
        appender = Appender(connection, stage.session_id)
        for text in ("a", "ä" * PAGE_BYTES, "b"):
            appender.emit(MessageWithdrawn, message_id=text, mode=QueueMode.STEER)
        return appender.flush()

    stored = await stage.database.writer.write(append)
    if live:
        stage.bus.publish(stage.session_id, stored)
    async with stage.follow() as batches:
        items: list[StreamItem] = []
        while not items or items[-1].seq != 3:
            batch = await anext(batches)
            assert sum(len(item.data) for item in batch) <= PAGE_BYTES
            items += [item for item in batch if item.seq is not None]
    assert [item.seq for item in items] == [1, 2, 2, 2, 3]
    assert [(item.begins, item.ends) for item in items[1:4]] == [(True, False), (False, False), (False, True)]
    assert b"".join(item.data for item in items) == b"".join(item.data for item in stored)


async def test_a_future_seq_and_a_deleted_session_are_refused(stage: Stage) -> None:
    await stage.commit(3)
    with pytest.raises(ConflictError) as caught:
        async with stage.follow(4):
            pass
    assert (caught.value.code, caught.value.problem()["last_seq"]) == ("ahead_of_log", 3)
    with pytest.raises(NotFoundError):
        async with follow(stage.log, stage.bus, new_id(), after=0, until_idle=False):
            pass
    assert len(stage.bus) == 0


async def test_open_parts_come_after_the_events_before_them(stage: Stage) -> None:
    stage.bus.channel(stage.session_id).running = True
    await stage.publish(2)
    stage.write("hello")
    async with stage.follow(1) as batches:
        items = await take(batches, 2)
        assert [(item.type, item.seq) for item in items] == [("message.withdrawn", 2), ("text.delta", None)]
        stage.write(" world")
        [delta] = await take(batches, 1)
        assert (orjson.loads(delta.data)["offset"], orjson.loads(delta.data)["text"]) == (5, " world")


async def test_a_part_that_the_log_has_closed_gives_no_more_deltas(stage: Stage) -> None:
    """Between the commit and its publication a new reader finds the closing event in the log, and the part still
    open."""
    await stage.commit()
    stage.bus.channel(stage.session_id).running = True
    await stage.publish()
    stage.write("hello")
    late = await stage.commit(closes="p")

    async with stage.follow() as batches:
        items = await take(batches, 3)
        waiting = await nothing_more(batches)
        stage.bus.publish(stage.session_id, late)
        stage.write("next", "q")
        items += await waiting

    assert [(item.type, item.seq) for item in items] == [
        ("message.withdrawn", 1),
        ("message.withdrawn", 2),
        ("message.withdrawn", 3),
        ("text.delta", None),
    ]
    assert orjson.loads(items[-1].data)["part_id"] == "q"


async def test_a_sink_gets_what_comes_while_it_is_ready(stage: Stage) -> None:
    stage.bus.channel(stage.session_id).running = True
    await stage.publish()
    async with stage.follow(until_idle=True) as batches, stage.follow() as others:
        sink, other = Collector([]), Collector([])
        batches.sink, others.sink = sink, other
        await take(batches, 1)
        await take(others, 1)
        # Not an event that may be the last.
        stage.bus.publish(stage.session_id, [replace(item, type="text.completed") for item in await stage.commit()])
        await take(batches, 1)
        await take(others, 1)
        waiting, also_waiting = await nothing_more(batches), asyncio.ensure_future(anext(others))
        await asyncio.sleep(0)
        stage.write("he")
        stage.write("llo")
        await asyncio.sleep(0)
        [delta] = sink.items
        assert orjson.loads(delta.data)["text"] == "hello"
        assert other.items[0] is delta, "made once for all readers"

        sink.is_ready = False
        stage.write("!")
        assert [orjson.loads(item.data)["text"] for item in await waiting] == ["!"]
        sink.is_ready = True
        waiting = await nothing_more(batches)
        await stage.change(status=Status.IDLE)
        await stage.publish()
        assert [item.seq for item in await waiting] == [3], "it may be the last"
        assert [batch async for batch in batches] == []
        assert [item.seq for item in other.items] == [None, None, 3]
        large = StreamItem("text.completed", 4, b'{"x":"%b"}' % (b"x" * AT_ONCE_BYTES))
        stage.bus.publish(stage.session_id, [large])
        assert [item.seq for item in await also_waiting] == [4], "in pieces, by the task"
        assert len(sink.items) == 1


async def test_what_is_large_for_a_sink_comes_in_full_without_another_event(stage: Stage) -> None:
    stage.bus.channel(stage.session_id).running = True
    await stage.publish()
    async with stage.follow() as batches:
        batches.sink = sink = Collector([])
        await take(batches, 1)
        waiting = await nothing_more(batches)
        stage.write("x" * (DELTA_CHARS + 10))
        items = await waiting + await take(batches, 1)
        assert sum(len(orjson.loads(item.data)["text"]) for item in items) == DELTA_CHARS + 10
        assert sink.items == []
    gone = ref(batches)
    del batches
    assert gone() is None, "freed without the garbage collector"


async def test_an_error_of_a_sink_ends_only_its_stream(stage: Stage) -> None:
    class Broken(Collector):
        def write(self, items: list[StreamItem]) -> None:
            raise OSError("broken")

    stage.bus.channel(stage.session_id).running = True
    await stage.publish()
    readers = []
    async with stage.follow() as one, stage.follow() as other:
        for batches in (one, other):
            batches.sink = Broken([])
            await take(batches, 1)
            readers.append(await nothing_more(batches))
        stage.write("text")
        for reader in readers:
            with pytest.raises(OSError, match="broken"):
                await reader


async def test_a_sink_gets_nothing_while_the_reader_reads_the_log(stage: Stage) -> None:
    is_read = asyncio.Event()

    class Slow(EventLog):
        async def after(self, *args: Any, **options: Any) -> list[StreamItem]:
            found = await super().after(*args, **options)
            await is_read.wait()
            return found

    stage.bus.channel(stage.session_id).running = True
    committed = await stage.commit(closes="p")
    stage.log = Slow(stage.database)
    async with stage.follow() as batches:
        batches.sink = sink = Collector([])
        first = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        stage.write("closed")
        stage.bus.publish(stage.session_id, committed)
        stage.write("next", "q")
        await asyncio.sleep(0)
        is_read.set()
        got = await first
        waiting = await nothing_more(batches)
        assert [item.seq for item in got + sink.items] == [1, None]
        [late] = await stage.commit(closes="q")
        # As if it had been read before it is published: "q" is closed for this reader.
        batches._seq = stage.bus.channel(stage.session_id).last_seq = 2
        stage.write("late", "q")
        await nothing_more_of(waiting)
        assert sink.items == []
        stage.bus.publish(stage.session_id, [late])
        stage.write("new", "r")
        await asyncio.sleep(0)
        assert [orjson.loads(item.data)["text"] for item in sink.items] == ["new"]


@settings(max_examples=25)
@given(
    moves=st.lists(
        st.sampled_from(["publish", "commit", "write", "close", "read", "sink", "pause", "wait"]), max_size=25
    )
)
async def test_no_interleaving_causes_a_gap_a_duplicate_or_a_late_delta(
    tmp_path_factory: pytest.TempPathFactory, moves: list[str]
) -> None:
    async with new_database(tmp_path_factory.mktemp("reader")) as database:
        stage = Stage(database, await database.writer.write(lambda c: add_session(c, status=Status.RUNNING)))
        await stage.commit()
        stage.bus.channel(stage.session_id).running = True
        unpublished: list[StreamItem] = []
        parts = 0

        sinks: list[Collector] = []

        async def consume(sink: Collector | None = None) -> list[StreamItem]:
            got = [] if sink is None else sink.items
            async with stage.follow() as batches:
                batches.sink = sink
                async for batch in batches:
                    got += batch
            return got

        await stage.publish()
        readers = [asyncio.create_task(consume())]
        for move in moves:
            if move == "write":
                # The next part may be written before the end of the last one is published.
                stage.write("😀a", f"p{parts}")
            elif move == "close":
                unpublished += await stage.commit(closes=f"p{parts}")
                parts += 1
            elif move == "commit":
                unpublished += await stage.commit()
            elif move == "publish":
                stage.bus.publish(stage.session_id, unpublished)
                unpublished = []
            elif move == "read":
                readers.append(asyncio.create_task(consume()))
            elif move == "sink":
                sinks.append(Collector([]))
                readers.append(asyncio.create_task(consume(sinks[-1])))
            elif move == "pause":
                for sink in sinks:
                    sink.is_ready = not sink.is_ready
            else:
                await stage.log.head(stage.session_id)
            await asyncio.sleep(0)
        stage.bus.publish(stage.session_id, unpublished)
        last = await stage.commit()
        stage.bus.publish(stage.session_id, last)
        stage.bus.close()
        for reader in readers:
            check(await reader, last[0].seq)


def check(got: list[StreamItem], last_seq: int | None) -> None:
    """Every event once, and for every part its deltas from the beginning up to its closing event."""
    assert [item.seq for item in got if item.seq is not None] == list(range(1, (last_seq or 0) + 1))
    ends: dict[str, int] = {}
    closed: set[str] = set()
    for item in got:
        if item.seq is not None:
            closed |= {item.closes} if item.closes else set()
            continue
        data = orjson.loads(item.data)
        assert data["part_id"] not in closed
        assert data["offset"] == ends.get(data["part_id"], 0)
        ends[data["part_id"]] = data["offset"] + len(data["text"])


# until idle


def pending(session_id: str) -> Callable[[Connection], None]:
    def work(connection: Connection) -> None:
        message = queue.Accepted(new_id(), 1, QueueMode.STEER, "x", fingerprint="", created_at=now())
        queue.add(connection, session_id, message)

    return work


async def test_until_idle_ends_at_once_in_an_idle_session(stage: Stage) -> None:
    await stage.commit(3)
    await stage.change(status=Status.IDLE)
    async with stage.follow(1, until_idle=True) as batches:
        assert [item.seq async for batch in batches for item in batch] == [2, 3]
    async with follow(stage.log, stage.bus, stage.session_id, after=3, until_idle=True) as nothing:
        assert nothing is None


async def test_until_idle_waits_for_deliverable_messages_but_not_for_held_ones(stage: Stage) -> None:
    await stage.commit()
    await stage.change(status=Status.IDLE)
    await stage.database.writer.write(pending(stage.session_id))
    async with stage.follow(until_idle=True) as batches:
        await take(batches, 1)
        waiting = await nothing_more(batches)
        await stage.change(queue_held=True)
        await stage.publish()
        assert len(await waiting) == 1
        assert [batch async for batch in batches] == []


async def test_until_idle_waits_while_a_run_is_active(stage: Stage) -> None:
    await stage.commit()
    async with stage.follow(until_idle=True) as batches:
        await take(batches, 1)
        waiting = await nothing_more(batches)
        await stage.change(status=Status.IDLE)
        await stage.publish()
        await waiting
        assert [batch async for batch in batches] == []


# deletion and shutdown


async def farewell(stage: Stage) -> None:
    head = await stage.log.head(stage.session_id)
    await stage.database.writer.write(lambda c: sessions.remove(c, stage.session_id))
    await asyncio.sleep(0)
    stage.bus.delete(stage.session_id, StreamItem("session.deleted", head.last_seq + 1, b"{}"))


@pytest.mark.parametrize("read_before", [0, 1, 3])
@pytest.mark.parametrize("published", [True, False])
async def test_every_reader_gets_the_deletion_of_its_session(stage: Stage, read_before: int, published: bool) -> None:
    if published:
        stage.bus.channel(stage.session_id).running = True
        await stage.publish(600)
    else:
        await stage.commit(600)
    async with stage.follow(600 - read_before) as batches:
        if read_before:
            await take(batches, read_before)
        await farewell(stage)
        items = [item async for batch in batches for item in batch]
    assert items[-1].type == "session.deleted"
    assert [item.type for item in items].count("session.deleted") == 1


async def test_a_reader_far_behind_gets_the_deletion(stage: Stage) -> None:
    await stage.commit(700)
    async with stage.follow() as batches:
        first = await anext(batches)
        await farewell(stage)
        rest = [item async for batch in batches for item in batch]
    assert first[-1].seq == PAGE
    assert [(item.type, item.seq) for item in rest] == [("session.deleted", 701)]


async def test_a_deletion_during_the_idle_check_is_not_an_error(stage: Stage) -> None:
    await stage.commit()
    async with stage.follow(until_idle=True) as batches:
        await take(batches, 1)
        await stage.database.writer.write(lambda c: sessions.remove(c, stage.session_id))
        waiting = await nothing_more(batches)
        stage.bus.delete(stage.session_id, StreamItem("session.deleted", 2, b"{}"))
        assert [item.type for item in await waiting] == ["session.deleted"]
        assert [batch async for batch in batches] == []


async def test_closing_ends_readers_that_have_everything(stage: Stage) -> None:
    await stage.commit(2)
    async with stage.follow() as batches, follow_all(stage.log, stage.bus) as everything:
        waiting = asyncio.ensure_future(anext(everything, None))
        await take(batches, 2)
        ending = asyncio.ensure_future(anext(batches, None))
        await asyncio.sleep(0)
        stage.bus.close()
        async with asyncio.timeout(60):
            assert await ending is None
            assert await waiting is None


# all sessions


async def test_all_sessions_are_followed_from_the_moment_of_subscribing(stage: Stage) -> None:
    stage.bus.publish("a", [StreamItem("session.created", 1, b"{}")])
    async with follow_all(stage.log, stage.bus, activity=True) as batches:
        # Nothing has been read yet, but events from now on belong to the stream.
        call = {"call_id": "c", "name": "write_file", "arguments": {"path": "a.py", "content": "x" * 999, "more": [1]}}
        events: list[tuple[str, dict[str, Any]]] = [
            ("session.created", {"b": 1}),
            ("step.started", {"step": 7}),
            ("tool.call", call),
            ("tool.result", {}),
        ]
        data = [(type_, orjson.dumps({"session_id": "b", "at": "now", **fields})) for type_, fields in events]
        stage.bus.publish("b", [StreamItem(type_, seq, item) for seq, (type_, item) in enumerate(data, 1)])
        created, started, called = await anext(batches)
        shown_data = [orjson.loads(item.data) for item in (created, started, called)]
        assert all(re.fullmatch("[0-9a-f]+", each.pop("cursor")) for each in shown_data)
        assert (created.type, created.seq) == ("session.created", None)
        assert shown_data[0] == {"seq": 1, **orjson.loads(data[0][1])}
        brief = {"session_id": "b", "at": "now", "step": 7, "activity": None}
        assert (started.type, started.seq, shown_data[1]) == ("session.activity", None, brief)
        # A call in brief, whatever it writes.
        shown = {"call_id": "c", "name": "write_file", "arguments": {"path": "a.py", "content": "x" * 200}}
        assert shown_data[2] == {**brief, "step": None, "activity": shown}
        assert len(stage.bus.all.readers) == 1
    assert len(stage.bus.all.readers) == 0


async def test_a_reader_of_all_sessions_that_falls_far_behind_is_disconnected(stage: Stage) -> None:
    async with follow_all(stage.log, stage.bus) as batches:
        for n in range(GLOBAL_EVENTS + 1):
            stage.bus.publish("a", [StreamItem("session.updated", n, b"{}")])
        assert [batch async for batch in batches] == []
