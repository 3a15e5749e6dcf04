"""A channel to which several nodes add: events late, twice or never, and text by offset."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.eventlog.channel import Channel, OpenPart
from app.eventlog.log import StreamItem
from app.events import StepRetrying, TextCompleted
from app.messages import new_id, now

TEXT = "a😀𝒳é" * 10


def event(seq: int, **fields: Any) -> StreamItem:
    return StreamItem("test", seq, b"{}", **fields)


@given(order=st.lists(st.integers(1, 30), max_size=60), after=st.integers(0, 30))
def test_events_from_memory_have_no_hole_in_whatever_order_they_came(order: list[int], after: int) -> None:
    channel = Channel("s", is_shared=True)
    for seq in order:
        channel.publish([event(seq)])
    newest = max(order, default=0)
    assert (channel.published, channel.last_seq) == (newest, newest)
    found = channel.durable_after(after)
    if after >= newest:
        assert found == []
    elif found is not None:
        assert [item.seq for item in found] == list(range(after + 1, newest + 1))


def test_a_late_event_closes_its_part() -> None:
    channel = Channel("s", is_shared=True)
    channel.open_part("p", "text.delta", {"message_id": "m"}).append("x", "")
    channel.publish([event(5)])
    channel.publish([event(4, closes="p")])
    assert channel.parts == {}
    assert [item.seq for item in channel.recent] == [5]


@given(cuts=st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, len(TEXT))), max_size=20))
def test_text_by_offset_is_complete_or_refused(cuts: list[tuple[int, int]]) -> None:
    part = OpenPart("text.delta", {})
    for start, size in cuts:
        known = part.end
        taken = part.extend(start, TEXT[start : start + size], "")
        assert taken == (start <= known)
        assert part.text == TEXT[: part.end]
        assert part.end == (max(known, min(start + size, len(TEXT))) if taken else known)


def test_a_preview_accepts_a_gap() -> None:
    part = OpenPart("tool.output", {}, 100)
    part.extend(0, "abc", "stdout")
    assert part.extend(1000, "xyz", "stdout")
    assert (part.text, part.end) == ("xyz", 1003)
    assert part.since(3, 10) == [(1000, "xyz", "stdout")]


@pytest.mark.parametrize("text", ["short", "x" * 10_000, '"part_id":"other"'])
def test_events_from_the_log_close_parts(text: str) -> None:
    channel = Channel("s", is_shared=True)
    for part_id in ("p", "q", "other"):
        channel.open_part(part_id, "text.delta", {"message_id": "m" if part_id == "q" else "n"})
    base: dict[str, Any] = {"session_id": new_id(), "at": now()}
    closed = TextCompleted.of(None, **base, message_id="n", part_id="p", index=0, text=text)
    voided = StepRetrying.of(None, **base, message_id="m", attempt=1, delay_ms=1, code="c", detail=text)
    for made in (closed, voided):
        data = orjson.dumps(made.model_dump(mode="json"))
        channel.close_read([StreamItem(made.type, 1, data)])
    assert channel.parts.keys() == {"other"}
