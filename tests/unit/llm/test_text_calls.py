"""Tool calls that a model has written as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.stream_processor import LOOP_CHARS, RepetitionCheck
from app.llm.base import BlockEnd, Finish, ReasoningDelta, StopReason, StreamEvent, TextDelta, ToolCallStart
from app.llm.openai import TextCalls, calls_in

from .values import calls, finish, prose

OFFERED = {"read_file", "list_directory"}
READ = '{"name": "read_file", "arguments": {"path": "a"}}'
READ_A = ("read_file", '{"path":"a"}')


def run(text: str, size: int = 3, reason: StopReason = "stop", offered: set[str] = OFFERED) -> list[StreamEvent]:
    filter = TextCalls(offered)
    deltas: list[StreamEvent] = [TextDelta(1, text[at : at + size]) for at in range(0, len(text), size)]
    events = [ReasoningDelta(0, "hm"), BlockEnd(0), *deltas, BlockEnd(1), Finish(reason)]
    return [out for event in events for out in filter.feed(event)]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (READ, [READ_A]),
        (f"\n  {READ}\n", [READ_A]),
        (f"<tool_call>{READ}</tool_call>", [READ_A]),
        (f"<tool_call>\n{READ}\n</tool_call>\n<tool_call>\n{READ}\n</tool_call>", [READ_A, READ_A]),
        (f"<tool_call>\n{READ}", [READ_A]),
        (f"```json\n{READ}\n```", [READ_A]),
        ('{"name": "list_directory", "parameters": {}}', [("list_directory", "{}")]),
        ('{"name": "read_file", "arguments": "{\\"path\\": \\"a\\"}"}', [READ_A]),
        ('{"type": "function", "function": {"name": "read_file", "arguments": {"path": "a"}}}', [READ_A]),
    ],
)
def test_a_text_of_only_calls_becomes_calls(text: str, found: list[tuple[str, str]], size: int) -> None:
    events = run(text, size)
    assert [(name, arguments) for name, arguments, *_ in calls(events)] == found
    assert prose(events) == ""
    assert finish(events) == "tool_calls"


@pytest.mark.parametrize(
    "text",
    [
        "Hello.",
        f"I call: {READ}",
        f"{READ} and that is it.",
        f"<tool_call>{READ}</tool_call> done",
        '{"name": "no_such_tool", "arguments": {}}',
        '{"name": "read_file"}',
        '{"name": "read_file", "arguments": [1]}',
        '{"name": "read_file", "arguments": {"path": ',
        '{"result": 5}',
        "```python\nprint()\n```",
        "```json\n[1, 2]\n```",
        "<tool_callers>",
        "<tool_call>",
        "{",
    ],
)
def test_any_other_text_is_unchanged(text: str) -> None:
    events = run(text)
    assert (prose(events), calls(events), finish(events)) == (text, [], "stop")


@given(st.text(st.sampled_from('<tool_call>/{}"name:,`json \n'), max_size=60), st.integers(1, 9))
def test_no_text_is_lost(text: str, size: int) -> None:
    assert prose(run(text, size)) == text


def test_an_answer_is_shown_as_soon_as_it_cannot_be_a_call() -> None:
    filter = TextCalls(OFFERED)
    assert list(filter.feed(TextDelta(0, '{"res'))) == [TextDelta(0, '{"res')]
    assert list(filter.feed(TextDelta(0, "ult"))) == [TextDelta(0, "ult")]


@pytest.mark.parametrize("begin", ['```json\n{"version": 1,\n', "```js\n", '<tool_call>{"x', "<tool_call>see"])
def test_text_in_a_fence_or_a_tag_is_shown_as_soon_as_it_cannot_be_a_call(begin: str) -> None:
    filter = TextCalls(OFFERED)
    assert list(filter.feed(TextDelta(0, begin))) == [TextDelta(0, begin)]


@pytest.mark.parametrize("begin", ["<tool_call>", "```json\n", "```\n", f"<tool_call>{READ}</tool_call>", READ])
def test_a_million_blanks_are_read_quickly(begin: str) -> None:
    """Backtracking for each of them would never finish."""
    assert calls_in(f"{begin}{' ' * 1_000_000}x", OFFERED) == []


def test_a_truncated_call_stays_text() -> None:
    assert prose(run(READ, reason="length")) == READ


def test_a_text_next_to_a_real_call_stays_text() -> None:
    filter = TextCalls(OFFERED)
    events: Sequence[StreamEvent] = [TextDelta(0, READ), BlockEnd(0), ToolCallStart(1, "read_file"), BlockEnd(1)]
    out = [found for event in [*events, Finish("tool_calls")] for found in filter.feed(event)]
    assert out == [*events, Finish("tool_calls")]


def repeats(text: str, size: int = 37) -> bool:
    check = RepetitionCheck()
    return any(check.grows(text[at : at + size]) for at in range(0, len(text), size))


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=80), st.integers(1, 500))
def test_an_endlessly_repeated_unit_is_detected(unit: str, size: int) -> None:
    assert repeats("An answer begins well. " + unit * (2 * LOOP_CHARS // len(unit) + 2_000), size)


ROWS = "".join(f"| {n} | {n * 7 % 13} | same |\n" for n in range(2_000))
ART = "\n".join(" " * (40 - n % 40) + "*" * (n % 40) + " " * 30 for n in range(400))


@pytest.mark.parametrize("text", [ROWS, ART, "-" * 5_000 + "text" + "=" * 5_000, "line of prose. " * 500])
def test_regular_texts_are_not_affected(text: str) -> None:
    assert not repeats(text)


def test_the_sources_of_this_service_are_not_affected() -> None:
    for path in [*Path("app").rglob("*.py"), *Path("docs").glob("*.md")]:
        assert not repeats(path.read_text(), 500), path
