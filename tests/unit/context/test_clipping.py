from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.clipping import clip_arguments, clip_message, clip_part, clip_text, part_length
from app.context.tokens import estimate_part
from app.messages import Part, Role, TextPart, ToolCallPart, ToolResultPart

from .builders import assistant, call, estimate_message, image, message, result, signed, text, tool

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def shown(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case ToolResultPart():
            return part.output
        case ToolCallPart():
            return part.arguments_text
    return ""


def test_a_text_keeps_its_head_and_tail_and_says_how_much_is_missing() -> None:
    long = "a" * 5_000 + "b" * 5_000
    clipped = clip_text(long, 500)
    assert clipped == "a" * 250 + "\n[… 9,500 characters left out here]\n" + "b" * 250


@pytest.mark.parametrize("length", [0, 499, 500, 501, 540])
def test_a_text_that_is_hardly_too_long_stays_whole(length: int) -> None:
    whole = "x" * length
    assert clip_text(whole, 500) is whole


def test_a_clipped_output_says_how_to_read_it() -> None:
    part = clip_part(result("c{1}", "x" * 9_000).model_copy(update={"tokens": 2_300}), 2_000)
    assert isinstance(part, ToolResultPart)
    assert '7,000 characters left out here; recall("c{1}") returns them' in part.output
    assert part.tokens == 0


def test_the_longest_strings_of_arguments_are_clipped_and_the_others_stay() -> None:
    wanted = {"path": "src/app.py", "content": "y" * 20_000, "overwrite": True}
    clipped = orjson.loads(clip_arguments(orjson.dumps(wanted).decode(), 2_000))
    assert (clipped["path"], clipped["overwrite"]) == ("src/app.py", True)
    assert clipped["content"].startswith("yyy")
    assert "characters left out" in clipped["content"]
    assert 1_000 <= len(clipped["content"]) <= 2_100


@pytest.mark.parametrize("arguments", ["[1, 2, 3" * 500, orjson.dumps(list(range(2_000))).decode(), '"' * 4_000])
def test_arguments_that_are_no_object_become_one(arguments: str) -> None:
    clipped = orjson.loads(clip_arguments(arguments, 500))
    assert list(clipped) == ["_clipped"]
    assert clipped["_clipped"].startswith(arguments[:125])


def test_an_object_of_many_short_values_becomes_one_text() -> None:
    clipped = orjson.loads(clip_arguments(orjson.dumps({str(n): n for n in range(2_000)}).decode(), 500))
    assert list(clipped) == ["_clipped"]


def test_reasoning_is_never_clipped() -> None:
    whole = signed("x" * 9_000)
    assert clip_part(whole, 10) is whole
    assert part_length(whole) == 0


def test_an_image_is_replaced_by_its_name_if_it_counts_more_than_the_limit() -> None:
    shown = message(Role.USER, 1, text("see"), image(750, 100))
    (_, picture) = shown.parts
    assert part_length(picture) == 400
    assert clip_message(shown, {picture.id: 400}) is shown
    clipped = clip_message(shown, {picture.id: 399})
    assert clipped.text == 'see[image image/png 750×100, cleared; recall("m1") shows it again]'


def test_what_stands_for_an_image_of_a_result_ends_it() -> None:
    picture = image(750, 100).model_copy(update={"id": "i", "of_call": "a", "path": "b c.png"})
    shown = message(Role.TOOL, 3, result("a", "[image/png]"), picture)
    (only,) = clip_message(shown, {shown.parts[1].id: 10}).tool_results
    assert only.output.splitlines() == [
        "[image/png]",
        '[image b c.png image/png 750×100, cleared; read_file("b c.png") shows it again]',
    ]


def test_a_message_is_the_same_object_if_nothing_is_clipped() -> None:
    short = assistant(1, text("short"), call("a"))
    assert clip_message(short, {}) is short
    assert clip_message(short, {"other": 5}) is short
    assert clip_message(short, {"m1.0": 500}) is short


def test_only_the_named_parts_of_a_message_are_clipped() -> None:
    long = tool(1, result("a", "x" * 4_000), result("b", "x" * 4_000))
    first, second = clip_message(long, {"m1.0": 500}).tool_results
    assert len(first.output) < 650
    assert second.output == "x" * 4_000
    assert clip_message(long, {"m1.0": 500}).tokens == estimate_message(clip_message(long, {"m1.0": 500}))


def test_placeholders_of_cleared_results_are_not_clipped() -> None:
    cleared = tool(1, result("a", "x" * 4_000))
    assert clip_message(cleared, {"m1.0": 500}, frozenset({"a"})) is cleared


@given(st.text(max_size=3_000), st.integers(0, 3_000))
def test_clipping_never_makes_a_part_longer_or_costlier(value: str, limit: int) -> None:
    for part in (text(value), result("call-1", value)):
        clipped = clip_part(part, limit)
        assert clipped is part or len(shown(clipped)) < len(shown(part))
        assert shown(clipped).startswith(value[: min(limit, len(value)) // 2])
    assert estimate_part(clip_part(text("x" * len(value)), limit)) <= estimate_part(text("x" * len(value)))


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=6), st.integers(0, 600))
def test_clipped_arguments_are_a_json_object_and_never_longer(values: dict[str, object], limit: int) -> None:
    arguments = orjson.dumps(values).decode()
    clipped = clip_arguments(arguments, limit)
    assert isinstance(orjson.loads(clipped), dict)
    assert len(clipped) <= len(arguments)


@given(st.text(max_size=2_000), st.integers(0, 600))
def test_clipping_broken_arguments_gives_a_json_object_or_leaves_them(arguments: str, limit: int) -> None:
    clipped = clip_arguments(arguments, limit)
    assert clipped == arguments or isinstance(orjson.loads(clipped), dict)


@given(st.text(alphabet="ab\n", min_size=200, max_size=3_000), st.integers(0, 500), st.integers(0, 500))
def test_a_shorter_clip_shows_no_more(value: str, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert len(clip_text(value, small)) <= len(clip_text(value, large)) + 3
