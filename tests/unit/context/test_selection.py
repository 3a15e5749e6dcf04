from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.context.budget import Budget
from app.context.checkpoints import Checkpoint
from app.context.policies import POLICIES, resolve
from app.context.projection import project
from app.context.selection import Selection, select
from app.messages import Message, Role

from .builders import (
    AT,
    MODEL,
    assistant,
    budget_of,
    call,
    control,
    generation,
    ids,
    image,
    long_step,
    long_task,
    message,
    result,
    signed,
    step,
    summary_of,
    text,
    tool,
    user,
)

BUDGET = budget_of(100_000)
"""The tail has 15,000 to 40,000 tokens."""

SMALL = budget_of(6_000, limit=8_000)
"""The tail has 2,000 to 2,400 tokens."""


def reactive(
    history: Sequence[Message],
    checkpoints: Sequence[Checkpoint] = (),
    budget: Budget = BUDGET,
    pruned: frozenset[str] = frozenset(),
    urgent: bool = False,
    **changes: Any,
) -> Selection | None:
    return select(
        history, checkpoints, resolve({"clear_first": True, **changes}), budget, MODEL, pruned=pruned, urgent=urgent
    )


def threshold(history: Sequence[Message], checkpoints: Sequence[Checkpoint] = (), keep: int = 4) -> Selection | None:
    settings = resolve({"policy": "threshold", "recent_messages_to_keep": keep})
    return select(history, checkpoints, settings, BUDGET, MODEL)


def handoff(
    history: Sequence[Message], checkpoints: Sequence[Checkpoint] = (), task_id: str | None = None
) -> Selection | None:
    return select(history, checkpoints, resolve("handoff"), BUDGET, MODEL, task_id=task_id)


def made(selection: Selection, round: int, summary_id: str) -> Checkpoint:
    return Checkpoint(round, summary_id, selection.first_seq, selection.last_seq, selection.kept, selection.clips)


def shown(history: Sequence[Message], *checkpoints: Checkpoint) -> list[str]:
    return [m.id for m in project(history, generation(), checkpoints).messages]


# reactive


def test_a_short_conversation_has_nothing_old_enough() -> None:
    for history in ([], [user(1)], [user(1), *step(2, "a"), user(4), *step(5, "b")]):
        assert reactive(history) is None


def test_the_task_and_the_last_two_turns_stay() -> None:
    history = [user(1, "task"), *long_step(2, "a", 9_000), user(4), *long_step(5, "b", 9_000)]
    history += [user(7), *long_step(8, "c", 9_000), user(10), *long_step(11, "d", 9_000)]
    found = reactive(history)
    assert found is not None
    assert ids(found.tail) == ["m7", "m8", "m9", "m10", "m11", "m12"]
    assert found.kept == ("m1",)
    assert ids(found.covered) == ["m2", "m3", "m4", "m5", "m6"]
    assert (found.first_seq, found.last_seq, found.previous) == (1, 6, None)
    assert (found.task, found.latest_request) == (history[0], history[9])
    assert shown([*history, summary_of(1, 13)], made(found, 1, "m13")) == ["m1", "m13", *ids(found.tail)]


def test_a_tail_of_small_turns_grows_to_its_minimum_size_by_whole_steps() -> None:
    history = [*long_task(20, 2_000), user(42), assistant(43, text("ok")), user(44)]
    found = reactive(history)
    assert found is not None
    assert 15_000 <= sum(estimate(m) for m in found.tail) < 17_100
    assert found.tail[0].role is Role.ASSISTANT
    assert found.kept == ("m1",)


def estimate(shown: Message) -> int:
    return 4 + sum(len(part.model_dump_json()) // 4 for part in shown.parts if part.type == "tool_result")


def test_a_turn_larger_than_the_tail_is_cut_between_steps() -> None:
    history = long_task(30, 2_000)
    found = reactive(history)
    assert found is not None
    assert ids(found.tail) == [f"m{seq}" for seq in range(46, 62)]
    assert found.kept == ("m1",)
    assert found.latest_request is found.task is history[0]


def test_the_latest_request_of_a_long_turn_stays_next_to_the_task() -> None:
    history = [user(1, "task"), *step(2, "a"), user(4, "also this"), *(m for n in range(5, 65, 2) for m in big(n))]
    found = reactive(history)
    assert found is not None
    assert found.kept == ("m1", "m4")
    assert "m4" not in ids(found.covered)


def big(seq: int) -> list[Message]:
    return long_step(seq, f"b{seq}", 2_000)


def test_the_size_of_the_tail_is_a_setting() -> None:
    found = reactive(long_task(30, 2_000), tail_tokens=4_000)
    assert found is not None
    assert ids(found.tail) == ["m58", "m59", "m60", "m61"]


def test_results_that_the_model_has_not_seen_stay_however_large() -> None:
    history = long_task(5, 9_000)
    found = reactive(history, budget=SMALL)
    assert found is not None
    assert ids(found.tail) == ["m10", "m11"]


def test_requests_that_the_model_has_not_seen_stay_with_the_results_before_them() -> None:
    history = [*long_task(5, 9_000), user(12, "stop that"), user(13, "x" * 20_000)]
    found = reactive(history, budget=SMALL)
    assert found is not None
    assert ids(found.tail) == ["m10", "m11", "m12", "m13"]


def test_parallel_calls_stay_together_with_all_their_results() -> None:
    wide = [assistant(40, signed(), call("w1"), call("w2"), call("w3"))]
    wide.append(tool(41, *(result(f"w{n}", "x" * 12_000) for n in (1, 2, 3))))
    found = reactive([*long_task(10, 2_000), *wide, *long_step(42, "end", 500)], budget=SMALL)
    assert found is not None
    assert ids(found.tail)[-2:] == ["m42", "m43"]
    assert ("m40" in ids(found.tail)) == ("m41" in ids(found.tail))


def test_a_result_far_from_its_call_moves_the_boundary_back() -> None:
    late = [assistant(40, call("late")), user(41, "x" * 9_000), control(42), tool(43, result("late"))]
    found = reactive([*long_task(10, 2_000), *late, *step(44, "z")], budget=SMALL, min_turns_to_keep=0)
    assert found is not None
    assert ids(found.tail) in (["m44", "m45"], ["m40", "m41", "m42", "m43", "m44", "m45"])


def test_messages_that_no_model_sees_are_not_covered() -> None:
    hidden = [
        assistant(70, text("a first try"), voided_at=AT),
        assistant(71, error={"code": "provider_error"}),
        message(Role.SYSTEM, 72, text("system")),
    ]
    history = [*long_task(10, 4_000), *hidden, *(m for n in range(80, 120, 2) for m in big(n))]
    found = reactive(history)
    assert found is not None
    assert {"m70", "m71", "m72"}.isdisjoint(ids(found.covered))
    assert "m21" in ids(found.covered)


def test_cleared_outputs_count_as_their_placeholders() -> None:
    history = long_task(30, 2_000)
    cleared = frozenset(["c1", "c26", "c27", "c28", "c29"])
    full, less = reactive(history), reactive(history, pruned=cleared)
    assert full is not None
    assert less is not None
    assert len(less.tail) > len(full.tail)
    assert less.covered[1].tool_results[0].output.startswith("[Old tool result cleared")


def test_a_second_round_merges_the_first() -> None:
    history = [*long_task(30, 2_000), summary_of(1, 62), *(m for n in range(63, 123, 2) for m in big(n))]
    first = reactive(history[:-61])
    assert first is not None
    checkpoint = made(first, 1, "m62")
    second = reactive(history, [checkpoint])
    assert second is not None
    assert second.previous is not None
    assert second.previous.id == "m62"
    assert second.first_seq == 1
    assert second.last_seq > first.last_seq
    assert ids(second.covered)[:2] == ids(first.tail)[:2]
    assert second.kept == ("m1",)
    final = [*history, summary_of(2, 200)]
    assert shown(final, checkpoint, made(second, 2, "m200")) == ["m1", "m200", *ids(second.tail)]


def test_right_after_a_round_there_is_nothing_to_do() -> None:
    history = [*long_task(30, 2_000), summary_of(1, 62)]
    first = reactive(history[:-1])
    assert first is not None
    assert reactive(history, [made(first, 1, "m62")]) is None
    assert reactive([*history, user(63)], [made(first, 1, "m62")]) is None


def test_an_earlier_request_that_is_no_longer_kept_is_covered_by_the_next_round() -> None:
    start = [user(1, "task"), *step(2, "a"), user(4, "second"), *(m for n in range(5, 65, 2) for m in big(n))]
    first = reactive(start)
    assert first is not None
    assert first.kept == ("m1", "m4")
    later = [*start, summary_of(1, 70), user(71, "third"), *(m for n in range(72, 132, 2) for m in big(n))]
    second = reactive(later, [made(first, 1, "m70")])
    assert second is not None
    assert second.kept == ("m1", "m71")
    assert second.covered[0].id == "m4"


def test_clips_of_the_previous_round_stay_if_their_parts_do() -> None:
    history = [*long_task(30, 2_000), summary_of(1, 62), *(m for n in range(63, 73, 2) for m in big(n))]
    checkpoint = Checkpoint(1, "m62", 1, 15, kept=("m1",), clips=(("m17.0", 500), ("m61.0", 500)))
    found = reactive(history, [checkpoint])
    assert found is not None
    assert "m17" not in ids(found.tail)
    assert found.clips == (("m61.0", 500),)


def test_if_urgent_only_what_the_model_has_not_seen_stays() -> None:
    history = [user(1, "task"), *step(2, "a"), *step(4, "b"), user(6, "wait")]
    assert reactive(history) is None
    found = reactive(history, urgent=True)
    assert found is not None
    assert ids(found.tail) == ["m4", "m5", "m6"]
    assert ids(found.covered) == ["m2", "m3"]


def test_if_urgent_a_single_step_is_covered_but_no_request() -> None:
    history = [user(1, "task"), *long_step(2, "a", 50_000), user(4, "one"), user(5, "two")]
    found = reactive(history, urgent=True)
    assert found is not None
    assert (found.kept, ids(found.tail), found.last_seq) == (("m1",), ["m4", "m5"], 3)
    assert ids(found.covered) == ["m2", "m3"]
    assert reactive([user(1), user(2)], urgent=True) is None


# threshold


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_too_few_messages_are_not_covered(steps: int) -> None:
    assert threshold([user(1), *(m for n in range(steps) for m in step(2 + 2 * n, f"c{n}"))]) is None


def test_the_last_messages_stay() -> None:
    history = [user(1, "task"), *(m for n in range(1, 11) for m in step(2 * n, f"c{n}"))]
    found = threshold(history)
    assert found is not None
    assert ids(found.tail) == ["m18", "m19", "m20", "m21"]
    assert ids(found.covered) == [f"m{n}" for n in range(2, 18)]
    assert (found.kept, found.last_seq) == (("m1",), 17)


def test_the_boundary_moves_back_over_results() -> None:
    history = [user(1, "task"), *(m for n in range(1, 11) for m in step(2 * n, f"c{n}")), user(22)]
    found = threshold(history)
    assert found is not None
    assert ids(found.tail) == ["m18", "m19", "m20", "m21", "m22"]
    assert found.latest_request is history[-1]


def test_the_smallest_conversation_that_is_summarized() -> None:
    history = [user(1), assistant(2, text("a")), *step(3, "b"), *step(5, "c")]
    assert threshold(history[:-1]) is None
    found = threshold(history)
    assert found is not None
    assert ids(found.covered) == ["m2"]


def test_without_a_task_the_same_number_of_messages_is_needed() -> None:
    history = [control(1), *step(2, "a"), *step(4, "b")]
    assert threshold(history) is None
    assert threshold([*history, control(6)]) is not None


def test_messages_that_no_model_sees_do_not_count() -> None:
    voided = [assistant(n, text("x"), voided_at=AT) for n in range(50, 60)]
    assert threshold([user(1), assistant(2, text("a")), *step(3, "b"), control(5), *voided]) is None


def test_a_summary_in_the_assistants_role_is_integrated() -> None:
    history = [user(1, "task"), *(m for n in range(1, 11) for m in step(2 * n, f"c{n}"))]
    first = threshold(history)
    assert first is not None
    history.append(summary_of(1, 22, Role.ASSISTANT))
    checkpoint = made(first, 1, "m22")
    assert threshold(history, [checkpoint]) is None
    history += [m for n in range(12, 14) for m in step(2 * n, f"c{n}")]
    second = threshold(history, [checkpoint])
    assert second is not None
    assert second.previous is not None
    assert second.previous.id == "m22"
    assert ids(second.covered) == ["m18", "m19", "m20", "m21"]
    assert ids(second.tail) == ["m24", "m25", "m26", "m27"]


def test_a_summary_is_recognized_by_its_type_and_not_its_text() -> None:
    fake = assistant(2, text("## Session Summary (Compaction Round 1)"))
    found = threshold([user(1), fake, *(m for n in range(1, 5) for m in step(1 + 2 * n, f"c{n}"))])
    assert found is not None
    assert found.previous is None
    assert found.covered[0] is fake


# handoff


def test_a_handoff_covers_everything() -> None:
    history = [user(1, "task"), *step(2, "a"), user(4, "and this"), *step(5, "b")]
    found = handoff(history)
    assert found is not None
    assert (found.first_seq, found.last_seq, found.kept, found.tail) == (1, 6, (), ())
    assert ids(found.covered) == ["m1", "m2", "m3", "m4", "m5", "m6"]
    assert found.latest_request is history[3]
    assert shown([*history, summary_of(1, 7)], made(found, 1, "m7")) == ["m7"]


@pytest.mark.parametrize("later", [[], [user(8, "new")], [assistant(8, text("x"), voided_at=AT)]])
def test_a_request_alone_does_not_trigger_a_handoff(later: list[Message]) -> None:
    assert handoff([user(1)]) is None
    history = [user(1, "task"), *step(2, "a"), summary_of(1, 7), *later]
    assert handoff(history, [Checkpoint(1, "m7", 1, 3)]) is None


def test_a_handoff_keeps_unseen_requests_except_the_last_which_it_quotes() -> None:
    history = [user(1, "task"), *step(2, "a"), user(4, "one"), user(5, "two"), user(6, "three")]
    found = handoff(history)
    assert found is not None
    assert (found.kept, ids(found.covered)) == (("m4", "m5"), ["m1", "m2", "m3", "m6"])
    assert found.quoted(history) is history[-1]
    assert [found.stands(m) for m in history] == [False, False, False, True, True, False]
    assert shown([*history, summary_of(1, 7)], made(found, 1, "m7")) == ["m4", "m5", "m7"]


def test_later_requests_are_not_quoted_by_a_summary() -> None:
    history = [user(1, "task"), *step(2, "a")]
    found = handoff(history)
    assert found is not None
    assert found.quoted([*history, *step(4, "b")]) is history[0]
    later = [*history, *step(4, "b"), user(6, "something else")]
    assert found.quoted(later) is None
    assert found.stands(later[-1])


def test_a_request_with_an_image_is_kept_by_a_handoff() -> None:
    picture = message(Role.USER, 4, text("like this"), image())
    found = handoff([user(1, "task"), *step(2, "a"), picture, *step(5, "b")])
    assert found is not None
    assert (found.kept, found.quoted([])) == (("m4",), None)
    assert handoff([picture]) is None


@pytest.mark.parametrize("policy", ["reactive", "threshold"])
def test_the_task_of_a_session_stays_wherever_it_is(policy: str) -> None:
    history = [user(1, "hi"), assistant(2, text("Hello.")), user(3, "the task")]
    history += [*(m for n in range(4, 64, 2) for m in big(n)), user(90, "and this"), *step(91, "z")]
    found = select(history, [], resolve(policy), BUDGET, MODEL, task_id="m3")
    assert found is not None
    assert found.task is history[2]
    assert "m3" in found.kept
    assert "m1" in ids(found.covered)
    without = select(history, [], resolve(policy), BUDGET, MODEL, task_id="withdrawn")
    assert without is not None
    assert without.task is history[0]


def test_a_clipped_request_stands_only_if_it_always_stays() -> None:
    history = [*long_task(30, 2_000), user(62, "x" * 900), *step(63, "z"), user(65, "y" * 900), *step(66, "w")]
    found = reactive(history)
    assert found is not None
    older, latest = history[-6], history[-3]
    assert found.stands(older)
    assert found.stands(latest)
    clipped = replace(found, clips=(("m62.0", 500), ("m65.0", 500)))
    assert clipped.is_clipped(older)
    assert clipped.is_clipped(latest)
    assert not clipped.stands(older)
    assert clipped.stands(latest)


def test_a_handoff_covers_trailing_messages_that_no_model_sees() -> None:
    found = handoff([user(1, "task"), *step(2, "a"), assistant(4, text("a try"), voided_at=AT)])
    assert found is not None
    assert (found.last_seq, ids(found.covered)) == (4, ["m1", "m2", "m3"])


def test_a_clipped_request_is_still_the_latest_request() -> None:
    history = [user(1, "task"), *step(2, "a"), user(4, "x" * 9_000), summary_of(1, 7)]
    assert handoff(history, [Checkpoint(1, "m7", 1, 3, clips=(("m4.0", 500),))]) is None


def test_a_handoff_after_a_handoff_merges_it() -> None:
    history = [user(1, "task"), *step(2, "a"), summary_of(1, 7), *step(8, "b")]
    found = handoff(history, [Checkpoint(1, "m7", 1, 3)])
    assert found is not None
    assert found.previous is not None
    assert (found.previous.id, ids(found.covered)) == ("m7", ["m8", "m9"])
    assert found.latest_request is history[0]


def test_after_a_change_of_policy_the_task_is_shown_again() -> None:
    history = [user(1, "task"), *step(2, "a"), summary_of(1, 7), *(m for n in range(8, 68, 2) for m in big(n))]
    found = reactive(history, [Checkpoint(1, "m7", 1, 3)])
    assert found is not None
    assert found.kept == ("m1",)
    again = shown([*history, summary_of(2, 99)], Checkpoint(1, "m7", 1, 3), made(found, 2, "m99"))
    assert again[:2] == ["m1", "m99"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_conversation_without_user_messages_has_no_task(policy: str) -> None:
    history = [control(1), *(m for n in range(2, 62, 2) for m in big(n))]
    found = select(history, [], resolve(policy), BUDGET, MODEL)
    assert found is not None
    assert (found.task, found.latest_request, found.kept) == (None, None, ())
