"""Prompts that a server silently truncated: what reveals them, and what does not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.prompts import Generation
from app.context.tokens import counted_tokens
from app.context.truncation import (
    ADDED_SHARE,
    FALL,
    LEAST_JUDGED,
    WHOLE_SHARE,
    LeastTokens,
    PromptCounts,
    Sent,
    least_added,
    may_shrink,
)
from app.messages import Message, ReasoningPart, Role, Usage
from tests.unit.context import builders as b

GENERATION = Generation("g", 1, "acme/one", "xy" * 200, (), 1)


def report(prompt: int, wrote: int = 100) -> Usage:
    """A prompt of `prompt` tokens, half of them cached."""
    return Usage(input_tokens=prompt - prompt // 2, cache_read_tokens=prompt // 2, output_tokens=wrote)


def after(*prompts: tuple[int, int]) -> PromptCounts:
    """The counts after prompts of these sizes, as reported and estimated."""
    counts = PromptCounts()
    for number, (counted, estimated) in enumerate(prompts, 1):
        counts = counts.with_report(report(counted), Sent(estimated, number))
    return counts


def cut(
    counts: PromptCounts, prompt: int, estimated: int, least: int | None = None, *, known_window: bool = False
) -> bool:
    """Whether the next prompt counts as truncated; without a `least` nothing may be recounted."""

    def counted(since: int) -> int:
        assert least is not None, "nothing is recounted if the estimate decides"
        assert since == counts.largest_sent.messages
        return least

    return counts.show_cut(report(prompt), Sent(estimated, 9), counted, known_window=known_window)


class TestASmallerCount:
    @pytest.mark.parametrize(("prompt", "found"), [(9_499, True), (9_501, False), (10_001, False), (11_000, False)])
    def test_is_a_cut_whatever_was_added(self, prompt: int, found: bool) -> None:
        assert cut(after((10_000, 9_000)), prompt, 11_000, 0) == found

    @pytest.mark.parametrize(("prompt", "found"), [(4_999, True), (5_001, False), (9_400, False)])
    def test_must_be_half_of_it_if_the_window_is_known(self, prompt: int, found: bool) -> None:
        assert cut(after((10_000, 9_000)), prompt, 11_000, 0, known_window=True) == found

    def test_is_measured_by_the_largest(self) -> None:
        counts = after((10_000, 9_000), (9_800, 10_000), (9_600, 11_000))
        assert cut(counts, 9_499, 12_000, 0)
        assert not cut(counts, 9_550, 12_000, 0)

    def test_means_nothing_for_a_small_prompt(self) -> None:
        counts = after((2_900, 2_000))
        assert not cut(counts, 500, LEAST_JUDGED - 1)
        assert cut(counts, 500, LEAST_JUDGED, 0)

    def test_of_zero_is_no_report(self) -> None:
        assert not cut(after((10_000, 9_000)), 0, 11_000)


class TestTooLittleGrowth:
    @pytest.mark.parametrize(("least", "found"), [(1_601, True), (1_599, False), (0, False)])
    def test_is_a_cut_by_what_was_added(self, least: int, found: bool) -> None:
        assert (1 - FALL) * 10_000 + ADDED_SHARE * 1_600 == 9_900
        assert cut(after((10_000, 9_000)), 9_900, 12_000, least) == found

    def test_is_judged_by_the_estimate_if_that_is_enough(self) -> None:
        assert not cut(after((10_000, 9_000)), 10_001, 11_000)


class TestTheSameCount:
    def test_of_a_prompt_that_grew_is_a_cut(self) -> None:
        counts = after((8_000, 7_000), (8_192, 9_000))
        assert cut(counts, 8_192, 9_010)
        assert not cut(counts, 8_193, 9_010)

    def test_of_the_same_prompt_is_none(self) -> None:
        assert not cut(after((8_192, 9_000)), 8_192, 9_000)

    def test_equal_to_an_earlier_one_may_be_chance(self) -> None:
        assert not cut(after((8_000, 7_000), (8_192, 9_000)), 8_000, 9_100)


class TestTheFirstCount:
    @pytest.mark.parametrize(("prompt", "found"), [(4_499, True), (4_501, False)])
    def test_is_a_cut_far_below_the_prompts_minimum(self, prompt: int, found: bool) -> None:
        assert cut(PromptCounts(), prompt, 12_000, 10_000) == found

    def test_is_none_if_only_the_estimate_is_high(self) -> None:
        assert not cut(PromptCounts(), 3_000, 12_000, 3_300)

    def test_near_the_estimate_nothing_is_recounted(self) -> None:
        assert not cut(PromptCounts(), int(WHOLE_SHARE * 12_000), 12_000)


def test_what_certainly_fits() -> None:
    assert PromptCounts().known_to_fit(report(4_000, 50)) == 4_050
    assert after((8_000, 7_000), (7_900, 8_000)).known_to_fit(report(5_000, 50)) == 8_100
    assert after((4_000, 7_000)).known_to_fit(report(4_090, 50)) == 4_140


class TestLeast:
    @pytest.mark.parametrize(
        ("text", "least"),
        [
            ("word " * 400, 500),
            ("слово " * 400, 600),
            ("数据" * 400, 200),
            (" " * 4_000, 0),
            ("=" * 4_000 + "─" * 4_000 + "\n" * 4_000 + "x" * 4_000, 1),
            ("  aa\n" * 400, 500),
            ("", 0),
        ],
    )
    def test_of_a_text(self, text: str, least: int) -> None:
        messages = [b.user(1, text), b.assistant(2, b.call("c")), b.tool(3, b.result("c", text))]
        arguments = len(messages[1].tool_calls[0].arguments_text) // 4
        assert least_added(messages) == 2 * least + arguments
        assert LeastTokens(GENERATION).since(0, messages) == 100 + least_added(messages)

    def test_each_added_message_is_read_once(self) -> None:
        messages: list[Message] = []
        least = LeastTokens(GENERATION)
        for number in range(1, 6):
            messages.append(b.user(number, "word " * 40 * number))
            assert least.since(0, messages) == 100 + least_added(messages)
            assert least.since(number - 1, messages) == least_added(messages[-1:]) + (100 if number == 1 else 0)
        assert least.since(0, [b.user(1, ""), *messages[1:]]) == 100 + least_added(messages), (
            "the first is not read again"
        )

    def test_images_and_reasoning_may_cost_nothing(self) -> None:
        assert least_added([b.assistant(2, b.reasoning("xy" * 200)), b.message(Role.USER, 3, b.image())]) == 0

    @given(text=st.text(max_size=400))
    def test_is_never_above_the_estimate(self, text: str) -> None:
        message = b.user(1, text)
        assert LeastTokens(GENERATION).since(0, [message]) <= GENERATION.fixed_tokens + counted_tokens(message)


@pytest.mark.parametrize(
    ("role", "thought", "shrinks"),
    [
        (Role.USER, True, True),
        (Role.CONTROL, True, True),
        (Role.TOOL, True, False),
        (Role.ASSISTANT, True, False),
        (Role.USER, False, False),
    ],
)
def test_a_new_user_message_may_drop_reasoning(role: Role, thought: bool, shrinks: bool) -> None:
    parts = (b.reasoning("hm"), b.text("Well.")) if thought else (b.text("Well."),)
    history: Sequence[Message] = [b.user(1), b.assistant(2, *parts)]
    assert any(isinstance(part, ReasoningPart) for message in history for part in message.parts) == thought
    assert may_shrink(history, b.message(role, 3, b.text("More."))) == shrinks


def test_so_it_may_if_the_reasoning_is_in_the_text() -> None:
    history = [b.user(1), b.assistant(2, b.text("<think>hm</think>Well."))]
    assert may_shrink(history, b.user(3))


@given(seed=st.integers(), differ=st.floats(0, 0.9 * FALL))
def test_a_conversation_read_whole_is_never_taken_for_a_truncated_one(seed: int, differ: float) -> None:
    """Whatever its tokenizer makes of each text, and even if two servers that count differently alternate."""
    rng = random.Random(seed)
    first = rng.randint(1_000, 100_000)
    counts, counted, estimated, least = PromptCounts(), first, first, [first]
    for number in range(1, 40):
        prompt = int(counted * (1 - differ * (number % 2))) + number
        # Two successive prompts that happen to have the same count look like a truncated one.
        prompt += prompt == counts.last.prompt_tokens
        sent = Sent(estimated, number)
        assert not counts.show_cut(report(prompt), sent, lambda since: sum(least[since:]), known_window=False)
        counts = counts.with_report(report(prompt), sent)
        added = rng.randint(1, 20_000)
        least.append(int(added * rng.random()))
        counted, estimated = counted + 30 + int(least[-1] * rng.uniform(ADDED_SHARE, 6)), estimated + added


@given(window=st.integers(4_096, 32_768), seed=st.integers(), keeps=st.floats(0.5, 1.0))
def test_a_truncated_prompt_is_detected(window: int, seed: int, keeps: float) -> None:
    """Between a share of the window and all of it is left of the prompt."""
    rng = random.Random(seed)
    counts, size, found, least = PromptCounts(), 2_900, 0, [2_900]
    for number in range(1, 80):
        left = size if size <= window else int(window * rng.uniform(keeps, 1))
        if counts.show_cut(report(left), Sent(size, number), lambda since: sum(least[since:]), known_window=False):
            found = size
            break
        counts = counts.with_report(report(left), Sent(size, number))
        added = rng.randint(1_000, 6_000)
        least.append(int(0.9 * added))
        size += added
    assert window < found <= 2 * window + 2 * 6_000
    assert counts.known_to_fit(report(1)) <= window + 100
