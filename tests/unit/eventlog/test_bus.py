"""The bus: texts of open parts from any offset, newest events, and channels that are dropped when unused."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ServerBusyError
from app.eventlog.bus import GLOBAL_EVENTS, Bus, GlobalFeed
from app.eventlog.channel import (
    DELTA_CHARS,
    MAX_PIECES,
    RECENT_BYTES,
    RECENT_EVENTS,
    TOOL_PREVIEW_CHARS,
    Channel,
    OpenPart,
    Reader,
)
from app.eventlog.log import PAGE_BYTES, StreamItem

texts = st.text(st.sampled_from("a😀𝒳é\n"), min_size=1, max_size=5)


def event(seq: int, type: str = "test", **fields: Any) -> StreamItem:
    return StreamItem(type, seq, b"{}", **fields)


@given(pieces=st.lists(texts, max_size=40), offset=st.integers(0, 250), most=st.integers(1, 250))
def test_a_part_gives_what_follows_any_offset(pieces: list[str], offset: int, most: int) -> None:
    part = OpenPart("text.delta", {})
    for piece in pieces:
        part.append(piece, "")
    whole = "".join(pieces)
    assert (part.text, part.end) == (whole, len(whole))
    offset = min(offset, len(whole))
    expected = [(offset, whole[offset : offset + most], "")] if whole[offset:] else []
    assert [run for run in part.since(offset, most) if run[1]] == expected


def test_a_part_of_many_pieces_is_complete_in_few() -> None:
    part = OpenPart("text.delta", {})
    whole = ""
    for n in range(5 * MAX_PIECES + 7):
        part.append(f"{n}😀", "")
        whole += f"{n}😀"
        assert len(part._pieces) <= MAX_PIECES
    assert part.text == whole
    for offset in range(0, len(whole), 97):
        assert part.since(offset, len(whole)) == [(offset, whole[offset:], "")]


@given(
    writes=st.lists(st.tuples(texts, st.sampled_from(["stdout", "stderr"])), max_size=60),
    keep=st.integers(1, 20),
    offset=st.integers(0, 300),
)
def test_a_preview_keeps_its_end_and_knows_its_offset(writes: list[tuple[str, str]], keep: int, offset: int) -> None:
    part = OpenPart("tool.output", {}, keep)
    for text, stream in writes:
        part.append(text, stream)
    whole = "".join(text for text, _ in writes)
    streams = "".join(("o" if stream == "stdout" else "e") * len(text) for text, stream in writes)
    runs = part.since(min(offset, len(whole)), len(whole))
    at = runs[0][0] if runs else len(whole)
    assert min(offset, len(whole)) <= at <= max(offset, len(whole) - keep), "the last `keep` characters at least"
    for start, text, stream in runs:
        assert start == at, "one run follows the other"
        assert text == whole[start : start + len(text)]
        assert set(streams[start : start + len(text)]) == {"o" if stream == "stdout" else "e"}
        at += len(text)
    assert at == len(whole)
    assert all(one[2] != two[2] for one, two in pairwise(runs)), "adjacent pieces of a stream are merged"


@pytest.mark.parametrize("streams", [("stdout",), ("stdout", "stderr")])
def test_a_preview_of_single_characters_costs_little(streams: tuple[str, ...]) -> None:
    part = OpenPart("tool.output", {}, TOOL_PREVIEW_CHARS)
    for n in range(4 * TOOL_PREVIEW_CHARS):
        part.append("x", streams[n % len(streams)])
    held = sum(sys.getsizeof(value) for value in (part._starts, part._pieces, part._streams))
    held += sum(map(sys.getsizeof, part._starts))
    assert held < 1_500_000
    shown = part.since(0, part.end)
    assert sum(len(text) for _, text, _ in shown) >= min(TOOL_PREVIEW_CHARS, 4096)
    assert shown[-1][0] + len(shown[-1][1]) == part.end


def test_one_huge_piece_of_a_preview_is_cut() -> None:
    part = OpenPart("tool.output", {}, 10)
    part.append("a" * 1000, "stdout")
    part.append("b", "stderr")
    assert len(part.text) <= 21
    assert part.since(0, 100)[-1] == (1000, "b", "stderr")


# channels


def texts_of(items: list[StreamItem]) -> list[tuple[int, str]]:
    return [(data["offset"], data["text"]) for data in (orjson.loads(item.data) for item in items)]


@given(moves=st.lists(st.one_of(texts, st.integers(0, 2)), max_size=60))
def test_readers_of_any_speed_get_each_part_without_a_gap(moves: list[str | int]) -> None:
    channel = Channel("s")
    readers: list[dict[str, int]] = [{}, {}, {}]
    got = ["", "", ""]
    part = channel.open_part("p", "text.delta", {"message_id": "m"})
    whole = ""
    for move in [*moves, 0, 1, 2]:
        if isinstance(move, str):
            part.append(move, "")
            whole += move
            continue
        for offset, text in texts_of(channel.deltas(readers[move])):
            assert offset == len(got[move])
            got[move] += text
    assert got == [whole] * 3
    assert channel.deltas(readers[0]) == []


def test_closing_and_voiding_end_parts() -> None:
    channel = Channel("s")
    for part_id, message_id in (("a", "m1"), ("b", "m1"), ("c", "m2")):
        channel.open_part(part_id, "text.delta", {"message_id": message_id}).append("x", "")
    offsets: dict[str, int] = {}
    assert len(channel.deltas(offsets)) == 3
    channel.publish([event(1, closes="c")])
    assert channel.parts.keys() == {"a", "b"}
    channel.publish([event(2, voids="m1")])
    assert channel.parts == {}
    assert channel.deltas(offsets) == []
    assert offsets == {}


def test_recent_events_are_bounded_in_number_and_size() -> None:
    channel = Channel("s")
    channel.publish([event(n) for n in range(1, RECENT_EVENTS + 11)])
    assert len(channel.recent) == RECENT_EVENTS
    assert channel.durable_after(5) is None, "the log has to be read"
    after = channel.durable_after(10)
    assert after is not None
    assert [item.seq for item in after] == list(range(11, RECENT_EVENTS + 11))
    assert channel.durable_after(RECENT_EVENTS + 10) == []

    big = b"x" * (RECENT_BYTES // 2)
    last = channel.last_seq
    channel.publish([StreamItem("big", last + n, big) for n in range(1, 5)])
    assert sum(len(item.data) for item in channel.recent) <= RECENT_BYTES
    assert channel.durable_after(last + 3) is None, "a large event is read in pieces, from the log"


def test_a_reader_gets_at_most_one_page_at_a_time() -> None:
    channel, feed = Channel("s"), GlobalFeed()
    items = [StreamItem("session.updated", n, b"x" * (PAGE_BYTES // 4)) for n in range(1, 10)]
    channel.publish(items)
    assert channel.durable_after(0) == items[:4]
    assert channel.durable_after(4) == items[4:8]
    feed.publish(items)
    # Each with its cursor.
    assert [len(feed.since(n) or []) for n in (0, 4, 8)] == [3, 3, 1]


def test_an_open_part_is_sent_in_bounded_deltas() -> None:
    channel = Channel("s")
    text = "".join(map(str, range(DELTA_CHARS)))
    channel.open_part("p", "text.delta", {}).append(text, "")
    channel.open_part("q", "text.delta", {}).append("end", "")
    offsets: dict[str, int] = {}
    told: list[dict[str, Any]] = []
    while items := channel.deltas(offsets):
        told += [orjson.loads(item.data) for item in items]
        assert sum(len(orjson.loads(item.data)["text"]) for item in items) <= DELTA_CHARS
    assert "".join(delta["text"] for delta in told) == text + "end"
    assert [delta["offset"] for delta in told] == [*range(0, len(text), DELTA_CHARS), 0]


def test_a_late_publication_does_not_reopen_what_the_log_closed() -> None:
    channel = Channel("s")
    channel.last_seq = 7
    channel.publish([event(6)])
    assert (channel.last_seq, channel.published) == (7, 6)
    channel.publish([event(7)])
    assert (channel.last_seq, channel.published) == (7, 7)


def test_a_channel_is_dropped_without_readers_and_runs() -> None:
    bus = Bus()
    channel = bus.channel("s")
    reader = Reader()
    channel.readers.add(reader)
    channel.running = True
    bus.release("s")
    assert bus.channel("s") is channel
    channel.readers.discard(reader)
    bus.release("s")
    assert bus.channel("s") is channel
    channel.running = False
    bus.release("s")
    assert len(bus) == 0
    bus.release("s")


async def test_publishing_wakes_readers_once_a_turn_and_needs_none() -> None:
    bus = Bus()
    bus.publish("nobody", [event(1)])
    assert len(bus) == 0
    reader, quick = Reader(), Reader()
    taken: list[int] = []

    def take() -> bool:
        taken.append(bus.channel("s").published)
        return True

    quick.take = take
    bus.channel("s").readers |= {reader, quick}
    bus.publish("s", [])
    await asyncio.sleep(0)
    assert not reader.is_set()
    bus.publish("s", [event(1)])
    bus.publish("s", [event(2)])
    await asyncio.sleep(0)
    assert (reader.is_set(), quick.is_set(), taken) == (True, False, [2])
    bus.publish("s", [event(3)])
    await asyncio.sleep(0)
    assert taken == [2, 3]


async def test_a_deleted_session_does_not_end_the_streams_of_one_that_takes_its_id() -> None:
    bus = Bus()
    old = bus.channel("s")
    reader = Reader()
    old.readers.add(reader)
    bus.delete("s", event(1, "session.deleted"))
    assert old.deleted
    await asyncio.sleep(0)
    assert reader.is_set()
    assert not bus.channel("s").deleted


def test_the_feed_of_all_sessions_keeps_the_newest_and_has_no_ids() -> None:
    feed = GlobalFeed()
    feed.publish([event(1, "session.created"), event(2, "text.completed"), event(3, "session.idle")])
    assert [(item.type, item.seq) for item in feed.since(0) or []] == [
        ("session.created", None),
        ("session.idle", None),
    ]
    assert feed.since(2) == []
    feed.publish([event(n, "session.updated") for n in range(GLOBAL_EVENTS)])
    assert feed.since(1) is None
    assert len(feed.since(2) or []) == GLOBAL_EVENTS


def test_streams_are_bounded_and_the_refused_ones_counted() -> None:
    bus = Bus(most_readers=2)
    for channel in (bus.channel("a"), bus.channel("b")):
        bus.check_room()
        channel.readers.add(Reader())
    with pytest.raises(ServerBusyError) as caught:
        bus.check_room()
    assert (caught.value.code, bus.refused) == ("too_many_readers", 1)
    bus.channel("a").readers.clear()
    bus.check_room()


async def test_the_lag_is_that_of_the_slowest_reader() -> None:
    bus = Bus()
    assert bus.lag == 0
    fast, slow = Reader(), Reader()
    channel = bus.channel("a")
    channel.readers |= {fast, slow, Reader()}
    fast.seq, slow.seq = 3, 1
    bus.publish("a", [event(seq) for seq in range(1, 5)])
    assert bus.lag == 3
