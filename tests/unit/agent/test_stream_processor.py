"""Streams in any order become the parts of one message, in the order in which they began."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.changes import PartClosed
from app.agent.stream_processor import MAX_ANSWER_BYTES, StreamProcessor
from app.errors import ProviderError
from app.llm.base import (
    BlockEnd,
    Finish,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageReport,
)
from app.messages import ReasoningPart, TextPart, ToolCallPart, Usage
from tests.unit.agent.sinks import KeptSink

texts = st.text(st.sampled_from("a😀é\x00\ud800"), max_size=4)


@st.composite
def streams(draw: st.DrawFn) -> tuple[dict[int, tuple[str, list[str]]], list[StreamEvent]]:
    """Blocks with their pieces, and their events in any order that keeps each block's own."""
    blocks = {
        number: (draw(st.sampled_from(["text", "reasoning", "call"])), draw(st.lists(texts, max_size=4)))
        for number in range(draw(st.integers(0, 4)))
    }
    left = {number: _events(number, *block) for number, block in blocks.items()}
    events: list[StreamEvent] = []
    while any(left.values()):
        number = draw(st.sampled_from([number for number, own in left.items() if own]))
        events.append(left[number].pop(0))
    return blocks, events


def _events(number: int, kind: str, pieces: list[str]) -> list[StreamEvent]:
    deltas: Any = {"text": TextDelta, "reasoning": ReasoningDelta, "call": ToolArgumentsDelta}[kind]
    begin: list[StreamEvent] = [ToolCallStart(number, f"tool{number}")] if kind == "call" else []
    return [*begin, *[deltas(number, piece) for piece in pieces], BlockEnd(number)]


def clean(text: str) -> str:
    return text.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")


def text_of(part: TextPart | ReasoningPart | ToolCallPart) -> str:
    return part.arguments_text if isinstance(part, ToolCallPart) else part.text


@settings(deadline=None)
@given(stream=streams())
async def test_each_block_becomes_its_part(stream: tuple[dict[int, tuple[str, list[str]]], list[StreamEvent]]) -> None:
    blocks, events = stream
    sink = KeptSink()
    processor = StreamProcessor(sink, "m")
    for event in events:
        processor.feed(event)
    processor.close(interrupted=True)

    expected = sorted(
        (kind, clean("".join(pieces))) for kind, pieces in blocks.values() if kind == "call" or any(pieces)
    )
    kinds = {TextPart: "text", ReasoningPart: "reasoning", ToolCallPart: "call"}
    parts = processor.ordered_parts
    assert sorted((kinds[type(part)], text_of(part)) for part in parts) == expected
    assert [part.index for part in parts] == list(range(len(parts))), "indices without gaps"
    assert [change.part for change in sink.changes if isinstance(change, PartClosed)] == processor.parts
    assert len({part.id for part in parts}) == len(parts)
    for part in parts:
        assert sink.text_of(part.id) == text_of(part), "the shown text is the stored one"
    assert not any(part.interrupted for part in parts if not isinstance(part, ToolCallPart))
    assert processor.calls == tuple(part for part in parts if isinstance(part, ToolCallPart))
    assert len({call.call_id for call in processor.calls}) == len(processor.calls)


async def test_a_cut_off_part_is_kept_and_marked() -> None:
    sink = KeptSink()
    processor = StreamProcessor(sink, "m")
    for event in (
        ReasoningDelta(0, "thinking"),
        TextDelta(1, "ha"),
        TextDelta(1, "lf"),
        ToolCallStart(2, "read_file"),
        ToolArgumentsDelta(2, '{"pa'),
    ):
        processor.feed(event)
    assert sink.changes == []
    processor.close(interrupted=True)

    reasoning, text, call = processor.ordered_parts
    assert isinstance(reasoning, ReasoningPart)
    assert isinstance(text, TextPart)
    assert isinstance(call, ToolCallPart)
    assert (reasoning.interrupted, text.interrupted, text.text) == (True, True, "half")
    assert call.arguments == '{"pa'
    processor.close(interrupted=True)
    assert len(sink.changes) == 3


async def test_a_providers_own_block_is_kept_without_a_text() -> None:
    processor = StreamProcessor(KeptSink(), "m")
    processor.feed(BlockEnd(0, {"type": "redacted_thinking", "data": "x"}))
    processor.feed(BlockEnd(1))
    processor.feed(ToolArgumentsDelta(2, "of no call"))
    processor.feed(TextDelta(3, ""))
    processor.close(interrupted=False)
    [part] = processor.parts
    assert isinstance(part, ReasoningPart)
    assert (part.text, part.provider_data) == ("", {"type": "redacted_thinking", "data": "x"})


async def test_an_endless_answer_is_ended() -> None:
    processor = StreamProcessor(KeptSink(), "m")
    # Not regular: an answer that repeats itself is ended much sooner.
    piece = "".join(f"{n:06}ä" for n in range(MAX_ANSWER_BYTES // 16))
    processor.feed(TextDelta(0, piece))
    processor.feed(ReasoningDelta(1, piece))
    with pytest.raises(ProviderError, match="4,000,000 bytes") as raised:
        processor.feed(TextDelta(0, "y"))
    assert not raised.value.retryable


async def test_usage_and_stop_reason_are_the_last_reported() -> None:
    processor = StreamProcessor(KeptSink(), "m")
    assert (processor.usage, processor.stop_reason) == (None, None)
    for tokens in (1, 2):
        processor.feed(UsageReport(Usage(output_tokens=tokens)))
    processor.feed(Finish("length"))
    assert processor.usage == Usage(output_tokens=2)
    assert processor.stop_reason == "length"
