from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.budget import Budget, context_state, context_tokens, less_output, make_budget, trigger
from app.context.policies import POLICIES, resolve
from app.llm.base import UNKNOWN_PRICES, ModelInfo, WindowSource
from app.messages import Usage

REACTIVE = resolve("reactive")


def info(window: int = 128_000, longest: int | None = None, source: WindowSource = "catalog") -> ModelInfo:
    return ModelInfo(
        name="openai/m",
        provider="openai",
        context_window=window,
        window_source=source,
        max_output_tokens=longest,
        prices=UNKNOWN_PRICES,
        key_present=True,
    )


@pytest.mark.parametrize(
    ("window", "longest", "output", "safety"),
    [
        (128_000, None, 32_000, 2_560),
        (128_000, 16_384, 16_384, 2_560),
        (200_000, 64_000, 32_000, 4_000),
        (1_000_000, 8_192, 8_192, 20_000),
        (65_536, None, 16_384, 1_310),
    ],
)
def test_reserves_follow_from_model_and_window(window: int, longest: int | None, output: int, safety: int) -> None:
    assert make_budget(info(window, longest), REACTIVE) == Budget(
        limit=window, output_reserve=output, safety_buffer=safety, usable=window - output - safety, source="catalog"
    )


def test_settings_override_the_rule_but_not_the_models_maximum() -> None:
    settings = resolve({"output_reserve": 10_000, "safety_buffer": 1_000})
    budget = make_budget(info(), settings)
    assert (budget.output_reserve, budget.safety_buffer, budget.usable) == (10_000, 1_000, 117_000)
    assert make_budget(info(longest=4_096), settings).output_reserve == 4_096


def test_large_reserves_are_honored_while_something_is_left() -> None:
    assert make_budget(info(), resolve({"output_reserve": 100_000})).usable == 25_440
    assert make_budget(info(), resolve({"output_reserve": 500_000})).usable == pytest.approx(12_800, abs=2)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", [1_024, 2_048, 4_096, 8_192, 32_768])
def test_in_small_windows_all_reserves_share_a_quarter(policy: str, window: int) -> None:
    budget = make_budget(info(window), resolve(policy))
    assert budget.small
    assert budget.output_reserve + budget.safety_buffer + budget.system_reserve <= window // 4
    assert budget.usable >= window * 3 // 4


def test_a_window_above_the_small_ones_is_divided_by_the_settings() -> None:
    budget = make_budget(info(32_769), resolve("threshold"))
    assert not budget.small
    assert (budget.output_reserve, budget.safety_buffer, budget.system_reserve) == (4_000, 5_000, 2_000)


extremes: dict[str, st.SearchStrategy[Any]] = {
    "output_reserve": st.none() | st.integers(1, 10**8),
    "safety_buffer": st.none() | st.integers(0, 10**8),
    "system_reserve": st.integers(0, 10**8),
    "handoff_threshold": st.integers(0, 10**8),
    "threshold_percent": st.floats(0.01, 1),
}


@given(
    st.integers(1_024, 2_000_000),
    st.none() | st.integers(1, 200_000),
    st.sampled_from(POLICIES),
    st.fixed_dictionaries({}, optional=extremes),
    st.none() | st.integers(0, 3_000_000),
)
def test_any_window_leaves_room_for_a_context_and_an_answer(
    window: int, longest: int | None, policy: str, changes: dict[str, Any], learned: int | None
) -> None:
    settings = resolve({"policy": policy, **changes})
    budget = make_budget(info(window, longest), settings, learned)
    assert 0 < budget.usable < budget.limit
    assert budget.output_reserve >= 1
    assert budget.limit == budget.usable + budget.output_reserve + budget.safety_buffer
    assert 0 < trigger(budget, settings) <= budget.usable


def test_threshold_is_due_at_93600_of_128000() -> None:
    settings = resolve("threshold")
    assert trigger(make_budget(info(), settings), settings) == 93_600


def test_handoff_is_due_at_its_own_threshold_or_when_the_window_is_full() -> None:
    settings = resolve("handoff")
    assert trigger(make_budget(info(1_000_000), settings), settings) == 200_000
    small = make_budget(info(128_000), settings)
    assert trigger(small, settings) == small.usable
    off = resolve({"policy": "handoff", "handoff_threshold": 0})
    large = make_budget(info(1_000_000), off)
    assert trigger(large, off) == large.usable


def test_reactive_waits_until_the_window_is_full() -> None:
    budget = make_budget(info(), REACTIVE)
    assert trigger(budget, REACTIVE) == budget.usable == 93_440


@pytest.mark.parametrize("source", ["catalog", "assumed"])
@pytest.mark.parametrize("learned", [8_192, 300_000])
def test_a_limit_named_by_the_provider_is_the_limit(source: WindowSource, learned: int) -> None:
    budget = make_budget(info(source=source), REACTIVE, learned)
    assert (budget.limit, budget.source) == (learned, "learned")


@pytest.mark.parametrize("source", ["setting", "server"])
def test_a_learned_limit_only_lowers_an_operators_or_servers(source: WindowSource) -> None:
    below = make_budget(info(16_000, source=source), REACTIVE, 8_192)
    assert (below.limit, below.source) == (8_192, "learned")
    above = make_budget(info(16_000, source=source), REACTIVE, 128_000)
    assert (above.limit, above.source) == (16_000, source)


@pytest.mark.parametrize("learned", [None, 0, 400, 1_023])
def test_a_number_too_small_for_a_window_is_not_learned(learned: int | None) -> None:
    budget = make_budget(info(), REACTIVE, learned)
    assert (budget.limit, budget.source) == (128_000, "catalog")


def test_the_context_is_the_report_plus_what_came_after() -> None:
    usage = Usage(
        input_tokens=100, cache_read_tokens=1_000, cache_write_tokens=10, output_tokens=50, reasoning_tokens=20
    )
    assert context_tokens(usage, 7) == 1_167


def test_without_a_report_the_estimate_is_used() -> None:
    assert context_tokens(None, 1_234) == 1_234
    assert context_tokens(Usage(), 1_234) == 1_234


def test_the_public_figure_names_its_source() -> None:
    budget = make_budget(info(), REACTIVE)
    state = context_state(budget, 500, reported=True)
    assert (state.tokens, state.limit, state.usable, state.source) == (500, 128_000, 93_440, "reported")
    assert context_state(budget, 500, reported=False).source == "estimated"


def test_a_guessed_window_is_called_assumed_until_the_real_one_is_learned() -> None:
    guessed = info(source="assumed")
    assert context_state(make_budget(guessed, REACTIVE), 500, reported=True).source == "assumed"
    learned = make_budget(guessed, REACTIVE, 8_192)
    assert context_state(learned, 500, reported=True).source == "reported"


@pytest.mark.parametrize(
    ("prompt", "less"),
    [
        (15_600, 4_000),
        (14_601, 4_999),
        (14_600, None),
        (18_576, 1_024),
        (18_577, None),
        (25_000, None),
    ],
)
def test_less_output_is_what_a_counted_prompt_leaves(prompt: int, less: int | None) -> None:
    budget = Budget(limit=20_000, output_reserve=5_000, safety_buffer=400, usable=14_600, source="setting")
    assert less_output(budget, 20_000, prompt) == less


def test_if_little_was_requested_a_quarter_of_it_is_enough() -> None:
    budget = Budget(limit=8_000, output_reserve=1_000, safety_buffer=160, usable=6_840, source="setting")
    assert less_output(budget, 8_000, 7_590) == 250
    assert less_output(budget, 8_000, 7_591) is None
    assert less_output(budget, 8_000, 6_840) is None, "as much as before is no help"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", [2_048, 3_072, 4_096, 8_192])
def test_the_smallest_windows_leave_room_for_an_answer_and_for_work(policy: str, window: int) -> None:
    budget = make_budget(info(window), resolve(policy))
    assert budget.lean
    assert budget.output_reserve >= 256
    fixed = 700 if window < 3_072 else 1_100
    assert fixed + budget.facts + budget.summary_cap(4_000) + budget.step_output < budget.usable


def test_a_window_above_the_smallest_has_the_usual_shares() -> None:
    budget = make_budget(info(8_193), REACTIVE)
    assert not budget.lean
    assert (budget.step_output, budget.facts) == (budget.usable // 4, budget.usable // 4)
    assert budget.summary_cap(4_000) == 4_000
