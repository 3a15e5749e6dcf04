"""Every form that messages have had, and the replacement of those that have no counterpart here."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from app.context.validator import NO_RESULT
from app.errors import InvalidRequestError
from app.images import image_size
from app.interchange import ImportedHistory, WireFormat, import_history
from app.messages import FinishReason, ImagePart, Message, ReasoningPart, Role, ToolStatus
from tests.unit.interchange.conversations import PNG, image_block, text_block, url_block
from tests.unit.provider.wire import call, calls, result, user

OPENAI: WireFormat = "openai"
ANTHROPIC: WireFormat = "anthropic"


def openai(*messages: Any, **options: Any) -> ImportedHistory:
    return import_history(OPENAI, messages, **options)


def anthropic(*messages: Any, **options: Any) -> ImportedHistory:
    return import_history(ANTHROPIC, messages, **options)


def said(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Role and text, or outputs, of each message."""
    return [(str(m.role), m.text or "|".join(r.output for r in m.tool_results)) for m in messages]


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "ls", "input": {"path": "."}}


def test_an_empty_conversation_is_valid() -> None:
    assert openai().messages == anthropic().messages == ()


def test_a_leading_system_message_becomes_the_prompt_and_others_control_messages() -> None:
    parts = [text_block("Be brief."), text_block("Be kind.")]
    messages = ({"role": "developer", "content": parts}, {"role": "system", "content": "Two"}, user("Hi"))
    imported = openai(*messages, {"role": "system", "content": "Later"})
    assert imported.system_prompt == "Be brief.\n\nBe kind."
    assert said(imported.messages) == [("control", "Two"), ("user", "Hi"), ("control", "Later")]


def test_a_session_with_its_own_prompt_keeps_it() -> None:
    imported = openai({"role": "system", "content": "One"}, user("Hi"), keep_system=True)
    assert imported.system_prompt is None
    assert said(imported.messages) == [("control", "One"), ("user", "Hi")]


@pytest.mark.parametrize("first", [{"role": "system", "content": " "}, {"role": "system", "content": [url_block()]}])
def test_a_system_message_without_text_is_no_prompt(first: dict[str, Any]) -> None:
    imported = openai(first, user("Hi"))
    assert imported.system_prompt is None
    assert [message.role for message in imported.messages] == [Role.CONTROL, Role.USER]


def test_several_results_after_parallel_calls_are_one_message_in_call_order() -> None:
    imported = openai(calls(call("a"), call("b", name="cat"), content="Look"), result("b", "B"), result("a", "A"))
    asked, answered = imported.messages
    assert (asked.role, asked.text, asked.finish_reason) == (Role.ASSISTANT, "Look", FinishReason.TOOL_CALLS)
    assert [(r.name, r.output, r.status) for r in answered.tool_results] == [
        ("ls", "A", ToolStatus.COMPLETED),
        ("cat", "B", ToolStatus.COMPLETED),
    ]
    assert [c.call_id for c in asked.tool_calls] == [r.call_id for r in answered.tool_results]
    assert {"a", "b"}.isdisjoint(c.call_id for c in asked.tool_calls)


def test_old_function_calls_are_calls() -> None:
    imported = openai(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
        {"role": "function", "name": "f", "content": "2"},
    )
    assert [r.output for m in imported.messages for r in m.tool_results] == ["1", "2"]
    assert [c.arguments for m in imported.messages for c in m.tool_calls] == [{"a": 1}, {}]


def test_results_without_ids_go_to_the_open_calls_in_order() -> None:
    asked = {"type": "function", "function": {"name": "f", "arguments": {"deep": [1]}}}
    imported = openai(calls(asked, call("x")), {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"})
    assert [r.output for m in imported.messages for r in m.tool_results] == ["1", "2"]
    assert imported.messages[0].tool_calls[0].arguments_text == '{"deep":[1]}'


def test_a_missing_result_says_that_the_call_was_interrupted() -> None:
    asked, answered, last = openai(calls(call("a")), user("And?")).messages
    assert [(r.output, r.status) for r in answered.tool_results] == [(NO_RESULT, ToolStatus.INTERRUPTED)]
    assert asked.tool_calls[0].status is ToolStatus.INTERRUPTED
    assert last.role is Role.USER


def test_a_result_without_a_call_becomes_a_control_message() -> None:
    (message,) = openai({**result("gone", "42 files"), "name": "ls"}).messages
    assert message.role is Role.CONTROL
    assert "42 files" in message.text
    assert "ls" in message.text


def test_a_second_result_of_a_call_is_kept_as_text() -> None:
    imported = openai(calls(call("a")), result("a", "first"), result("a", "second"))
    assert [r.output for r in imported.messages[1].tool_results] == ["first"]
    assert "second" in imported.messages[2].text


def test_a_result_before_its_call_moves_after_it() -> None:
    imported = openai(user("Go"), result("a", "early"), calls(call("a")))
    assert said(imported.messages) == [("user", "Go"), ("assistant", ""), ("tool", "early")]


def test_duplicate_ids_are_distinguished() -> None:
    history = [message for n in range(3) for message in (calls(call("c")), result("c", str(n)))]
    imported = openai(*history)
    assert [r.output for m in imported.messages for r in m.tool_results] == ["0", "1", "2"]
    assert len({c.call_id for m in imported.messages for c in m.tool_calls}) == 3


def test_palimpsest_ids_stay_unless_they_are_duplicates() -> None:
    ours = "0199a0b0-0000-7000-8000-000000000001"
    imported = openai(calls(call(ours)), result(ours), calls(call(ours)), result(ours))
    first, second = [c.call_id for m in imported.messages for c in m.tool_calls]
    assert first == ours
    assert second != ours


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_and_shown_to_no_model(field: str) -> None:
    (message,) = openai({"role": "assistant", "content": "Yes", field: "Hm."}).messages
    thought = message.parts[0]
    assert isinstance(thought, ReasoningPart)
    assert (thought.text, thought.provider_data, message.model) == ("Hm.", None, None)


def test_signed_thinking_is_kept_whole_with_its_model_unknown() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln", "cache_control": {"type": "ephemeral"}},
        {"type": "redacted_thinking", "data": "b3A="},
        {"type": "thinking", "thinking": "Not signed.", "signature": ""},
        text_block("Yes"),
    ]
    (message,) = anthropic({"role": "assistant", "content": blocks, "model": "claude", "usage": {"x": 1}}).messages
    data = [part.provider_data for part in message.parts if isinstance(part, ReasoningPart)]
    assert data == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3A="},
        None,
    ]
    assert (message.model, message.text) == (None, "Yes")


def test_blocks_of_one_answer_in_several_messages_are_one_message() -> None:
    answer = [{"role": "assistant", "content": [use("a")]}, {"role": "assistant", "content": [use("b")]}]
    results = [{"type": "tool_result", "tool_use_id": i, "content": i} for i in "ab"]
    asked, answered = anthropic(*answer, user(results)).messages
    assert (len(asked.tool_calls), said((answered,))) == (2, [("tool", "a|b")])


def test_results_come_before_the_users_text() -> None:
    blocks = [text_block("Here:"), {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}]
    _, answered, words = anthropic({"role": "assistant", "content": [use("a")]}, user(blocks)).messages
    assert [(r.output, r.status) for r in answered.tool_results] == [("no", ToolStatus.ERROR)]
    assert (words.role, words.text) == (Role.USER, "Here:")


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ([text_block("a"), text_block("b")], "a\nb"),
        (None, ""),
        ([], ""),
        ({"ok": True}, '{"ok":true}'),
        (42, "42"),
    ],
)
def test_a_result_is_text_whatever_it_was(content: Any, output: str) -> None:
    imported = openai(calls(call("a")), result("a", content))
    assert imported.messages[1].tool_results[0].output == output


@pytest.mark.parametrize("block", [url_block(), image_block()])
def test_images_are_imported_with_their_size(block: dict[str, Any]) -> None:
    (message,) = openai(user([text_block("See"), block])).messages
    image = message.parts[1]
    assert isinstance(image, ImagePart)
    assert (image.media_type, image.data, image.width, image.height) == ("image/png", PNG, 40, 30)
    assert image.tokens == 2


def test_an_image_in_a_result_follows_the_results() -> None:
    history = [calls(call("a"), call("b")), result("a", [text_block("shot:"), image_block()]), result("b")]
    _, answered, shown = openai(*history).messages
    assert [r.output.splitlines()[0] for r in answered.tool_results] == ["shot:", "out"]
    assert "follows" in answered.tool_results[0].output
    assert shown.role is Role.CONTROL
    assert isinstance(shown.parts[-1], ImagePart)


def test_an_image_of_the_assistant_follows_it() -> None:
    first, shown = anthropic({"role": "assistant", "content": [text_block("Drawn."), image_block()]}).messages
    assert (first.role, shown.role) == (Role.ASSISTANT, Role.CONTROL)
    assert isinstance(shown.parts[-1], ImagePart)


@pytest.mark.parametrize(
    ("block", "names"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}, "https://example.org/cat.png"),
        ({"type": "image", "source": {"type": "url", "url": "https://example.org/x"}}, "https://example.org/x"),
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, "file_1"),
        ({"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}}, "image/tiff"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}, "not base64"),
        ({"type": "image_url", "image_url": {}}, "no address"),
        ({"type": "input_audio", "input_audio": {"data": "A" * 9000, "format": "wav"}}, "input_audio"),
        ({"type": "document", "title": "Plan", "source": {"type": "text", "data": "Step one"}}, "Step one"),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A"}}, "pdf"),
        ({"type": "search_result", "source": "https://s", "title": "T", "content": [text_block("hit")]}, "hit"),
        ({"type": "thinking", "thinking": "in the user's place"}, "in the user's place"),
        ({"type": "tool_use", "id": "a", "name": "ls", "input": {}}, "tool_use"),
        ({"type": "text", "text": "quoted", "citations": [{"cited_text": "source"}]}, "source"),
        ({"whatever": "it is"}, "it is"),
    ],
)
def test_content_without_a_counterpart_becomes_text_that_names_it(block: dict[str, Any], names: str) -> None:
    (message,) = anthropic(user([block])).messages
    assert message.role is Role.USER
    assert names in message.text
    assert len(message.text) < 2_500


def test_names_refusals_and_unknown_fields_are_kept_as_text() -> None:
    imported = openai(
        {"role": "user", "name": "ann", "content": "Hi"},
        {"role": "assistant", "content": None, "refusal": "I will not.", "audio": {"id": "audio_1"}},
    )
    assert "ann" in imported.messages[0].text
    assert "I will not." in imported.messages[1].text
    assert "audio_1" in imported.messages[1].text


@pytest.mark.parametrize("content", ["", " \n", [], None, [text_block("")]])
@pytest.mark.parametrize("role", ["user", "assistant", "developer"])
def test_an_empty_message_is_replaced_by_a_note(role: str, content: Any) -> None:
    whose = "system" if role == "developer" else role
    imported = openai(user("Hi"), {"role": role, "content": content}, user("Still there?"))
    note = ("control", f"[An empty message of the {whose} was here.]")
    assert said(imported.messages) == [("user", "Hi"), note, ("user", "Still there?")]


def test_a_message_that_only_moves_leaves_no_note() -> None:
    blocks = [{"role": "assistant", "content": [use("a")]}, {"role": "assistant", "content": []}]
    results = [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]
    assert said(anthropic(*blocks, user(results)).messages) == [("assistant", ""), ("tool", "done")]


@pytest.mark.parametrize("form", [OPENAI, ANTHROPIC])
def test_a_conversation_of_empty_messages_is_refused(form: WireFormat) -> None:
    nothing = [user(""), user([]), user(None), {"role": "assistant", "content": " "}]
    with pytest.raises(InvalidRequestError, match="all messages are empty") as caught:
        import_history(form, nothing)
    assert caught.value.code == "invalid_history"
    assert said(import_history(form, [*nothing, user("x")]).messages)[-1] == ("user", "x")


@pytest.mark.parametrize(
    ("form", "message", "says"),
    [
        (OPENAI, "hello", "object"),
        (OPENAI, None, "object"),
        (OPENAI, {}, "role"),
        (OPENAI, {"role": "narrator", "content": "x"}, "role"),
        (OPENAI, {"role": ["user"], "content": "x"}, "role"),
        (ANTHROPIC, {"role": "tool", "content": "x"}, "role"),
        (OPENAI, {"role": "user", "content": 5}, "content"),
        (OPENAI, {"role": "user", "content": {"text": "x"}}, "content"),
        (OPENAI, {"role": "user", "content": [5]}, "content"),
        (OPENAI, {"role": "assistant", "tool_calls": {"id": "a"}}, "tool_calls"),
        (OPENAI, {"role": "assistant", "tool_calls": [5]}, "tool_calls"),
        (OPENAI, {"role": "assistant", "tool_calls": [{"id": "a"}]}, "function"),
        (OPENAI, {"role": "assistant", "tool_calls": [{"function": {"name": 5}}]}, "name"),
        (ANTHROPIC, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": 5}]}, "name"),
    ],
)
def test_invalid_messages_are_refused_with_their_index(form: WireFormat, message: Any, says: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        import_history(form, [user("fine"), message])
    assert (caught.value.code, caught.value.extra) == ("invalid_history", {"index": 1})
    assert "history.messages[1]" in caught.value.detail
    assert says in caught.value.detail


def test_too_many_parts_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(InvalidRequestError, match=r"messages\[1\].*200,000 parts"):
        openai(user("fine"), user(["x"] * 200_000))


@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.extended)])
@pytest.mark.slow
def test_the_work_is_linear_in_the_history(shared: bool) -> None:
    """Ten thousand calls before their results, with one id for all of them or with none: searching all open calls for
    each result would take minutes."""
    key = {"id": "c"} if shared else {}
    asked = [calls({**key, "type": "function", "function": {"name": "f"}}) for _ in range(10_000)]
    answers = [result("c" if shared else None, str(n)) for n in range(10_000)]
    outputs = [r.output for m in openai(*asked, *answers).messages for r in m.tool_results]
    assert outputs == [str(n) for n in reversed(range(10_000))]


@pytest.mark.parametrize(
    ("header", "size"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x07\x00\x00\x00\x09" + bytes(9), (7, 9)),
        (b"GIF89a\x07\x00\x09\x00", (7, 9)),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x09\x00\x07\x03", (7, 9)),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x07\x00\x09\x00", (7, 9)),
        (b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f\x06\x00\x02\x00\x00\x00\x00\x00\x00", (7, 9)),
        (b"RIFF\x00\x00\x00\x00WEBPVP8X\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x08\x00\x00", (7, 9)),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(8), None),
        (b"\xff\xd8\xff\xe0\xff\xff", None),
        (b"\xff\xd8", None),
        (b"RIFF", None),
        (b"plain text", None),
        (b"", None),
    ],
)
def test_sizes_are_read_from_headers(header: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(header) == size


def test_an_image_of_unknown_size_is_kept() -> None:
    data = base64.b64encode(b"who knows").decode()
    (message,) = openai(
        user([{"type": "image_url", "image_url": f"data:image/jpg;base64,{data[:4]}\n{data[4:]}"}])
    ).messages
    image = message.parts[0]
    assert isinstance(image, ImagePart)
    assert (image.media_type, image.data, image.width, image.tokens) == ("image/jpeg", data, None, 1600)
