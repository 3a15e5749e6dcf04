from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.budget import PruneBounds, TailBounds, prune_bounds, tail_bounds
from app.context.policies import resolve
from app.context.selection import after_last_summary, cuts, first_unseen, is_request, recent_start, tail_start
from app.context.tokens import counted_tokens
from app.messages import Message, Role

from .builders import (
    any_history,
    assistant,
    budget_of,
    call,
    control,
    image,
    long_step,
    long_task,
    message,
    result,
    step,
    summary_of,
    text,
    tool,
    user,
    working_histories,
)

REACTIVE = resolve("seed-reactive")


@pytest.mark.parametrize(
    ("usable", "least", "most"),
    [
        (200_000, 15_000, 80_000),
        (60_000, 15_000, 24_000),
        (20_000, 5_000, 8_000),
        (6_000, 2_000, 2_400),
        (1_000, 400, 400),
    ],
)
def test_with_clearing_the_tail_is_a_quarter_of_usable_within_bounds(usable: int, least: int, most: int) -> None:
    assert tail_bounds(budget_of(usable), REACTIVE) == TailBounds(least, most)


@pytest.mark.parametrize(
    ("usable", "least", "most"),
    [
        (200_000, 6_000, 80_000),
        (60_000, 4_800, 24_000),
        (20_000, 2_000, 8_000),
        (6_000, 2_000, 2_400),
        (1_000, 400, 400),
    ],
)
def test_by_default_the_tail_is_small(usable: int, least: int, most: int) -> None:
    assert tail_bounds(budget_of(usable), resolve("reactive")) == TailBounds(least, most)


def test_the_minimum_tail_is_a_setting_and_never_above_the_maximum() -> None:
    assert tail_bounds(budget_of(100_000), resolve({"tail_tokens": 30_000})) == TailBounds(30_000, 40_000)
    assert tail_bounds(budget_of(100_000), resolve({"tail_tokens": 90_000})) == TailBounds(40_000, 40_000)
    assert tail_bounds(budget_of(100_000), resolve({"tail_tokens": 0})) == TailBounds(0, 40_000)


def test_prune_settings_that_were_given_are_never_lowered() -> None:
    assert prune_bounds(budget_of(6_000), resolve({"prune_minimum": 100_000_000})).minimum == 100_000_000
    assert prune_bounds(budget_of(6_000), resolve({"prune_protect": 40_000})) == PruneBounds(40_000, 900)


def test_prune_defaults_are_lowered_if_they_would_leave_nothing_to_clear() -> None:
    assert prune_bounds(budget_of(93_440), REACTIVE) == PruneBounds(40_000, 20_000)
    assert prune_bounds(budget_of(80_000), REACTIVE) == PruneBounds(40_000, 20_000)
    assert prune_bounds(budget_of(60_000), REACTIVE) == PruneBounds(18_000, 9_000)
    assert prune_bounds(budget_of(24_000, limit=32_000), REACTIVE) == PruneBounds(7_200, 3_600)
    low = resolve({"prune_protect": 100, "prune_minimum": 50})
    assert prune_bounds(budget_of(24_000, limit=32_000), low) == PruneBounds(100, 50)


def test_a_turn_begins_with_the_users_own_message() -> None:
    assert is_request(user(1))
    assert is_request(message(Role.USER, 1, image()))
    assert not is_request(message(Role.USER, 1, result("a")))
    assert not any(map(is_request, [control(1), summary_of(1, 2), assistant(3, text("x")), tool(4, result("a"))]))


def test_a_conversation_may_be_cut_anywhere_but_inside_a_batch() -> None:
    assert cuts([]) == [0]
    assert cuts([user(1), *step(2, "a", "b"), control(4), *step(5, "c")]) == [0, 1, 3, 4, 6]


def test_a_misplaced_result_prevents_cuts_before_it() -> None:
    late = [assistant(2, call("a")), user(3), *step(4, "b"), tool(6, result("a")), user(7)]
    assert cuts([user(1), *late]) == [0, 1, 6, 7]


def test_an_id_used_twice_belongs_to_the_nearest_call() -> None:
    assert cuts([user(1), *step(2, "a"), *step(4, "a"), user(6)]) == [0, 1, 3, 5, 6]


def test_unseen_messages_begin_at_the_models_calls_or_after_its_answer() -> None:
    assert first_unseen([]) == 0
    assert first_unseen([user(1), user(2)]) == 0
    assert first_unseen([user(1), *step(2, "a"), user(4)]) == 1
    assert first_unseen([user(1), assistant(2, text("done")), user(3), user(4)]) == 2
    assert first_unseen([user(1), assistant(2, text("done"))]) == 1


def test_the_newest_summary_counts() -> None:
    assert after_last_summary([user(1)]) == 0
    assert after_last_summary([user(1), summary_of(1, 2), user(3), summary_of(2, 4, Role.ASSISTANT), user(5)]) == 4


def test_only_a_tail_is_filled_up_and_not_recent_turns() -> None:
    history = [*long_task(10, 100), user(22), *step(23, "z")]
    bounds = TailBounds(500, 1_000)
    assert recent_start(history, 1, bounds) == 21
    assert tail_start(history, 1, bounds) == 13


def test_a_step_that_would_make_the_tail_too_large_is_left_out() -> None:
    history = [user(1), *long_step(2, "a", 5_000), user(4), *step(5, "b")]
    assert tail_start(history, 1, TailBounds(500, 1_000)) == 3


@given(st.one_of(working_histories(), any_history))
def test_every_cut_leaves_calls_with_their_results(history: list[Message]) -> None:
    places = cuts(history)
    assert (places[0], places[-1]) == (0, len(history))
    assert all(one < other for one, other in pairwise(places))
    for place in places[1:-1]:
        before, after = history[:place], history[place:]
        assert after[0].role is not Role.TOOL
        answered_later = {r.call_id for m in after for r in m.tool_results} - {
            c.call_id for m in after for c in m.tool_calls
        }
        open_before = {c.call_id for m in before for c in m.tool_calls} - {
            r.call_id for m in before for r in m.tool_results
        }
        assert open_before.isdisjoint(answered_later)


@given(working_histories(), st.integers(0, 4), st.integers(0, 3_000), st.integers(0, 3_000))
def test_a_tail_has_its_size_unless_the_unseen_is_larger(
    history: list[Message], turns: int, one: int, other: int
) -> None:
    bounds = TailBounds(*sorted((one, other)))
    shown = [m for m in history if m.voided_at is None and m.parts]
    start = tail_start(shown, turns, bounds)
    size, unseen = sum(map(counted_tokens, shown[start:])), first_unseen(shown)
    assert start in cuts(shown)
    assert start <= unseen
    assert start <= recent_start(shown, turns, bounds)
    assert size <= bounds.most or start == unseen
    if start and size < bounds.least:
        earlier = max(place for place in cuts(shown) if place < start)
        assert sum(map(counted_tokens, shown[earlier:])) > bounds.most
