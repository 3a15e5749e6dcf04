from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.llm.base import BlockEnd, Finish, ReasoningDelta, StreamEvent, TextDelta, ToolArgumentsDelta, ToolCallStart
from app.llm.wire import Blocks


def test_numbers_count_up_whatever_the_kind() -> None:
    blocks = Blocks()
    assert [blocks.begin(), blocks.begin_call("f"), blocks.begin()] == [0, 1, 2]


def test_events_are_taken_once() -> None:
    blocks = Blocks()
    blocks.text(blocks.begin(), "a")
    assert blocks.take() == [TextDelta(0, "a")]
    assert blocks.take() == []


def test_a_block_ends_once() -> None:
    blocks = Blocks()
    first, second = blocks.begin(), blocks.begin()
    blocks.end(first, {"signed": True})
    blocks.end(first)
    blocks.end_all()
    blocks.end(second)
    assert blocks.take() == [BlockEnd(0, {"signed": True}), BlockEnd(1)]


def test_only_adjacent_deltas_of_one_block_and_kind_are_merged() -> None:
    blocks = Blocks()
    one, two, three = blocks.begin(), blocks.begin(), blocks.begin_call("f")
    for piece in "ab":
        blocks.reasoning(one, piece)
    for piece in "cd":
        blocks.text(two, piece)
    blocks.arguments(three, "{")
    blocks.text(two, "e")
    blocks.arguments(three, "}")
    blocks.arguments(three, "\x00")
    blocks.add(Finish("stop"))
    assert blocks.take() == [
        ToolCallStart(2, "f"),
        ReasoningDelta(0, "ab"),
        TextDelta(1, "cd"),
        ToolArgumentsDelta(2, "{"),
        TextDelta(1, "e"),
        ToolArgumentsDelta(2, "}�"),
        Finish("stop"),
    ]


@given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=3)), max_size=20))
def test_merging_loses_nothing(deltas: list[tuple[int, str]]) -> None:
    blocks = Blocks()
    for _ in range(3):
        blocks.begin()
    for block, piece in deltas:
        blocks.text(block, piece)
    events: list[StreamEvent] = blocks.take()
    texts = [event for event in events if isinstance(event, TextDelta)]
    for number in range(3):
        whole = "".join(piece for block, piece in deltas if block == number).replace("\x00", "�")
        assert "".join(event.text for event in texts if event.block == number) == whole
    assert all(one.block != other.block for one, other in pairwise(texts))
