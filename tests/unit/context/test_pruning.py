from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.policies import CompactionSettings, resolve
from app.context.projection import project
from app.context.shrinking import PruneBatch, may_do, select_prunable
from app.context.tokens import estimate_part
from app.messages import Message, ToolStatus

from .builders import (
    assistant,
    budget_of,
    call,
    control,
    generation,
    long_step,
    long_task,
    result,
    summary_of,
    tool,
    user,
    working_histories,
)

BUDGET = budget_of(100_000)
SETTINGS = resolve({"prune_protect": 10_000, "prune_minimum": 5_000})


def prune(messages: list[Message], pruned: frozenset[str] = frozenset(), **changes: Any) -> PruneBatch | None:
    return select_prunable(messages, resolve(changes, SETTINGS), BUDGET, pruned)


def turns(*sizes: int, first_seq: int = 1) -> list[Message]:
    """A turn with one step for each size of output; turn n has call `t<n>`."""
    found: list[Message] = []
    for number, size in enumerate(sizes, 1):
        seq = first_seq + 3 * (number - 1)
        found += [user(seq), *long_step(seq + 1, f"t{number}", size)]
    return found


def test_outputs_older_than_the_newest_turns_and_the_protected_tokens_are_cleared() -> None:
    batch = prune(turns(4_000, 4_000, 6_000, 6_000, 6_000, 6_000))
    assert batch is not None
    assert batch.call_ids == ("t3", "t2", "t1")
    assert batch.tools == ("execute_command",)
    assert 13_900 < batch.tokens_saved < 14_000
    assert 32_000 < batch.tokens_before < 32_200


def test_the_saving_is_what_the_projection_loses() -> None:
    history = turns(4_000, 4_000, 6_000, 6_000, 6_000, 6_000)
    batch = prune(history)
    assert batch is not None
    full = project(history, generation())
    cleared = project(history, generation(), pruned=frozenset(batch.call_ids))
    assert full.tokens - cleared.tokens == batch.tokens_saved


def test_the_newest_turns_are_protected_however_many_outputs_they_have() -> None:
    history = [user(1), *long_step(2, "a", 9_000), user(4), *long_step(5, "b", 9_000), *long_step(7, "c", 9_000)]
    assert prune(history, prune_protect=0, prune_minimum=0) is None
    batch = prune(history, prune_protect=0, prune_minimum=0, min_turns_to_keep=1)
    assert batch is not None
    assert batch.call_ids == ("a",)


def test_in_one_long_turn_only_the_protected_tail_of_steps_is_kept() -> None:
    batch = prune(long_task(30, 2_000))
    assert batch is not None
    # 15,000 tokens of tail are 8 steps of 2,010; of the other 22, the newest 4 are within the protected 10,000.
    assert batch.call_ids == tuple(f"c{n}" for n in range(18, 0, -1))


def test_control_messages_begin_no_turn() -> None:
    history = [user(1), *long_step(2, "a", 9_000), control(4), *long_step(5, "b", 9_000), control(7)]
    assert prune(history, prune_protect=0, prune_minimum=0, min_turns_to_keep=1) is None


def test_nothing_is_cleared_for_less_than_the_minimum() -> None:
    history = turns(4_000, 4_000, 6_000, 6_000, 6_000, 6_000)
    saved = 4_000 + 4_000 + 6_000
    assert prune(history, prune_minimum=saved) is None
    batch = prune(history, prune_minimum=saved - 100)
    assert batch is not None
    assert prune(history, prune_minimum=batch.tokens_saved) == batch
    assert prune(history, prune_minimum=batch.tokens_saved + 1) is None


def test_the_walk_stops_at_a_summary() -> None:
    old = [user(1), *long_step(2, "old", 50_000), summary_of(1, 4)]
    assert prune([*old, *turns(100, 100, first_seq=5)], prune_protect=0, prune_minimum=0) is None
    batch = prune([*old, *turns(9_000, 9_000, 9_000, 9_000, first_seq=5)], prune_protect=9_050, prune_minimum=0)
    assert batch is not None
    assert batch.call_ids == ("t1",)


@pytest.mark.parametrize("status", [s for s in ToolStatus if s is not ToolStatus.COMPLETED])
def test_results_that_did_not_complete_are_neither_cleared_nor_counted(status: ToolStatus) -> None:
    failed = [user(20), *long_step(21, "failed", 50_000, status=status)]
    history = [*turns(8_000, 8_000), *failed, *turns(10, 10, first_seq=30)]
    batch = prune(history, prune_minimum=0)
    assert batch is not None
    assert batch.call_ids == ("t1",)


@pytest.mark.parametrize("name", ["recall", "memory_read", "update_plan"])
def test_exempt_tools_are_neither_cleared_nor_counted(name: str) -> None:
    exempt = [user(20), assistant(21, call("e", name)), tool(22, result("e", "x" * 200_000, name=name))]
    batch = prune([*turns(8_000, 8_000), *exempt, *turns(10, 10, first_seq=30)], prune_minimum=0)
    assert batch is not None
    assert batch.call_ids == ("t1",)


def test_a_batch_is_cleared_once() -> None:
    history = turns(4_000, 4_000, 6_000, 6_000, 6_000, 6_000)
    first = prune(history)
    assert first is not None
    done = frozenset(first.call_ids)
    shown = project(history, generation(), pruned=done).messages
    assert prune(shown, done, prune_minimum=0) is None


def test_outputs_shorter_than_their_placeholder_are_left() -> None:
    history = [user(1), assistant(2, call("s"), call("l")), tool(3, result("s", "ok"), result("l", "x" * 9_000))]
    batch = prune([*history, *turns(10, 10, first_seq=4)], prune_protect=0, prune_minimum=0)
    assert batch is not None
    assert batch.call_ids == ("l",)


def test_parallel_results_are_cleared_one_by_one() -> None:
    wide = [user(1), assistant(2, call("a"), call("b")), tool(3, result("a", "x" * 24_000), result("b", "x" * 24_000))]
    batch = prune([*wide, *turns(10, 10, first_seq=4)], prune_protect=6_500, prune_minimum=0)
    assert batch is not None
    assert batch.call_ids == ("a",)


def test_in_a_small_window_the_numbers_follow_from_its_size() -> None:
    budget = budget_of(6_000, limit=8_000)
    history = turns(900, 900, 900, 900, 10, 10)
    assert select_prunable(history, resolve("seed-reactive"), budget_of(100_000), frozenset()) is None
    batch = select_prunable(history, resolve("seed-reactive"), budget, frozenset())
    assert batch is not None
    # 30 % of usable are 1,800 tokens, which the second of the four old outputs exceeds.
    assert batch.call_ids == ("t3", "t2", "t1")


@pytest.mark.parametrize(("growth", "may"), [(0, False), (3_000, False), (4_000, True)])
def test_future_outputs_make_older_ones_worth_clearing(growth: int, may: bool) -> None:
    # Three outputs are older than the newest turns. Of their tokens 10,000 are protected, minus those to come.
    history = turns(3_000, 3_000, 3_000, 10, 10)
    assert prune(history) is None
    assert may_do(history, SETTINGS, BUDGET, frozenset(), growth) is may


@pytest.mark.parametrize(("growth", "may"), [(14_999, False), (15_000, True)])
def test_future_outputs_may_be_worth_clearing_by_themselves(growth: int, may: bool) -> None:
    assert may_do([user(1)], SETTINGS, BUDGET, frozenset(), growth) is may


@pytest.mark.parametrize("limit", [8_000, 133_000])
def test_what_is_worth_clearing_now_still_is_later(limit: int) -> None:
    budget = budget_of(limit * 3 // 4, limit=limit)
    history = long_task(40, 2_000)
    assert select_prunable(history, resolve("seed-reactive"), budget, frozenset()) is not None
    assert all(
        may_do(history, resolve("seed-reactive"), budget, frozenset(), growth) for growth in range(0, 99_000, 3_000)
    )


def test_results_that_the_model_has_not_seen_are_never_cleared() -> None:
    history = [user(1), *long_step(2, "a", 9_000), *long_step(4, "b", 9_000)]
    settings = resolve({"prune_protect": 0, "prune_minimum": 0, "min_turns_to_keep": 0, "tail_tokens": 0})
    batch = select_prunable(history, settings, BUDGET, frozenset())
    assert batch is not None
    assert batch.call_ids == ("a",)


def test_an_empty_context_has_nothing_to_clear() -> None:
    assert prune([]) is None


@given(
    working_histories(),
    st.integers(0, 3_000),
    st.integers(0, 3_000),
    st.integers(0, 4),
    st.frozensets(st.sampled_from([f"call-{n}" for n in range(1, 9)])),
)
def test_a_batch_keeps_every_promise(
    history: list[Message], protect: int, minimum: int, keep: int, pruned: frozenset[str]
) -> None:
    settings = CompactionSettings(
        policy="reactive", prune_protect=protect, prune_minimum=minimum, min_turns_to_keep=keep, tail_tokens=500
    )
    shown = project(history, generation(), pruned=pruned)
    batch = select_prunable(shown.messages, settings, budget_of(8_000, limit=12_000), pruned)
    if batch is None:
        return
    assert pruned.isdisjoint(batch.call_ids)
    assert len(set(batch.call_ids)) == len(batch.call_ids)
    results = {part.call_id: part for message in history for part in message.tool_results}
    assert {results[id].status for id in batch.call_ids} == {ToolStatus.COMPLETED}
    assert batch.tokens_saved >= min(minimum, 1_200)
    after = project(history, generation(), pruned=pruned | set(batch.call_ids))
    assert shown.tokens - after.tokens == batch.tokens_saved
    newest = [p for m in reversed(shown.messages) for p in reversed(m.tool_results) if p.call_id not in pruned]
    spared = [part.call_id for part in newest].index(batch.call_ids[0])
    assert sum(map(estimate_part, newest[: spared + 1])) > min(protect, 2_400)
