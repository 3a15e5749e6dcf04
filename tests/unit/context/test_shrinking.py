from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.checkpoints import Checkpoint
from app.context.policies import POLICIES, resolve
from app.context.projection import Transcript, project
from app.context.selection import Selection, select
from app.context.shrinking import SPILL_STEPS, largest_fixed, shrunk, spilled
from app.llm.base import ToolSchema
from app.messages import Message, Role

from .builders import (
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
    working_histories,
)
from .strict import faults

GENERATION = generation()
SIZES = (8_000, 2_000, 500)


def chosen(history: Sequence[Message], usable: int = 100_000, *, spill: bool = False) -> Selection:
    found = select(history, [], resolve("seed-reactive"), budget_of(usable), MODEL, spill=spill)
    assert found is not None
    return found


def as_shown(history: Sequence[Message], selection: Selection, role: Role = Role.USER) -> Transcript:
    """The context with the selection made into a round."""
    summary = summary_of(1, history[-1].seq + 1, role)
    checkpoint = Checkpoint(1, summary.id, selection.first_seq, selection.last_seq, selection.kept, selection.clips)
    return Transcript(GENERATION, [*history, summary], [checkpoint])


def test_the_tail_is_clipped_ever_shorter_and_then_dropped_step_by_step() -> None:
    history = long_task(30, 4_000)
    selection = chosen(history)
    candidates = list(shrunk(selection))
    steps = len(selection.tail) // 2
    assert steps == 4
    assert [limit for c in candidates[:3] for _, limit in c.clips] == [size for size in SIZES for _ in range(steps)]
    assert [c.tail for c in candidates[:3]] == [selection.tail] * 3
    assert [len(c.tail) // 2 for c in candidates[3:]] == [3, 2, 1, 0]
    assert candidates[-1].clips == ()
    tokens = [as_shown(history, c).tokens for c in [selection, *candidates]]
    assert tokens == sorted(tokens, reverse=True)
    assert len(set(tokens)) == len(tokens)


def test_the_last_candidate_is_only_task_and_summary() -> None:
    history = long_task(30, 4_000)
    *_, last = shrunk(chosen(history))
    transcript = as_shown(history, last)
    assert ids(transcript.messages) == ["m1", "m62"]
    assert transcript.settle() == []
    assert last.last_seq == history[-1].seq
    assert ids(last.covered) == ids(history[1:])


def test_unseen_requests_outlive_the_tail() -> None:
    history = [*long_task(10, 9_000), user(22, "first"), user(23, "y" * 9_000)]
    *_, last = shrunk(chosen(history))
    transcript = as_shown(history, last)
    assert ids(transcript.messages) == ["m1", "m22", "m23", "m24"]
    assert transcript.messages[2] is history[-1]


def test_neither_the_task_nor_the_latest_request_is_clipped() -> None:
    history = [user(1), *long_step(2, "a", 60_000), user(4, "older " * 9_000), *long_step(5, "b", 500)]
    history += [user(7, "newest " * 3_000), *long_step(8, "c", 500)]
    selection = chosen(history)
    assert ids(selection.tail) == ["m4", "m5", "m6", "m7", "m8", "m9"]
    for candidate in shrunk(selection):
        clipped = dict(candidate.clips)
        assert "m7.0" not in clipped
        assert ("m4.0" in clipped) == ("m4" in ids(candidate.tail))
        assert as_shown(history, candidate).messages.count(history[6]) == 1


def test_only_parts_that_are_too_long_are_clipped() -> None:
    wide = [
        assistant(90, signed("h" * 9_000), text("t" * 600), call("a"), call("b")),
        tool(91, result("a"), result("b", "x" * 9_000)),
    ]
    selection = chosen([*long_task(30, 4_000), *wide])
    named = {part_id for c in shrunk(selection) for part_id, _ in c.clips if part_id.startswith("m9")}
    assert named == {"m90.1", "m91.1"}


def test_a_short_tail_is_not_clipped_at_all() -> None:
    history = [*long_task(30, 4_000)[:-2], *(m for n in range(100, 120) for m in step(2 * n, f"s{n}"))]
    selection = select(history, [], resolve({"tail_tokens": 500}), budget_of(20_000), MODEL)
    assert selection is not None
    candidates = list(shrunk(selection))
    assert {c.clips for c in candidates} == {()}
    assert [len(c.tail) for c in candidates] == list(range(len(selection.tail) - 2, -1, -2))


def test_existing_clips_only_get_shorter() -> None:
    history = [*long_task(30, 4_000), summary_of(1, 62)]
    before = Checkpoint(1, "m62", 1, 5, kept=("m1",), clips=(("m61.0", 1_000), ("m59.0", 4_000)))
    selection = select(history, [before], resolve("seed-reactive"), budget_of(60_000), MODEL)
    assert selection is not None
    seen: dict[str, list[int]] = {"m61.0": [], "m59.0": [], "m57.0": []}
    for candidate in [selection, *shrunk(selection)]:
        for part_id, limit in candidate.clips:
            seen[part_id].append(limit) if part_id in seen else None
    for limits in seen.values():
        assert limits == sorted(limits, reverse=True)
        assert limits[-1] == 500


@pytest.mark.parametrize("steps", [1, 24, 25, 26, 100, 5_000])
def test_few_candidates_are_enough_for_any_tail(steps: int) -> None:
    history = [user(1), *long_step(2, "big", 90_000), user(4)]
    history += [m for n in range(steps) for m in step(5 + 2 * n, f"s{n}")]
    selection = select(history, [], resolve({"min_turns_to_keep": 1, "tail_tokens": 0}), budget_of(10_000_000), MODEL)
    assert selection is not None
    assert len(selection.tail) == 2 * steps + 1
    lengths = [len(c.tail) for c in shrunk(selection)]
    assert len(lengths) <= 27
    assert lengths == sorted(set(lengths), reverse=True)
    assert lengths[-1] == 0
    assert min(length for length in lengths if length) <= 3


def test_without_a_tail_there_is_nothing_to_shrink() -> None:
    history = [user(1), *step(2, "a"), user(4), *step(5, "b")]
    selection = select(history, [], resolve("handoff"), budget_of(10_000), MODEL)
    assert selection is not None
    assert list(shrunk(selection)) == []


@given(working_histories(), st.sampled_from(POLICIES), st.integers(0, 6_000))
def test_every_candidate_is_sound_and_later_ones_are_smaller(history: list[Message], policy: str, limit: int) -> None:
    settings = resolve({"policy": policy, "recent_messages_to_keep": 1 + limit % 7, "tail_tokens": limit})
    selection = select(history, [], settings, budget_of(16_000), MODEL)
    if selection is None:
        return
    role = Role.ASSISTANT if policy == "threshold" else Role.USER
    sizes = []
    for candidate in [selection, *shrunk(selection)]:
        transcript = as_shown(history, candidate, role)
        assert faults(transcript.messages, MODEL) == []
        if policy != "handoff":
            shown = ids(transcript.messages)
            assert {m.id for m in (candidate.task, candidate.latest_request) if m is not None} <= set(shown)
        sizes.append(transcript.tokens)
    line = 30 if policy == "threshold" else 0
    assert all(later <= sooner + line for sooner, later in pairwise(sizes))
    assert list(shrunk(selection)) == list(shrunk(selection))


@given(working_histories(), st.sampled_from(POLICIES))
def test_an_urgent_selection_ends_in_requests_and_a_summary(history: list[Message], policy: str) -> None:
    selection = select(history, [], resolve(policy), budget_of(16_000), MODEL, urgent=True)
    answered = any(m.role is Role.ASSISTANT and m.parts and m.voided_at is None for m in history)
    if selection is None:
        assert not answered
        return
    *_, last = [selection, *shrunk(selection)]
    shown = as_shown(history, last).messages
    assert shown[-1].is_summary
    assert all(m.role is Role.USER for m in shown)


def test_the_largest_fixed_part_is_named() -> None:
    schema = ToolSchema("t", "word " * 2_000, {"type": "object"})
    small, tools = generation(), generation(tools=(schema,))
    prompt = generation(system="word " * 5_000)
    assert largest_fixed(prompt, [user(1)])[0] == "system prompt"
    assert largest_fixed(tools, [user(1)]) == ("tool schemas", tools.tools_tokens)
    assert largest_fixed(small, [user(1), user(2, "x" * 4_000), *step(3, "a"), user(5)]).name == "user message m1"
    found = largest_fixed(small, [user(1), user(2, "x" * 4_000)])
    assert found.name == "user message m2"
    assert 125 < found.tokens < 200, "head and tail of a request always stay"


def test_a_request_quoted_by_a_summary_is_named() -> None:
    latest = user(4, "x" * 40_000)
    history = [user(1), *step(2, "a"), latest, *step(5, "b")]
    quoting = summary_of(1, 7, value=f"The user's latest request: {latest.text}")
    assert largest_fixed(generation(), [quoting]).name == "system prompt"
    assert largest_fixed(generation(), [quoting], [*history, quoting]).name == "user message m4"


def test_the_task_is_fixed_wherever_it_is() -> None:
    shown = [user(1), *step(2, "a"), user(4, "x" * 4_000), *step(5, "b"), user(7)]
    assert largest_fixed(generation(), shown, shown).name == "user message m1"
    assert largest_fixed(generation(), shown, shown, "m4").name == "user message m4"


def test_parts_that_could_shrink_are_not_named() -> None:
    big_summary = summary_of(1, 4, value="s" * 90_000)
    shown = [user(1, "x" * 400), big_summary, *long_step(5, "a", 9_000), control(7, "x" * 9_000)]
    assert largest_fixed(generation(), shown) == ("user message m1", 104)
    assert largest_fixed(generation(), []) == ("system prompt", 5)
    picture = message(Role.USER, 8, image())
    assert largest_fixed(generation(), [*shown, picture]).name == "user message m1"


def test_trailing_requests_are_all_fixed() -> None:
    shown = [user(1), *step(2, "a"), user(4), user(5, "x" * 4_000), user(6)]
    assert largest_fixed(generation(), shown).name == "user message m5"
    assert largest_fixed(generation(), project(shown, GENERATION).messages) == largest_fixed(generation(), shown)


def test_spilling_shows_ever_less_of_the_requests_that_always_stay() -> None:
    history = [user(1, "t" * 40_000), *step(2, "a"), *long_step(4, "b", 9_000), user(6, "u" * 3_000), user(7, "v" * 90)]
    selection = chosen(history, spill=True)
    versions = list(spilled(selection))
    shown = [dict(version.clips) for version in versions]
    assert [clips["m1.0"] for clips in shown] == list(SPILL_STEPS)
    assert [clips.get("m6.0") for clips in shown] == [None, None, None, None, 2_000, 1_000, 500]
    assert all(clips.keys() <= {"m1.0", "m6.0"} for clips in shown), "everything else is for other rungs"
    assert list(spilled(versions[-1])) == []
    *_, least = shrunk(versions[-1])
    assert dict(least.clips)["m1.0"] == 500, "a clip stays while the tail gets shorter"
