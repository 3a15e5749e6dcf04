"""Live text between nodes that share a database and a real Redis: complete, in order, and back by itself."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

from app.cluster.relay import SILENT_S
from app.db.engine import Database
from app.db.repositories import sessions
from app.eventlog.channel import DELTA_CHARS, RECENT_BYTES, RECENT_EVENTS, TOOL_PREVIEW_CHARS
from app.eventlog.log import EventLog, StreamItem
from app.eventlog.reader import follow_all
from app.events import MessageWithdrawn
from app.messages import new_id
from app.sessions import QueueMode
from scripts.servers.redis import RedisServer
from tests.cluster.nodes import Node, Transcript, owned, running, until
from tests.unit.db.rows import add_session

TEXT = "Hi 😀 𝒳é\n"


async def withdrawn(node: Node, session_id: str, *, unpublished: bool = False) -> int:
    return await node.emit(
        session_id, MessageWithdrawn, message_id=new_id(), mode=QueueMode.STEER, unpublished=unpublished
    )


async def test_text_written_on_one_node_is_read_on_another(
    redis: RedisServer, database: Database, session_id: str
) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got = Transcript()
    async with running(worker, api), api.follow(session_id) as batches, owned(worker, session_id) as owner:
        for n in range(50):
            owner.write(TEXT)
            if n == 10:
                await got.read(batches, lambda: got.texts)
        await got.read(batches, lambda: got.texts["p"] == TEXT * 50)
        last = await owner.close()
        await got.read(batches, lambda: got.seqs == [last])
        owner.write("next", "q")
        await got.read(batches, lambda: got.texts.get("q") == "next")
    assert api.bus.channel(session_id).parts == {}, "nothing is kept for a session that nobody follows"


async def test_a_reader_in_the_middle_of_a_part_gets_all_of_it_first(
    redis: RedisServer, database: Database, session_id: str
) -> None:
    worker, api, late = (Node(database, redis.url) for _ in range(3))
    written = [TEXT * (DELTA_CHARS // 4)]
    async with running(worker, api, late), owned(worker, session_id) as owner:
        owner.write(written[0])
        await withdrawn(worker, session_id)
        await until(lambda: not worker.relay._outlets[session_id].has_listeners)
        for node in (api, late):
            got = Transcript()
            async with node.follow(session_id) as batches:
                await got.read(batches, lambda got=got: got.texts.get("p") == "".join(written))  # type: ignore[misc]
                owner.write("more")
                written.append("more")
                await got.read(batches, lambda got=got: got.texts["p"] == "".join(written))  # type: ignore[misc]
            assert got.seqs == [1]
            assert got.starts[0] == ("p", 0)


async def test_nothing_is_sent_while_nobody_reads(redis: RedisServer, database: Database, session_id: str) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    async with running(worker, api), owned(worker, session_id) as owner:
        outlet = worker.relay._outlets[session_id]
        await until(lambda: outlet.is_ready and not outlet.has_listeners)
        before = worker.relay.traffic.sent_bytes
        for _ in range(20):
            owner.write("x" * 10_000)
        async with api.follow(session_id) as batches:
            got = Transcript()
            await got.read(batches, lambda: len(got.texts.get("p", "")) == 200_000)
        await until(lambda: worker.relay.traffic.sent_bytes - before > 200_000)
        assert worker.relay.traffic.sent_bytes - before < 250_000, "once, for the reader"
        owner.write("y")
        await until(lambda: not outlet.has_listeners)


async def test_events_of_any_node_come_in_order(redis: RedisServer, database: Database, session_id: str) -> None:
    nodes = [Node(database, redis.url) for _ in range(3)]
    worker = nodes[0]
    got = [Transcript() for _ in nodes]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(*nodes))
        owner = await stack.enter_async_context(owned(worker, session_id))
        streams = [await stack.enter_async_context(node.follow(session_id)) for node in nodes]
        for n in range(60):
            owner.write(TEXT)
            await withdrawn(nodes[n % 3], session_id)
        for one, batches in zip(got, streams, strict=True):
            await one.read(batches, lambda t=one: len(t.seqs) == 60 and t.texts.get("p") == TEXT * 60)  # type: ignore[misc]


async def test_a_lost_broker_costs_only_smoothness(redis: RedisServer, database: Database, session_id: str) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got = Transcript()
    async with running(worker, api), api.follow(session_id) as batches, owned(worker, session_id) as owner:
        owner.write(TEXT)
        await got.read(batches, lambda: got.texts)
        redis.kill()
        await until(lambda: not worker.relay.is_connected and not api.relay.is_connected)
        assert (await api.relay.check()).status == "unreachable"
        owner.write(TEXT)
        await owner.close()
        owner.write(TEXT, "q")
        for _ in range(RECENT_EVENTS + 10):
            await withdrawn(worker, session_id)
        await got.read(batches, lambda: len(got.seqs) == RECENT_EVENTS + 11)
        assert "q" not in got.texts
        redis.start()
        await got.read(batches, lambda: got.texts.get("q") == TEXT)
        assert (await api.relay.check()).ok
        owner.write(TEXT, "q")
        last = await owner.close("q")
        await got.read(batches, lambda: got.seqs[-1] == last)
        assert got.texts["q"] == TEXT * 2
    assert worker.relay.traffic.losses == 1


async def test_a_frozen_broker_blocks_nobody(redis: RedisServer, database: Database, session_id: str) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got = Transcript()
    async with running(worker, api), api.follow(session_id) as batches, owned(worker, session_id) as owner:
        owner.write(TEXT)
        await got.read(batches, lambda: got.texts)
        redis.signal(signal.SIGSTOP)
        try:
            last = await owner.close()
            await got.read(batches, lambda: got.seqs == [last], seconds=SILENT_S + 5)
            await until(lambda: not worker.relay.is_connected and not api.relay.is_connected)
        finally:
            redis.signal(signal.SIGCONT)
        owner.write(TEXT, "q")
        await got.read(batches, lambda: got.texts.get("q") == TEXT)


async def test_a_node_that_the_broker_disconnects_catches_up(
    redis: RedisServer, database: Database, session_id: str
) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got = Transcript()
    async with running(worker, api), api.follow(session_id) as batches, owned(worker, session_id) as owner:
        for n in range(3):
            owner.write(TEXT)
            await got.read(batches, lambda n=n: got.texts.get("p") == TEXT * (n + 1))  # type: ignore[misc]
            losses = api.relay.traffic.losses
            await worker.relay._broker._client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")  # type: ignore[attr-defined]
            await until(lambda losses=losses: api.relay.traffic.losses > losses)  # type: ignore[misc]
            owner.write("x", f"q{n}")
            await owner.close(f"q{n}")
        await got.read(batches, lambda: len(got.seqs) == 3)


async def test_an_event_that_no_message_announced_is_found(
    redis: RedisServer, database: Database, session_id: str
) -> None:
    api = Node(database, redis.url)
    got = Transcript()
    async with running(api), api.follow(session_id) as batches:
        await until(lambda: api.relay._confirmed >= {api.relay._channel_of(session_id)})
        seq = await withdrawn(api, session_id, unpublished=True)
        await got.read(batches, lambda: got.seqs == [seq])


async def test_text_goes_on_after_an_event_that_was_not_announced(
    redis: RedisServer, database: Database, session_id: str
) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got, here = Transcript(), Transcript()
    async with (
        running(worker, api),
        owned(worker, session_id) as owner,
        api.follow(session_id) as batches,
        worker.follow(session_id) as local,
    ):
        seq = await withdrawn(api, session_id, unpublished=True)
        await got.read(batches, lambda: got.seqs == [seq])
        await here.read(local, lambda: here.seqs == [seq])
        owner.write(TEXT)
        await got.read(batches, lambda: got.texts.get("p") == TEXT)
        await here.read(local, lambda: here.texts.get("p") == TEXT)


async def test_a_stale_owners_text_is_ignored(redis: RedisServer, database: Database, session_id: str) -> None:
    stale, worker, api = (Node(database, redis.url) for _ in range(3))
    got = Transcript()
    async with running(stale, worker, api), api.follow(session_id) as batches, owned(stale, session_id, 1) as old:
        old.write("old", "a")
        await got.read(batches, lambda: got.texts.get("a") == "old")
        async with owned(worker, session_id, 2) as new:
            new.write("new", "b")
            await got.read(batches, lambda: got.texts.get("b") == "new")
            channel = api.bus.channel(session_id)
            assert channel.parts.keys() == {"b"}, "the other one's are void"
            old.write("older", "a")
            received = api.relay.traffic.received
            await until(lambda: api.relay.traffic.received > received)
            new.write("er", "b")
            await got.read(batches, lambda: got.texts["b"] == "newer")
            assert channel.parts.keys() == {"b"}
            assert got.texts["a"] == "old"


async def test_voided_parts_end_everywhere(redis: RedisServer, database: Database, session_id: str) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got = Transcript()
    async with running(worker, api), api.follow(session_id) as batches, owned(worker, session_id) as owner:
        owner.write("a", "a")
        owner.write("b", "b")
        await got.read(batches, lambda: got.texts == {"a": "a", "b": "b"})
        seq = await owner.void()
        await got.read(batches, lambda: got.seqs == [seq])
        assert api.bus.channel(session_id).parts == {}


async def test_previews_may_have_gaps_and_keep_their_end(
    redis: RedisServer, database: Database, session_id: str
) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    async with running(worker, api), owned(worker, session_id) as owner:
        await until(lambda: not worker.relay._outlets[session_id].has_listeners)
        for n in range(100):
            owner.write(f"{n:04}" * 1024, "t", "tool.output", "stderr" if n % 2 else "stdout")
        whole = "".join(f"{n:04}" * 1024 for n in range(100))
        got = Transcript()
        async with api.follow(session_id) as batches:
            await got.read(batches, lambda: got.texts.get("t", "").endswith("0099"))
            assert whole.endswith(got.texts["t"])
            assert len(got.texts["t"]) >= TOOL_PREVIEW_CHARS
            owner.write("end", "t", "tool.output", "stdout")
            await got.read(batches, lambda: got.texts["t"].endswith("end"))


async def test_a_slow_reader_costs_others_nothing_and_gets_larger_deltas(
    redis: RedisServer, database: Database, session_id: str
) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    fast, slow = Transcript(), Transcript()
    async with (
        running(worker, api),
        owned(worker, session_id) as owner,
        api.follow(session_id) as quick,
        api.follow(session_id) as late,
    ):
        for n in range(200):
            owner.write(TEXT)
            await fast.read(quick, lambda n=n: len(fast.texts.get("p", "")) == len(TEXT) * (n + 1))  # type: ignore[misc]
        last = await owner.close()
        await fast.read(quick, lambda: fast.seqs == [last])
        owner.write(TEXT * 3, "q")
        await fast.read(quick, lambda: fast.texts.get("q") == TEXT * 3)
        await slow.read(late, lambda: slow.texts.get("q") == TEXT * 3)
    assert slow.texts == fast.texts
    assert slow.batches < fast.batches / 10


async def test_what_waits_is_bounded(redis: RedisServer, database: Database, session_id: str) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got = Transcript()
    async with running(worker, api), api.follow(session_id) as batches, owned(worker, session_id) as owner:
        owner.write(TEXT)
        await got.read(batches, lambda: got.texts)
        redis.signal(signal.SIGSTOP)
        try:
            outlet = worker.relay._outlets[session_id]
            item = StreamItem("test", None, b"x" * (RECENT_BYTES // 4))
            for _ in range(100):
                outlet.published([item])
                assert outlet._waiting_bytes <= RECENT_BYTES
            assert outlet.dropped > 90
        finally:
            outlet._clear()
            redis.signal(signal.SIGCONT)
        owner.write(TEXT)
        await got.read(batches, lambda: got.texts["p"] == TEXT * 2)


async def test_a_large_event_is_read_from_the_log(redis: RedisServer, database: Database, session_id: str) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got = Transcript()
    seqs: list[int] = []
    size, ended = 0, False
    async with running(worker, api), api.follow(session_id) as batches, owned(worker, session_id) as owner:
        owner.write("😀" * 300_000)
        await got.read(batches, lambda: len(got.texts.get("p", "")) == 300_000)
        # The node may have asked for the part before its text came by itself, and get it twice.
        await until(lambda: not (api.relay._asked or worker.relay._asks or worker.relay._changed))
        sent = worker.relay.traffic.sent_bytes
        last = await owner.close()
        async with asyncio.timeout(60):
            while not (seqs and ended):
                for item in await anext(batches):
                    if item.seq is not None:
                        seqs.append(item.seq)
                        size += len(item.data)
                        ended = item.ends
        assert set(seqs) == {last}
        assert size > 1_200_000
        assert worker.relay.traffic.sent_bytes - sent < 200_000, "without its data"
        assert api.bus.channel(session_id).parts == {}


async def test_sessions_of_all_nodes_reach_readers_of_all_sessions(redis: RedisServer, database: Database) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    one, two, three = [await database.writer.write(add_session) for _ in range(3)]
    async with running(worker, api):
        await until(lambda: api.relay._confirmed >= {api.relay._feed, api.relay._inbox})
        async with follow_all(EventLog(database), api.bus) as batches:
            await worker.idle(one)
            items = await anext(batches)
            await api.idle(two)
            items += await anext(batches)
            redis.kill()
            await until(lambda: not worker.relay.is_connected and not api.relay.is_connected)
            await worker.idle(three)
            await api.idle(three)
            async with asyncio.timeout(60):
                while sum(three.encode() in item.data for item in items) < 2:
                    items += await anext(batches)
            redis.start()
            async with asyncio.timeout(60):
                rest = [item async for batch in batches for item in batch]
    counts = {id: sum(id.encode() in item.data for item in [*items, *rest]) for id in (one, two, three)}
    assert all(item.seq is None and item.type == "session.idle" for item in items)
    assert counts[three] == 2
    assert min(counts.values()) >= 1, "and the stream has ended, so that its reader loads its list again"


async def test_a_deletion_ends_streams_on_other_nodes(redis: RedisServer, database: Database) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    told, found = [await database.writer.write(add_session) for _ in range(2)]
    async with running(worker, api), api.follow(told) as batches, api.follow(found) as others:
        await until(lambda: len(api.relay._confirmed) == 4)
        worker.bus.delete(told, StreamItem("session.deleted", 1, b"{}"))
        async with asyncio.timeout(60):
            assert [item.type async for batch in batches for item in batch] == ["session.deleted"]
        # The message about this one is lost.
        await database.writer.write(lambda c: sessions.remove(c, found))
        async with asyncio.timeout(60):
            assert [batch async for batch in others] == []


async def test_nudges_reach_the_node_that_waits_for_them(
    redis: RedisServer, database: Database, session_id: str
) -> None:
    worker, api = Node(database, redis.url), Node(database, redis.url)
    nudged = asyncio.Event()
    async with running(worker, api):
        with worker.bus.on_nudge(session_id, nudged.set):
            worker.bus.nudge(session_id)
            assert nudged.is_set(), "at once where it is registered"
            nudged.clear()
            await until(lambda: worker.relay._owner_of(session_id) in worker.relay._confirmed)
            api.bus.nudge(session_id)
            async with asyncio.timeout(60):
                await nudged.wait()
            nudged.clear()
            redis.kill()
            await until(lambda: not api.relay.is_connected)
            api.bus.nudge(session_id)
            redis.start()
            await until(
                lambda: worker.relay._owner_of(session_id) in worker.relay._confirmed and api.relay.is_connected
            )
            api.bus.nudge(session_id)
            async with asyncio.timeout(60):
                await nudged.wait()
        await until(lambda: worker.relay._owner_of(session_id) not in worker.relay._confirmed)
        nudged.clear()
        api.bus.nudge(session_id)
        await withdrawn(api, session_id)
        assert not nudged.is_set()


async def test_subscriptions_end_with_their_readers(redis: RedisServer, database: Database) -> None:
    api = Node(database, redis.url)
    ids = [await database.writer.write(add_session) for _ in range(30)]
    async with running(api):
        await until(lambda: len(api.relay._confirmed) == 2)
        for id in ids:
            async with api.follow(id), api.follow(id):
                await until(lambda id=id: api.relay._channel_of(id) in api.relay._confirmed)  # type: ignore[misc]
        await until(lambda: len(api.relay._confirmed) == 2 and api.relay._requested == api.relay._wanted)
        subscription = api.relay._broker._subscription  # type: ignore[attr-defined]
        await until(lambda: len(subscription.channels) == 2)
        assert (api.relay._inlets, len(api.bus), api.bus.followed) == ({}, 0, [])


async def test_a_short_run_is_read_too(redis: RedisServer, database: Database, session_id: str) -> None:
    """Its owner has ended before the broker knows of it."""
    worker, api = Node(database, redis.url), Node(database, redis.url)
    got = Transcript()
    async with running(worker, api), api.follow(session_id) as batches:
        await until(lambda: api.relay._channel_of(session_id) in api.relay._confirmed)
        async with owned(worker, session_id) as owner:
            owner.write(TEXT)
            last = await owner.close()
        await got.read(batches, lambda: got.seqs == [last], seconds=2)
