from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.checkpoints import Checkpoint
from app.context.projection import ContextItem, Projection, Transcript, project
from app.context.validator import repair
from app.llm.base import ToolSchema
from app.messages import Message, Role

from .builders import (
    AT,
    MODEL,
    OTHER,
    any_history,
    assistant,
    call,
    control,
    estimate_message,
    generation,
    image,
    marker,
    message,
    reasoning,
    result,
    signed,
    sound_histories,
    step,
    summary_of,
    text,
    tool,
    user,
)
from .strict import faults

GENERATION = generation()


def ids(projection: Projection | Transcript) -> list[str]:
    return [item.message_id for item in projection.items]


def summary(seq: int, round: int) -> Message:
    return message(Role.USER, seq, text(f"summary {round}"), is_summary=True)


def wire(items: Sequence[ContextItem]) -> list[tuple[str, str, int, str | None]]:
    return [(item.message.model_dump_json(), item.message_id, item.tokens, item.reason) for item in items]


def test_images_are_counted_by_the_rule_of_the_model_that_sees_them() -> None:
    picture = message(Role.USER, 1, text("look", tokens=1), image(750, 100).model_copy(update={"tokens": 108}))
    tiles, patches = project([picture], generation(MODEL)), project([picture], generation(OTHER))
    assert tiles.tokens - patches.tokens == 85 + 2 * 170 - 108
    assert tiles.messages[0].parts[1].tokens == 85 + 2 * 170
    assert tiles.items[0].reason is None
    assert patches.messages[0] is picture


def test_messages_can_be_counted_differently_at_any_time() -> None:
    history = [user(1), *step(2, "a", "b"), control(4), *step(5, "c")]
    transcript = Transcript(GENERATION, history[:4])
    messages = transcript.messages
    transcript.count_messages_at(2)
    for added in history[4:]:
        transcript.append(added)
    fresh = Transcript(GENERATION, history, per_message=2)
    assert transcript.messages is messages
    assert (transcript.tokens, wire(transcript.items)) == (fresh.tokens, wire(fresh.items))
    transcript.count_messages_at(4)
    assert transcript.tokens == fresh.tokens + 2 * len(history)


def test_an_ordinary_history_is_sent_unchanged() -> None:
    history = [user(1), *step(2, "a", "b"), control(4), *step(5, "c")]
    projection = project(history, GENERATION)
    assert all(a is b for a, b in zip(projection.messages, history, strict=True))
    assert [item.reason for item in projection.items] == [None, None, None, "control", None, None]
    assert projection.tokens == sum(map(estimate_message, history))


@pytest.mark.parametrize(
    "left_out",
    [
        message(Role.SYSTEM, 2, text("system")),
        assistant(2, text("first try"), voided_at=AT),
        assistant(2, error={"code": "provider_error"}),
        assistant(2, reasoning("thinking …", interrupted=True), error={"code": "provider_error"}),
        assistant(2, text("")),
        message(Role.USER, 2),
        message(Role.USER, 2, marker()),
        summary(2, 1),
    ],
)
def test_useless_messages_are_left_out(left_out: Message) -> None:
    assert ids(project([user(1), left_out, user(3)], GENERATION)) == ["m1", "m3"]


def test_interrupted_text_stays() -> None:
    cut = assistant(2, text("I was about to", interrupted=True), error={"code": "cancelled"})
    assert project([user(1), cut, control(3)], GENERATION).messages[1] is cut


def test_calls_of_a_failed_step_stay() -> None:
    failed = assistant(2, call("a"), error={"code": "provider_error"})
    assert ids(project([user(1), failed, tool(3, result("a"))], GENERATION)) == ["m1", "m2", "m3"]


def test_reasoning_is_sent_only_to_the_model_that_wrote_it() -> None:
    history = [user(1), assistant(2, signed(), text("yes"))]
    kept = project(history, GENERATION)
    assert kept.messages[1] is history[1]
    switched = project(history, generation(OTHER))
    assert [part.type for part in switched.messages[1].parts] == ["text"]
    assert (switched.items[1].message_id, switched.items[1].reason) == ("m2", None)
    assert switched.tokens < kept.tokens


def test_reasoning_without_the_providers_block_is_left_out() -> None:
    projection = project([user(1), assistant(2, reasoning("hm"), signed("aha"), text("yes"))], GENERATION)
    assert [part.type for part in projection.messages[1].parts] == ["reasoning", "text"]
    assert [part.index for part in projection.messages[1].parts] == [0, 1]


def test_a_pruned_result_becomes_a_placeholder_that_names_its_call() -> None:
    history = [user(1), assistant(2, call("a"), call("b")), tool(3, result("a", "x" * 4_000), result("b", "short"))]
    full, cleared = project(history, GENERATION), project(history, GENERATION, pruned=frozenset({"a"}))
    first, second = cleared.messages[2].tool_results
    assert first.output == '[Old tool result cleared; recall("a") returns it]'
    assert (second.output, second.call_id) == ("short", "b")
    assert [item.reason for item in cleared.items] == [None, None, "placeholder"]
    assert full.tokens - cleared.tokens > 900
    assert history[2].tool_results[0].output == "x" * 4_000


def test_a_mark_frees_the_tokens_counted_when_the_result_was_stored() -> None:
    stored = result("a", "x" * 4_000).model_copy(update={"tokens": 1_005})
    history = [user(1), assistant(2, call("a")), tool(3, stored)]
    assert project(history, GENERATION).items[2].tokens == 1_009
    assert project(history, GENERATION, pruned=frozenset({"a"})).items[2].tokens < 40


def test_marks_of_other_calls_change_nothing() -> None:
    history = [user(1), *step(2, "a")]
    assert project(history, GENERATION, pruned=frozenset({"z"})) == project(history, GENERATION)


def test_a_clipped_output_has_that_reason() -> None:
    history = [user(1), assistant(2, call("a")), tool(3, result("a", truncated=True, bytes=99_999))]
    assert project(history, GENERATION).items[2].reason == "clip"


def test_a_checkpoint_replaces_its_range_with_the_summary() -> None:
    history = [user(1), *step(2, "a"), *step(4, "b"), *step(6, "c"), summary(8, 1), *step(9, "d")]
    projection = project(history, GENERATION, [Checkpoint(1, "m8", 2, 5)])
    assert ids(projection) == ["m1", "m8", "m6", "m7", "m9", "m10"]
    assert projection.items[1].reason == "summary"


def test_a_later_round_replaces_the_earlier_one() -> None:
    history = [user(1), *step(2, "a"), summary(4, 1), *step(5, "b"), summary(7, 2), user(8)]
    first, second = Checkpoint(1, "m4", 2, 3), Checkpoint(2, "m7", 2, 6)
    assert ids(project(history, GENERATION, [first, second])) == ["m1", "m7", "m8"]
    assert ids(project(history, GENERATION, [second, first])) == ["m1", "m7", "m8"]


def test_a_reverted_round_leaves_no_trace() -> None:
    history = [user(1), *step(2, "a"), summary(4, 1), *step(5, "b")]
    assert ids(project(history, GENERATION)) == ["m1", "m2", "m3", "m5", "m6"]


def test_adjacent_rounds_both_count() -> None:
    history = [user(1), *step(2, "a"), *step(4, "b"), summary(6, 1), summary(7, 2)]
    rounds = [Checkpoint(1, "m6", 2, 3), Checkpoint(2, "m7", 4, 5)]
    assert ids(project(history, GENERATION, rounds)) == ["m1", "m6", "m7"]


def test_a_range_without_its_summary_is_not_hidden() -> None:
    history = [user(1), *step(2, "a")]
    assert ids(project(history, GENERATION, [Checkpoint(1, "gone", 1, 3)])) == ["m1", "m2", "m3"]


def test_messages_appended_after_a_checkpoint_are_shown_and_covered_ones_are_not() -> None:
    history = [user(1), *step(2, "a"), summary(4, 1)]
    transcript = Transcript(GENERATION, history, [Checkpoint(1, "m4", 1, 3)])
    for late in (user(3), user(5), summary(6, 9)):
        transcript.append(late)
    assert ids(transcript) == ["m4", "m5"]


def test_kept_messages_come_before_the_summary_in_the_order_of_the_history() -> None:
    history = [user(1, "task"), *step(2, "a"), user(4, "more"), *step(5, "b"), summary(7, 1), *step(8, "c")]
    projection = project(history, GENERATION, [Checkpoint(1, "m7", 1, 6, kept=("m4", "m1"))])
    assert ids(projection) == ["m1", "m4", "m7", "m8", "m9"]
    assert projection.messages[0] is history[0]
    assert [item.reason for item in projection.items] == [None, None, "summary", None, None]


def test_results_in_a_kept_message_go_with_their_calls() -> None:
    mixed = message(Role.USER, 3, result("a"), text("and now this"))
    transcript = Transcript(
        GENERATION, [user(1), assistant(2, call("a")), mixed, summary(4, 1)], [Checkpoint(1, "m4", 1, 3, kept=("m3",))]
    )
    assert [part.type for part in transcript.messages[0].parts] == ["text"]
    assert transcript.settle() == []


def test_a_kept_message_outside_the_range_is_shown_once() -> None:
    history = [user(1), *step(2, "a"), summary(4, 1), user(5)]
    assert ids(project(history, GENERATION, [Checkpoint(1, "m4", 1, 3, kept=("m1", "m5", "gone"))])) == [
        "m1",
        "m4",
        "m5",
    ]


def test_the_marker_of_a_summary_is_not_sent() -> None:
    history = [user(1), *step(2, "a"), summary_of(1, 4)]
    shown = project(history, GENERATION, [Checkpoint(1, "m4", 1, 3)]).messages[0]
    assert [part.type for part in shown.parts] == ["text"]
    assert shown.is_summary
    assert shown.tokens == estimate_message(shown)


LINE = "[The conversation up to here was summarized. Continue with the task.]"


def compacted(*tail: Message) -> list[Message]:
    """A task, a step that a summary in the assistant's role covers, and a tail from before the summary."""
    return [user(1, "task"), *step(2, "a"), *tail, summary_of(1, 50, Role.ASSISTANT)]


COVERED = [Checkpoint(1, "m50", 1, 3, kept=("m1",))]


def test_a_control_message_separates_an_assistants_summary_from_a_step() -> None:
    transcript = Transcript(GENERATION, compacted(*step(4, "b")), COVERED)
    assert [m.role for m in transcript.messages] == ["user", "assistant", "control", "assistant", "tool"]
    assert transcript.messages[2].text == LINE
    assert [item.reason for item in transcript.items] == [None, "summary", "control", None, None]
    assert transcript.settle() == []


@pytest.mark.parametrize("first", [user(4), control(4)])
def test_none_is_needed_before_a_message_in_the_users_role(first: Message) -> None:
    transcript = Transcript(GENERATION, compacted(first, *step(5, "b")), COVERED)
    assert ids(transcript) == ["m1", "m50", "m4", "m5", "m6"]
    assert transcript.settle() == []


def test_a_summary_in_the_users_role_needs_none() -> None:
    history = [user(1), *step(2, "a"), *step(4, "b"), summary_of(1, 6)]
    assert ids(project(history, GENERATION, [Checkpoint(1, "m6", 1, 3)])) == ["m6", "m4", "m5"]


@pytest.mark.parametrize("later", [[], [user(51)], step(51, "b")])
def test_the_control_message_that_ends_a_context_stays(later: list[Message]) -> None:
    transcript = Transcript(GENERATION, compacted(), COVERED)
    assert [m.text for m in transcript.messages][-1] == LINE
    assert transcript.settle() == []
    sent = [m.model_dump_json() for m in transcript.messages]
    for message_ in later:
        transcript.append(message_)
    assert [m.model_dump_json() for m in transcript.messages][: len(sent)] == sent
    assert wire(transcript.items) == wire(project([*compacted(), *later], GENERATION, COVERED).items)


def test_an_assistants_summary_never_comes_first() -> None:
    history = [control(1), *step(2, "a"), *step(4, "b"), summary_of(1, 6, Role.ASSISTANT)]
    transcript = Transcript(GENERATION, history, [Checkpoint(1, "m6", 1, 3)])
    assert [m.role for m in transcript.messages][:3] == ["control", "assistant", "control"]
    assert transcript.settle() == []


def test_clips_show_head_and_tail_of_parts_outside_the_range() -> None:
    history = [user(1), *step(2, "a"), assistant(4, call("b")), tool(5, result("b", "x" * 9_000)), summary_of(1, 6)]
    shown = project(history, GENERATION, [Checkpoint(1, "m6", 1, 3, clips=(("m5.0", 2_000),))])
    assert shown.items[2].reason == "clip"
    assert "7,000 characters left out" in shown.messages[2].tool_results[0].output
    assert history[4].tool_results[0].output == "x" * 9_000


def test_a_kept_message_is_clipped_if_named_and_a_summary_never() -> None:
    history = [user(1, "t" * 9_000), *step(2, "a"), summary_of(1, 4, value="s" * 9_000), user(5, "u" * 9_000)]
    clips = (("m1.0", 500), ("m4.0", 500), ("m5.0", 500))
    shown = project(history, GENERATION, [Checkpoint(1, "m4", 1, 3, kept=("m1",), clips=clips)])
    assert [len(m.text) > 5_000 for m in shown.messages] == [False, True, False]
    assert [item.reason for item in shown.items] == ["clip", "summary", "clip"]
    assert (
        'recall("m1") returns the whole message, which is also in .palimpsest/messages/m1.txt]'
        in shown.messages[0].text
    )


def test_a_cleared_result_stays_a_placeholder_if_it_is_clipped_too() -> None:
    history = [user(1), *step(2, "a"), assistant(4, call("b")), tool(5, result("b", "x" * 9_000)), summary_of(1, 6)]
    rounds = [Checkpoint(1, "m6", 1, 3, clips=(("m5.0", 10),))]
    shown = project(history, GENERATION, rounds, frozenset({"b"}))
    assert shown.messages[2].tool_results[0].output == '[Old tool result cleared; recall("b") returns it]'
    assert shown.items[2].reason == "placeholder"


def test_clips_of_a_replaced_round_are_gone() -> None:
    long = tool(5, result("b", "x" * 9_000))
    history = [user(1), *step(2, "a"), assistant(4, call("b")), long, summary_of(1, 6), *step(7, "c"), summary_of(2, 9)]
    first, second = Checkpoint(1, "m6", 1, 3, clips=(("m5.0", 500),)), Checkpoint(2, "m9", 1, 3)
    assert project(history, GENERATION, [first, second]).messages[2] is long
    assert project(history, GENERATION, [first]).messages[2] is not long


def test_of_two_clips_of_one_part_the_later_round_wins() -> None:
    history = [user(1), *step(2, "a"), user(4, "x" * 9_000), summary_of(1, 5), summary_of(2, 6)]
    rounds = [Checkpoint(2, "m6", 1, 1, clips=(("m4.0", 500),)), Checkpoint(1, "m5", 2, 3, clips=(("m4.0", 8_000),))]
    assert "8,500 characters" in project(history, GENERATION, rounds).messages[-1].text


def test_the_cost_of_a_message_is_a_setting() -> None:
    history = [user(1), *step(2, "a")]
    assert project(history, GENERATION).tokens - project(history, GENERATION, per_message=2).tokens == 6


def test_a_request_costs_system_text_tools_and_messages() -> None:
    tools = (ToolSchema("t", "Does it.", {"type": "object"}),)
    transcript = Transcript(generation(tools=tools), [user(1)])
    fixed = transcript.generation.fixed_tokens
    assert fixed == transcript.generation.system_tokens + transcript.generation.tools_tokens
    assert transcript.generation.system_tokens == 5
    assert transcript.generation.tools_tokens > 10
    assert transcript.request_tokens == fixed + transcript.tokens


@given(any_history, st.integers(0, 10), st.frozensets(st.sampled_from(["a", "b", "call-1", "call-2"])))
def test_a_transcript_that_grew_equals_a_projection_from_scratch(
    history: list[Message], start: int, pruned: frozenset[str]
) -> None:
    transcript = Transcript(GENERATION, history[:start], pruned=pruned)
    same = transcript.messages
    for later in history[start:]:
        transcript.append(later)
    scratch = project(history, GENERATION, pruned=pruned)
    assert wire(transcript.items) == wire(scratch.items)
    assert transcript.tokens == scratch.tokens == sum(item.tokens for item in scratch.items)
    assert transcript.messages is same
    assert [m.model_dump_json() for m in same] == [m.model_dump_json() for m in scratch.messages]


@given(any_history)
def test_the_projection_contains_nothing_that_must_not_be_sent(history: list[Message]) -> None:
    for shown in project(history, GENERATION).messages:
        assert shown.role is not Role.SYSTEM
        assert shown.voided_at is None
        assert any(part.type != "reasoning" for part in shown.parts)
        assert all(part.type != "compaction_marker" for part in shown.parts)


@given(any_history)
def test_settling_gives_the_validators_result(history: list[Message]) -> None:
    transcript = Transcript(GENERATION, history)
    fixed, expected = repair(transcript.messages, GENERATION.reasoning)
    assert transcript.settle() == expected
    assert [m.model_dump_json() for m in transcript.messages] == [m.model_dump_json() for m in fixed]
    assert [item.message for item in transcript.items] == transcript.messages
    assert transcript.tokens == sum(item.tokens for item in transcript.items)
    assert faults(transcript.messages, MODEL) == []
    assert transcript.settle() == []


@given(sound_histories(), st.lists(st.integers(0, 20)))
def test_settling_at_any_time_adds_nothing_to_a_sound_history(history: list[Message], pauses: list[int]) -> None:
    transcript = Transcript(GENERATION)
    for index, item in enumerate(history):
        transcript.append(item)
        if index in pauses and item.role is not Role.ASSISTANT:
            assert transcript.settle() == []
    assert all(a is b for a, b in zip(transcript.messages, history, strict=True))


def test_a_repaired_transcript_continues_from_there() -> None:
    transcript = Transcript(GENERATION, [user(1), assistant(2, call("a"))])
    messages = transcript.messages
    assert [found.kind for found in transcript.settle()] == ["missing_result"]
    assert [item.reason for item in transcript.items] == [None, None, "repair"]
    for later in [user(3), *step(4, "b")]:
        transcript.append(later)
    assert transcript.settle() == []
    assert transcript.messages is messages
    stored = [user(1), assistant(2, call("a")), user(3), *step(4, "b")]
    scratch, _ = repair(project(stored, GENERATION).messages, GENERATION.reasoning)
    assert [m.model_dump_json() for m in messages] == [m.model_dump_json() for m in scratch]


def test_an_open_batch_is_no_error_until_something_is_sent() -> None:
    transcript = Transcript(GENERATION, [user(1)])
    for later in step(2, "a"):
        transcript.append(later)
    assert transcript.settle() == []
