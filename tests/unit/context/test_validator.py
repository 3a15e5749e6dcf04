from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.content import ReasoningRule
from app.context.validator import SoundnessCheck, make_sound, repair
from app.messages import Message, Role, ToolStatus

from .builders import (
    AT,
    MODEL,
    OTHER,
    any_history,
    assistant,
    call,
    control,
    damaged_histories,
    image,
    marker,
    message,
    reasoning,
    result,
    signed,
    sound_histories,
    step,
    text,
    tool,
    user,
)
from .strict import faults


def repaired(*messages: Message) -> tuple[list[Message], list[str]]:
    fixed, repairs = repair(messages, ReasoningRule(MODEL))
    assert faults(fixed, MODEL) == []
    return fixed, [found.kind for found in repairs]


def call_ids(messages: Sequence[Message]) -> list[str]:
    return [part.call_id for item in messages for part in item.tool_results]


def dump(messages: Sequence[Message]) -> list[bytes]:
    return [item.model_dump_json().encode() for item in messages]


@given(sound_histories())
def test_a_sound_conversation_is_unchanged(history: list[Message]) -> None:
    assert faults(history, MODEL) == []
    fixed, repairs = repair(history, ReasoningRule(MODEL))
    assert repairs == []
    assert all(a is b for a, b in zip(fixed, history, strict=True))


@given(any_history)
def test_anything_becomes_a_conversation_that_a_strict_provider_accepts(history: list[Message]) -> None:
    fixed, _ = repair(history, ReasoningRule(MODEL))
    assert faults(fixed, MODEL) == []


@given(any_history)
def test_a_repaired_conversation_needs_no_repair(history: list[Message]) -> None:
    fixed, _ = repair(history, ReasoningRule(MODEL))
    again, repairs = repair(fixed, ReasoningRule(MODEL))
    assert repairs == []
    assert all(a is b for a, b in zip(again, fixed, strict=True))


@given(any_history)
def test_repairs_are_noted_exactly_if_something_was_broken(history: list[Message]) -> None:
    fixed, repairs = repair(history, ReasoningRule(MODEL))
    assert bool(repairs) == bool(faults(history, MODEL) or any(item.voided_at for item in history))
    assert bool(repairs) == (
        len(fixed) != len(history) or any(a is not b for a, b in zip(fixed, history, strict=False))
    )


@given(any_history)
def test_repairing_twice_gives_the_same_bytes(history: list[Message]) -> None:
    copies = [item.model_copy(deep=True) for item in history]
    assert dump(repair(history, ReasoningRule(MODEL))[0]) == dump(repair(copies, ReasoningRule(MODEL))[0])


@given(damaged_histories())
def test_no_text_and_no_output_is_lost(history: list[Message]) -> None:
    fixed, _ = repair(history, ReasoningRule(MODEL))
    after = "".join(part.output for item in fixed for part in item.tool_results) + "".join(m.text for m in fixed)
    for item in history:
        assert all(part.output in after for part in item.tool_results)
        assert item.text in after or len(item.parts) > 1


@given(any_history, st.data())
def test_an_incremental_check_agrees_with_a_fresh_one(history: list[Message], data: st.DataObject) -> None:
    check = SoundnessCheck(ReasoningRule(MODEL))
    ends = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=4)))
    for end in ends:
        assert check.advance(history[:end]) == SoundnessCheck(ReasoningRule(MODEL)).advance(history[:end])
        assert check.advance(history[:end]) == (not repair(history[:end], ReasoningRule(MODEL))[1])


def test_the_check_reads_each_message_once() -> None:
    history = [user(1), *step(2, "a"), *step(4, "b")]
    check = SoundnessCheck(ReasoningRule(MODEL))
    assert check.advance(history)
    touched: list[int] = []

    class Watched(list[Message]):
        def __getitem__(self, key: object) -> Message:  # type: ignore[override]
            assert isinstance(key, int)
            touched.append(key)
            return list.__getitem__(self, key)

    longer = Watched([*history, *step(6, "c")])
    assert check.advance(longer)
    assert {key for key in touched if key >= 0} == {5, 6}


def test_an_empty_conversation_stays_empty() -> None:
    assert repaired() == ([], [])


def test_a_missing_result_is_marked_as_interrupted() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("a"), call("b")), tool(3, result("a")), user(4))
    assert kinds == ["missing_result"]
    assert call_ids(fixed) == ["a", "b"]
    made = fixed[2].tool_results[1]
    assert (made.status, made.name) == (ToolStatus.INTERRUPTED, "execute_command")
    assert "No result" in made.output
    assert made.tokens > 0
    assert fixed[2].id == "m3"


def test_calls_at_the_end_without_any_result_get_theirs() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("a")))
    assert kinds == ["missing_result"]
    assert [item.role for item in fixed] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert (fixed[2].seq, fixed[2].created_at) == (2, AT)
    assert fixed[2].tokens > fixed[2].tool_results[0].tokens


def test_a_result_without_a_call_becomes_a_control_message() -> None:
    fixed, kinds = repaired(user(1), tool(2, result("ghost", "precious output")), user(3))
    assert kinds == ["orphan_result"]
    assert [item.role for item in fixed] == [Role.USER, Role.CONTROL, Role.USER]
    assert "precious output" in fixed[1].text
    assert "execute_command" in fixed[1].text


def test_a_result_before_its_call_does_not_count() -> None:
    _, kinds = repaired(user(1), tool(2, result("a")), assistant(3, call("a")))
    assert sorted(kinds) == ["missing_result", "orphan_result"]


def test_a_second_result_of_a_call_becomes_text() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("a")), tool(3, result("a", "one"), result("a", "two")))
    assert kinds == ["orphan_result"]
    assert [part.output for part in fixed[2].tool_results] == ["one"]
    assert "two" in fixed[3].text


def test_results_return_to_the_order_of_their_calls() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("a"), call("b")), tool(3, result("b"), result("a")))
    assert kinds == ["moved_result"]
    assert call_ids(fixed) == ["a", "b"]
    assert [part.index for part in fixed[2].parts] == [0, 1]


def test_a_message_between_call_and_result_comes_after_them() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("a")), user(3, "wait"), tool(4, result("a", "late")))
    assert kinds == ["moved_result"]
    assert [item.role for item in fixed] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
    assert fixed[2].tool_results[0].output == "late"
    assert fixed[3].text == "wait"


def test_results_in_separate_messages_are_gathered() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("a"), call("b")), tool(3, result("a")), tool(4, result("b")))
    assert kinds == ["moved_result"]
    assert [item.id for item in fixed] == ["m1", "m2", "m3"]
    assert call_ids(fixed) == ["a", "b"]


def test_a_repeated_call_id_is_renamed_with_its_result() -> None:
    fixed, kinds = repaired(user(1), *step(2, "call_0"), *step(4, "call_0"))
    assert kinds == ["duplicate_call"]
    assert fixed[1].tool_calls[0].call_id == "call_0"
    renamed = fixed[3].tool_calls[0].call_id
    assert renamed not in ("call_0", "")
    assert call_ids(fixed) == ["call_0", renamed]
    assert fixed[4].id == "m5"


def test_repeated_ids_keep_each_result_at_its_own_call() -> None:
    first, second = assistant(2, call("x")), assistant(3, call("x"))
    fixed, kinds = repaired(user(1), first, second, tool(4, result("x", "of the second")))
    assert sorted(kinds) == ["duplicate_call", "missing_result"]
    outputs = [part.output for item in fixed for part in item.tool_results]
    assert outputs[0].startswith("[No result")
    assert outputs[1] == "of the second"


def test_two_calls_of_one_message_with_one_id_are_distinguished() -> None:
    both = [result("x", "one"), result("x", "two")]
    fixed, kinds = repaired(user(1), assistant(2, call("x"), call("x")), tool(3, *both))
    assert kinds == ["duplicate_call"]
    assert [part.output for part in fixed[2].tool_results] == ["one", "two"]


def test_a_step_that_was_imported_three_times_has_three_ids() -> None:
    same = step(2, "x")
    fixed, kinds = repaired(user(1), *same, *same, *same)
    assert kinds == ["duplicate_call", "duplicate_call"]
    assert len(set(call_ids(fixed))) == 3


def test_an_empty_call_id_is_replaced() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("")), tool(3, result("")))
    assert kinds == ["duplicate_call"]
    assert call_ids(fixed) == [fixed[1].tool_calls[0].call_id]


@pytest.mark.parametrize(
    "empty",
    [
        message(Role.USER, 2),
        user(2, " \n\t"),
        assistant(2, text("")),
        assistant(2, signed()),
        assistant(2, error={"code": "provider_error"}),
        message(Role.SYSTEM, 2, text("system")),
        message(Role.ASSISTANT, 2, text("tried"), voided_at=AT),
        message(Role.USER, 2, marker()),
    ],
)
def test_empty_messages_are_left_out(empty: Message) -> None:
    fixed, kinds = repaired(user(1), empty, user(3))
    assert kinds == ["message_dropped"]
    assert [item.id for item in fixed] == ["m1", "m3"]


@pytest.mark.parametrize(
    "thought",
    [
        assistant(2, signed(), text("yes"), model=OTHER),
        assistant(2, signed(), text("yes"), model=None),
        assistant(2, reasoning("hm"), text("yes")),
        assistant(2, reasoning("hm", data={"signature": "x"}, interrupted=True), text("yes")),
    ],
)
def test_reasoning_is_whole_and_of_this_model_or_left_out(thought: Message) -> None:
    fixed, kinds = repaired(user(1), thought, user(3))
    assert kinds == ["parts_dropped"]
    assert [part.type for part in fixed[1].parts] == ["text"]


def test_a_conversation_begins_with_the_user() -> None:
    fixed, kinds = repaired(assistant(1, text("hello")), user(2))
    assert kinds == ["first_message"]
    assert fixed[0].role is Role.CONTROL
    _, kinds = repaired(control(1), assistant(2, text("hello")), user(3))
    assert kinds == []


def test_a_conversation_does_not_end_with_the_assistant() -> None:
    fixed, kinds = repaired(user(1), assistant(2, text("done")))
    assert kinds == ["last_message"]
    assert fixed[-1].role is Role.CONTROL


def test_an_assistant_alone_gets_both_ends() -> None:
    _, kinds = repaired(assistant(1, text("hello")))
    assert kinds == ["first_message", "last_message"]


def test_a_result_in_a_users_message_goes_to_its_call() -> None:
    stray = message(Role.USER, 3, result("a"), text("and go on"))
    fixed, kinds = repaired(user(1), assistant(2, call("a")), stray)
    assert kinds == ["moved_result"]
    assert [item.role for item in fixed] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
    assert fixed[3].text == "and go on"


def test_a_users_message_of_only_results_disappears() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("a")), message(Role.USER, 3, result("a")))
    assert kinds == ["moved_result"]
    assert [item.role for item in fixed] == [Role.USER, Role.ASSISTANT, Role.TOOL]


def test_reasoning_left_alone_by_a_stray_result_disappears() -> None:
    fixed, kinds = repaired(user(1), assistant(2, signed(), result("ghost", "output")), user(3))
    assert kinds == ["orphan_result"]
    assert [item.role for item in fixed] == [Role.USER, Role.CONTROL, Role.USER]


def test_text_and_images_in_a_tool_message_are_kept_after_it() -> None:
    fixed, kinds = repaired(user(1), assistant(2, call("a")), tool(3, result("a"), text("see"), image(10, 10)))
    assert kinds == ["parts_dropped", "parts_dropped"]
    assert [item.role for item in fixed] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.CONTROL]
    assert [part.type for part in fixed[3].parts] == ["text", "image"]


def test_images_of_results_stay_with_them() -> None:
    own = image(10, 10).model_copy(update={"id": "i", "of_call": "a"})
    history = [user(1), assistant(2, call("a")), tool(3, result("a"), own), user(4)]
    fixed, kinds = repaired(*history)
    assert kinds == []
    assert SoundnessCheck(ReasoningRule(MODEL)).advance(history)
    # A result that is moved takes them along, a stray one leaves them behind.
    fixed, kinds = repaired(user(1), assistant(2, call("a")), user(3), tool(4, result("a"), own))
    assert kinds == ["moved_result"]
    assert [part.type for part in fixed[2].parts] == ["tool_result", "image"]
    fixed, _ = repaired(user(1), tool(2, result("b"), own))
    assert [part.type for part in fixed[-1].parts] == ["text", "image"]


def test_an_unknown_call_of_a_user_is_dropped() -> None:
    fixed, kinds = repaired(message(Role.USER, 1, text("do"), call("a")))
    assert kinds == ["parts_dropped"]
    assert [part.type for part in fixed[0].parts] == ["text"]


def test_a_repair_says_what_and_where() -> None:
    _, repairs = repair([user(1), assistant(2, call("a"))], ReasoningRule(MODEL))
    assert [(found.message_id, found.call_id) for found in repairs] == [("m2", "a")]
    assert "execute_command" in repairs[0].detail


@given(sound_histories())
def test_repairing_a_sound_conversation_changes_nothing(history: list[Message]) -> None:
    fixed, repairs = make_sound(history, ReasoningRule(MODEL))
    assert repairs == []
    assert all(a is b for a, b in zip(fixed, history, strict=True))
