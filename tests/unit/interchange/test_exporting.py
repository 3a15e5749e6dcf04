"""What is exported of a history, in either format, and where it may be cut."""

from __future__ import annotations

import pytest

from app.interchange import WireFormat, page_length, settled, to_wire
from app.messages import CompactionMarkerPart, FinishReason, Message, Part, Role, ToolStatus
from tests.unit.context.builders import (
    AT,
    assistant,
    call,
    control,
    image,
    marker,
    message,
    reasoning,
    result,
    step,
    text,
    tool,
    user,
)

FORMATS: tuple[WireFormat, ...] = ("openai", "anthropic")
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}


def answer(seq: int, *parts: Part) -> Message:
    """A complete assistant message."""
    return assistant(seq, *parts, finish_reason=FinishReason.STOP)


@pytest.mark.parametrize("form", FORMATS)
def test_control_messages_are_in_the_users_role(form: WireFormat) -> None:
    history = [user(1, "Go"), answer(2, text("Gone.")), control(3, "[resume]")]
    assert to_wire(history, form) == [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": "Gone."},
        {"role": "user", "content": "[resume]"},
    ]


@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT])
@pytest.mark.parametrize("form", FORMATS)
def test_summaries_are_left_out_since_what_they_cover_is_there(form: WireFormat, role: Role) -> None:
    marked = CompactionMarkerPart(id="", index=0, round=3)
    summary = message(role, 3, text("All is well."), marked, is_summary=True)
    history = [user(1, "Go"), answer(2, text("Gone."))]
    later = user(4, "And now?")
    assert to_wire([*history, summary, later], form) == to_wire([*history, later], form)
    assert settled([*history, summary]) == [*history, summary]
    begun = assistant(5, text("So"))
    assert settled([*history, summary, later, begun]) == [*history, summary, later]
    asked = assistant(5, call("c"), finish_reason=FinishReason.TOOL_CALLS)
    assert settled([*history, later, asked, summary]) == [*history, later]
    assert page_length([*history, summary, later], 2, form) == 2


@pytest.mark.parametrize("form", FORMATS)
def test_what_no_provider_accepts_is_left_out(form: WireFormat) -> None:
    history = [
        user(1, " \n"),
        message(Role.ASSISTANT, 2, text("Void."), voided_at=AT),
        assistant(3, reasoning("alone")),
        message(Role.USER, 4, marker()),
        assistant(5),
    ]
    assert to_wire(history, form) == []


def test_signed_reasoning_is_sent_whole_and_other_if_the_format_has_a_field() -> None:
    thoughts = [reasoning("Hm.", data=SIGNED), reasoning("Unsigned."), reasoning("Cut", data=SIGNED, interrupted=True)]
    history = [answer(1, *thoughts, text("So."))]
    assert to_wire(history, "anthropic") == [
        {"role": "assistant", "content": [SIGNED, {"type": "text", "text": "So."}]}
    ]
    (wire,) = to_wire(history, "openai")
    assert wire == {"role": "assistant", "content": "So.", "reasoning_content": "Hm.\n\nUnsigned.\n\nCut"}


def test_calls_and_results_in_both_formats() -> None:
    history = [
        assistant(1, call("a", "odd name!", '{"p": [1]}'), call("b", "ls", '{"cut')),
        tool(2, result("a", "fine"), result("b", "", status=ToolStatus.CANCELLED)),
    ]
    functions = [
        {"name": "odd_name_", "arguments": '{"p": [1]}'},
        {"name": "ls", "arguments": '{"_invalid":"{\\"cut"}'},
    ]
    asked = [{"id": i, "type": "function", "function": f} for i, f in zip("ab", functions, strict=True)]
    assert to_wire(history, "openai") == [
        {"role": "assistant", "content": None, "tool_calls": asked},
        {"role": "tool", "tool_call_id": "a", "content": "fine"},
        {"role": "tool", "tool_call_id": "b", "content": ""},
    ]
    uses = [
        {"type": "tool_use", "id": "a", "name": "odd_name_", "input": {"p": [1]}},
        {"type": "tool_use", "id": "b", "name": "ls", "input": {"_invalid": '{"cut'}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": "fine"},
        {"type": "tool_result", "tool_use_id": "b", "is_error": True},
    ]
    assert to_wire(history, "anthropic") == [
        {"role": "assistant", "content": uses},
        {"role": "user", "content": results},
    ]


def test_images_keep_their_position() -> None:
    history = [message(Role.USER, 1, text("one"), image(), text("two"))]
    (openai,), (anthropic,) = to_wire(history, "openai"), to_wire(history, "anthropic")
    assert [block["type"] for block in openai["content"]] == ["text", "image_url", "text"]
    assert openai["content"][1]["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert [block["type"] for block in anthropic["content"]] == ["text", "image", "text"]
    assert anthropic["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "AAAA"}


def test_turns_of_one_role_are_one_message_only_for_anthropic() -> None:
    history = [*step(1, "a"), control(3, "Mind."), user(4, "Hello")]
    assert [item["role"] for item in to_wire(history, "openai")] == ["assistant", "tool", "user", "user"]
    _, turn = to_wire(history, "anthropic")
    assert [block["type"] for block in turn["content"]] == ["tool_result", "text", "text"]


@pytest.mark.parametrize(
    ("history", "left"),
    [
        ([], 0),
        ([user(1)], 1),
        ([user(1), answer(2, text("Done."))], 2),
        ([user(1), assistant(2, text("Do"))], 1),
        ([user(1), assistant(2, text("Void"), voided_at=AT)], 1),
        ([user(1), assistant(2, call("a"), finish_reason=FinishReason.TOOL_CALLS)], 1),
        ([user(1), assistant(2, call("a"), call("b"), finish_reason=FinishReason.TOOL_CALLS), tool(3, result("a"))], 1),
        ([user(1), assistant(2, call("a"), finish_reason=FinishReason.TOOL_CALLS), tool(3, result("a"))], 3),
    ],
)
def test_an_unfinished_step_is_not_settled(history: list[Message], left: int) -> None:
    assert settled(history) == history[:left]


@pytest.mark.parametrize(
    ("form", "limit", "length"),
    [
        ("openai", 1, 1),
        ("openai", 2, 3),
        ("openai", 3, 3),
        ("openai", 4, 4),
        ("openai", 5, None),
        ("anthropic", 1, 1),
        ("anthropic", 2, 4),
        ("anthropic", 4, 4),
        ("anthropic", 5, None),
    ],
)
def test_a_page_ends_where_nothing_is_split(form: WireFormat, limit: int, length: int | None) -> None:
    history = [user(1), *step(2, "a"), user(4), answer(5, text("Done."))]
    assert page_length(history, limit, form) == length
