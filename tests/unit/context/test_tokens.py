from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.tokens import (
    SIGNATURE_TOKENS,
    Calibration,
    counted_tokens,
    estimate_part,
    estimate_text,
    estimate_tools,
    image_tokens,
)
from app.llm.base import ToolSchema
from app.messages import Part, Role

from .builders import assistant, call, estimate_message, image, marker, message, reasoning, result, text, user


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("x" * 4000, 1000),
        ("日本語", 3),
        ("abcde日本", 4),
        ("é", 1),
        ("👍", 1),
    ],
)
def test_ascii_is_a_quarter_and_the_rest_a_whole_token(value: str, tokens: int) -> None:
    assert estimate_text(value) == tokens


def test_a_lone_surrogate_is_a_character_like_any_other() -> None:
    assert estimate_text("abcd\ud800") == 2


@given(st.text(), st.text())
def test_joining_two_texts_saves_at_most_one_token(a: str, b: str) -> None:
    apart = estimate_text(a) + estimate_text(b)
    assert apart - 1 <= estimate_text(a + b) <= apart


@given(st.text())
def test_a_longer_text_is_never_estimated_smaller(value: str) -> None:
    sizes = [estimate_text(value[:n]) for n in range(len(value) + 1)]
    assert all(shorter <= longer for shorter, longer in pairwise(sizes))


def test_text_and_reasoning_count_as_their_text() -> None:
    assert estimate_part(text("x" * 40)) == 10
    assert estimate_part(reasoning("x" * 40, data={"signature": "s" * 400})) == 10


def test_withheld_reasoning_counts_by_the_providers_block() -> None:
    assert estimate_part(reasoning("", data={"data": "x" * 400})) == pytest.approx(100, abs=5)
    assert estimate_part(reasoning("")) == 1


def test_a_signature_far_larger_than_its_text_counts_too() -> None:
    signature = "x" * 4 * SIGNATURE_TOKENS
    assert estimate_part(reasoning("a few words", data={"signature": signature[:-100]})) == 3
    more = {"signature": signature + "x" * 400_000}
    assert estimate_part(reasoning("a few words", data=more)) == pytest.approx(100_000, abs=10)


def test_a_call_counts_its_id_its_name_and_its_arguments() -> None:
    bare = estimate_part(call("c", "n", ""))
    assert bare == estimate_part(call("c", "n", "{}"))
    assert estimate_part(call("c", "n", "{" + "x" * 400 + "}")) == bare + 100
    assert estimate_part(call("c" * 41, "n", "")) == bare + 10
    assert estimate_part(call("c", "n" * 41, "")) == bare + 10


def test_a_result_counts_as_json_with_its_escapes() -> None:
    plain = estimate_part(result("c", "x" * 400))
    assert estimate_part(result("c", "\n" * 400)) == plain + 100
    assert estimate_part(result("c", "日" * 400)) == plain + 300


def test_a_result_with_a_lone_surrogate_can_be_counted() -> None:
    assert estimate_part(result("c", "\udc80日")) > 2


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (None, None, 1600),
        (100, None, 1600),
        (0, 0, 1600),
        (750, 1, 1),
        (200, 200, 54),
        (1000, 1000, 1334),
        (9000, 9000, 1600),
    ],
)
def test_an_image_counts_by_its_pixels(width: int | None, height: int | None, tokens: int) -> None:
    assert estimate_part(image(width, height)) == tokens


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1, 1, 85 + 170),
        (512, 512, 85 + 170),
        (1_024, 1_024, 85 + 4 * 170),
        (2_048, 4_096, 85 + 6 * 170),
        (9_000, 100, 85 + 4 * 170),
        (None, None, 85 + 8 * 170),
    ],
)
def test_for_openai_models_an_image_counts_by_its_tiles(width: int | None, height: int | None, tokens: int) -> None:
    for model in ("openai/gpt-5", "openrouter/openai/gpt-4o", "azure/o3"):
        assert image_tokens(image(width, height), model) == tokens


@pytest.mark.parametrize(
    ("width", "height", "older", "newer"),
    [
        (1, 1, 1, 1),
        (200, 200, 64, 64),
        (1_000, 1_000, 1_296, 1_296),
        (1_568, 784, 56 * 28, 56 * 28),
        (2_000, 1_500, 1_600, 72 * 54),
        (9_000, 9_000, 1_600, 4_784),
        (9_000, 90, 56, 92),
        (None, None, 1_600, 4_784),
    ],
)
def test_for_claude_an_image_counts_by_its_patches(width: int, height: int, older: int, newer: int) -> None:
    assert image_tokens(image(width, height), "anthropic/claude-sonnet-4-5") == older
    for model in ("anthropic/claude-opus-4-7", "bedrock/us.anthropic.claude-sonnet-5-5"):
        assert image_tokens(image(width, height), model) == newer


def test_for_all_other_models_it_counts_by_its_pixels() -> None:
    for model in ("local/qwen-vl", ""):
        assert image_tokens(image(750, 100), model) == 100


def test_an_image_never_counts_by_its_bytes() -> None:
    assert estimate_part(image(200, 200, "A" * 1_000_000)) == estimate_part(image(200, 200, "A"))


def test_a_compaction_marker_costs_nothing() -> None:
    assert estimate_part(marker()) == 0


def test_a_message_is_its_parts_and_a_constant() -> None:
    parts: tuple[Part, ...] = (text("x" * 40), call("a"), call("b"))
    whole = estimate_message(assistant(1, *parts))
    assert whole == 4 + sum(map(estimate_part, parts))
    assert counted_tokens(assistant(1, *parts), per_message=2) == whole - 2
    assert estimate_message(message(Role.USER, 1)) == 4


def test_a_stored_count_is_reused() -> None:
    stored = message(Role.USER, 1, text("x" * 40).model_copy(update={"tokens": 7}), text("x" * 40))
    assert counted_tokens(stored) == 4 + 7 + 10
    assert estimate_message(stored) == 4 + 10 + 10
    assert counted_tokens(user(1, "x" * 40), per_message=2) == 12


def test_tools_count_as_their_schemas() -> None:
    schema = ToolSchema("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    longer = ToolSchema(schema.name, schema.description + "x" * 400, schema.parameters)
    assert estimate_tools([]) == 0
    assert estimate_tools([longer]) == estimate_tools([schema]) + 100
    assert estimate_tools([schema, longer]) == estimate_tools([schema]) + estimate_tools([longer])
    assert estimate_tools([schema]) > estimate_text("read_file" + "Reads a file.")


def test_calibration_starts_by_kind() -> None:
    assert Calibration.starting("openai").factor == 1.0
    assert Calibration.starting("anthropic").factor == 1.1
    assert Calibration() == Calibration.starting("scripted")


def test_calibration_follows_the_newest_large_prompt() -> None:
    calibration = Calibration.starting("openai").observe(1000, 1500)
    assert calibration.factor == 1.5
    assert calibration.observe(10_000, 12_000).factor == 1.2


@pytest.mark.parametrize(("estimated", "reported"), [(900, 999), (0, 5000), (-1, 5000), (5000, 0)])
def test_small_or_invalid_samples_teach_nothing(estimated: int, reported: int) -> None:
    calibration = Calibration(1.3)
    assert calibration.observe(estimated, reported) is calibration


@given(st.integers(1, 10**7), st.integers(1000, 10**7))
def test_calibration_is_clamped(estimated: int, reported: int) -> None:
    assert 0.5 <= Calibration().observe(estimated, reported).factor <= 3.0


@given(st.integers(1, 10**6), st.integers(1000, 10**6))
def test_an_observed_prompt_is_predicted(estimated: int, reported: int) -> None:
    calibration = Calibration().observe(estimated, reported)
    if 0.5 < calibration.factor < 3.0:
        assert reported <= calibration.apply(estimated) <= reported + 1


def test_apply_rounds_up() -> None:
    assert Calibration(1.1).apply(1) == 2
    assert Calibration(0.5).apply(3) == 2
    assert Calibration(1.0).apply(0) == 0
