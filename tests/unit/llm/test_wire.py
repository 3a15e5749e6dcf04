from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ProviderError
from app.llm import anthropic as anthropic_wire
from app.llm import openai_wire
from app.llm.base import ModelRequest
from app.llm.token_usage import count
from app.llm.wire import parse_document, wire_arguments, wire_name
from app.messages import CompactionMarkerPart, Message, Role, ToolStatus

from .values import (
    LIST,
    PNG,
    READ_FILE,
    assistant,
    call,
    image,
    message,
    reasoning,
    request,
    result,
    results,
    text,
    user,
)

CACHED = {"type": "ephemeral"}
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "sig"}


def openai(asked: ModelRequest) -> list[dict[str, Any]]:
    wire: list[dict[str, Any]] = orjson.loads(openai_wire.encode_body(asked, {}))["messages"]
    return wire


def anthropic(asked: ModelRequest, **parameters: Any) -> dict[str, Any]:
    wire: dict[str, Any] = orjson.loads(anthropic_wire.encode_body(asked, parameters, "anthropic"))
    return wire


def uncached(wire: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages without their cache breakpoints."""
    messages: list[dict[str, Any]] = wire["messages"]
    for turn in messages:
        for block in turn["content"]:
            block.pop("cache_control", None)
    return messages


def breakpoints(wire: dict[str, Any]) -> int:
    return orjson.dumps(wire).count(b'"cache_control"')


HISTORY = (
    user("Do it"),
    assistant(text("I look."), call("c1", arguments='{ "path" : "a" }'), call("c2", "list_directory")),
    results(result("c1", "text of a"), result("c2", "", ToolStatus.ERROR)),
    user("Also this"),
    message(Role.CONTROL, text("Go on.")),
    assistant(text("Done.")),
)


def test_a_history_in_openais_form() -> None:
    assert openai(request(*HISTORY)) == [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Do it"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{ "path" : "a" }'}},
                {"id": "c2", "type": "function", "function": {"name": "list_directory", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "text of a"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "user", "content": "Also this"},
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "Done."},
    ]


def test_a_history_in_anthropics_form() -> None:
    wire = anthropic(request(*HISTORY, tools=(READ_FILE, LIST)), max_tokens=9)
    assert (wire["model"], wire["stream"], wire["max_tokens"]) == ("m", True, 9)
    assert wire["system"] == [{"type": "text", "text": "Be good.", "cache_control": CACHED}]
    assert [tool["name"] for tool in wire["tools"]] == ["read_file", "list_directory"]
    assert wire["tools"][0]["input_schema"] == READ_FILE.parameters
    assert ["cache_control" in tool for tool in wire["tools"]] == [False, True]
    assert uncached(wire) == [
        {"role": "user", "content": [{"type": "text", "text": "Do it"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "list_directory", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "text of a"},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": True},
                {"type": "text", "text": "Also this"},
                {"type": "text", "text": "Go on."},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ]


def test_a_summary_is_sent_in_its_role() -> None:
    history = (user("What was", is_summary=True), assistant(text("## Session Summary"), is_summary=True), user("Next"))
    assert [turn["role"] for turn in openai(request(*history))] == ["system", "user", "assistant", "user"]
    assert [turn["role"] for turn in anthropic(request(*history))["messages"]] == ["user", "assistant", "user"]


def test_calls_without_text_have_null_for_content() -> None:
    assert openai(request(assistant(call("c"))))[1]["content"] is None
    assert openai(request(assistant(text(""))))[1]["content"] == ""


def test_no_system_text_is_no_system_message() -> None:
    assert [turn["role"] for turn in openai(request(system=""))] == ["user"]
    assert "system" not in anthropic(request(system=" "))
    assert openai(request(message(Role.SYSTEM, text("More.")), system=""))[0] == {"role": "system", "content": "More."}


def test_images_are_sent_in_each_format() -> None:
    asked = request(message(Role.USER, text("See"), image()), message(Role.TOOL, image("eg=="), result("c")))
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert openai(asked)[1]["content"] == [{"type": "text", "text": "See"}, url]
    assert openai(request(message(Role.USER, image())))[1]["content"] == [url]
    assert [turn["role"] for turn in openai(asked)[2:]] == ["tool", "user"]
    kinds = [block["type"] for block in uncached(anthropic(asked))[0]["content"]]
    assert kinds == ["text", "image", "tool_result", "image"]
    assert anthropic(asked)["messages"][0]["content"][1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": PNG,
    }


def test_reasoning_is_never_sent_to_openai_servers() -> None:
    asked = request(assistant(reasoning("secret", SIGNED), text("Hi"), model="m"))
    assert b"secret" not in openai_wire.encode_body(asked, {})


@pytest.mark.parametrize(
    ("author", "sent"),
    [("claude-x", True), ("anthropic/claude-x", True), ("claude-y", False), ("other/claude-x", False), (None, False)],
)
def test_signed_reasoning_is_only_sent_to_the_model_that_wrote_it(author: str | None, sent: bool) -> None:
    asked = request(user("Hi"), assistant(reasoning("hm", SIGNED), text("Yes"), model=author), model="claude-x")
    content = uncached(anthropic(asked))[1]["content"]
    assert content == ([SIGNED] if sent else []) + [{"type": "text", "text": "Yes"}]


def test_another_model_on_the_same_cache_gets_no_foreign_reasoning() -> None:
    history = (user("Hi"), assistant(reasoning("hm", SIGNED), text("Yes"), model="claude-x"))
    cache: dict[str, Any] = {}
    kinds = []
    for model in ("claude-x", "claude-y", "claude-x"):
        wire = anthropic(request(*history, model=model, wire_cache=cache))
        kinds.append([block["type"] for block in wire["messages"][1]["content"]])
    assert kinds == [["thinking", "text"], ["text"], ["thinking", "text"]]


def test_incomplete_reasoning_is_left_out() -> None:
    cut_off = assistant(reasoning("hm", SIGNED, interrupted=True), reasoning("no signature"), text("Yes"), model="m")
    assert [block["type"] for block in uncached(anthropic(request(cut_off)))[0]["content"]] == ["text"]


def test_redacted_reasoning_is_sent_back_unchanged() -> None:
    block = {"type": "redacted_thinking", "data": "abc"}
    asked = request(assistant(reasoning("", block), call("c"), model="m"))
    assert uncached(anthropic(asked))[0]["content"][0] == block


def test_blank_text_and_empty_messages_are_not_sent_to_anthropic() -> None:
    marker = CompactionMarkerPart(id="p", index=0, round=1)
    asked = request(user("One"), assistant(text("\n")), message(Role.USER, marker, text("Two")), user(" "))
    assert uncached(anthropic(asked)) == [
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]}
    ]


def test_a_long_history_has_four_breakpoints_on_the_right_blocks() -> None:
    wire = anthropic(request(*HISTORY, user("More"), assistant(text("Ok")), user("Last"), tools=(READ_FILE,)))
    assert breakpoints(wire) == 4
    marked = [
        (index, place)
        for index, turn in enumerate(wire["messages"])
        for place, block in enumerate(turn["content"])
        if "cache_control" in block
    ]
    users = [index for index, turn in enumerate(wire["messages"]) if turn["role"] == "user"]
    assert marked == [(index, len(wire["messages"][index]["content"]) - 1) for index in users[-2:]]


def test_breakpoints_leave_no_trace_in_the_cache() -> None:
    cache: dict[str, Any] = {}
    history = [user("One")]
    anthropic(request(*history, wire_cache=cache))
    history += [assistant(text("Two")), user("Three"), assistant(text("Four")), user("Five")]
    first = anthropic(request(*history, wire_cache=cache))["messages"][0]
    assert first == {"role": "user", "content": [{"type": "text", "text": "One"}]}


Encode = Callable[[ModelRequest, dict[str, Any]], bytes]
ENCODERS = pytest.mark.parametrize(
    "encode",
    [
        pytest.param(openai_wire.encode_body, id="openai"),
        pytest.param(lambda asked, sent: anthropic_wire.encode_body(asked, sent, "x"), id="anthropic"),
    ],
)


class Watched(tuple[Message, ...]):
    """A history that counts how many of its messages were looked at."""

    seen: int

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.seen = getattr(self, "seen", 0) + (len(found) if isinstance(index, slice) else 1)
        return found

    def __iter__(self) -> Iterator[Message]:
        raise AssertionError("the whole history was walked through")


def long_history(length: int) -> list[Message]:
    turn = [user("u"), assistant(text("a"), call("c")), results(result("c")), message(Role.CONTROL, text("k"))]
    return [known.model_copy(update={"id": f"h{n}"}) for n, known in enumerate(turn * (length // 4))]


@ENCODERS
def test_a_growing_history_is_encoded_like_a_fresh_one(encode: Encode) -> None:
    cache: dict[str, Any] = {}
    history = long_history(40)
    for end in range(1, len(history) + 1):
        warm = encode(request(*history[:end], wire_cache=cache), {})
        assert warm == encode(request(*history[:end]), {})


@ENCODERS
def test_the_work_of_a_step_does_not_grow_with_the_history(encode: Encode) -> None:
    cache: dict[str, Any] = {}
    history = long_history(400)
    encode(request(*history, wire_cache=cache), {})
    grown = Watched([*history, assistant(text("new")), user("newer")])
    body = encode(ModelRequest("m", "Be good.", grown, wire_cache=cache), {})
    assert b"newer" in body
    assert grown.seen < 20
    assert len(cache) < 20


@ENCODERS
def test_a_side_call_on_the_same_history_keeps_the_next_steps_bytes(encode: Encode) -> None:
    cache: dict[str, Any] = {}
    history = long_history(80)
    encode(request(*history, wire_cache=cache), {})
    encode(request(*history, user("Summarise"), wire_cache=cache), {})
    grown = Watched([*history, assistant(text("new")), user("newer")])
    body = encode(ModelRequest("m", "Be good.", grown, wire_cache=cache), {})
    assert grown.seen < 20
    assert body == encode(request(*tuple(history), *grown[-2:]), {})


@ENCODERS
def test_another_history_under_the_same_cache_is_encoded_anew(encode: Encode) -> None:
    cache: dict[str, Any] = {}
    encode(request(*long_history(40), wire_cache=cache), {})
    other = [user(f"other {number}") for number in range(50)]
    assert encode(request(*other, wire_cache=cache), {}) == encode(request(*other), {})
    assert encode(request(*other[:3], wire_cache=cache), {}) == encode(request(*other[:3]), {})


def test_the_two_formats_do_not_share_cached_bytes() -> None:
    cache: dict[str, Any] = {}
    openai_wire.encode_body(request(*HISTORY, wire_cache=cache), {})
    assert anthropic(request(*HISTORY, wire_cache=cache)) == anthropic(request(*HISTORY))


@given(st.lists(st.sampled_from(["user", "assistant", "tool", "blank", "control"]), max_size=12))
def test_anthropic_always_gets_alternating_turns_with_content(kinds: list[str]) -> None:
    made: dict[str, Message] = {
        "user": user("u"),
        "assistant": assistant(text("a")),
        "tool": results(result("c")),
        "blank": user(""),
        "control": message(Role.CONTROL, text("c")),
    }
    wire = anthropic(request(user("Task"), *(made[kind] for kind in kinds), tools=(READ_FILE,)))
    roles = [turn["role"] for turn in wire["messages"]]
    assert all(one != other for one, other in pairwise(roles))
    assert all(turn["content"] for turn in wire["messages"])
    assert breakpoints(wire) <= 4


@pytest.mark.parametrize(
    ("given_text", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (' {"b":2}\n', ' {"b":2}\n'),
        ("", "{}"),
        ("  ", "{}"),
        ('{"a":', '{"_invalid":"{\\"a\\":"}'),
        ("[1]", '{"_invalid":"[1]"}'),
        ("null", '{"_invalid":"null"}'),
    ],
)
def test_arguments_are_sent_unchanged_or_wrapped_in_an_object(given_text: str, sent: str) -> None:
    assert wire_arguments(given_text) == sent
    asked = request(assistant(call("c", arguments=given_text)))
    assert openai(asked)[1]["tool_calls"][0]["function"]["arguments"] == sent
    assert anthropic(asked)["messages"][0]["content"][0]["input"] == orjson.loads(sent)


@given(st.text())
def test_arguments_are_always_an_object_on_the_wire(arguments: str) -> None:
    assert isinstance(orjson.loads(wire_arguments(arguments)), dict)


@pytest.mark.parametrize(
    ("name", "sent"),
    [("read_file", "read_file"), ("my tool!", "my_tool_"), ("größe", "gr__e"), ("", "unknown"), ("x" * 99, "x" * 64)],
)
def test_an_invented_tool_name_becomes_an_accepted_one(name: str, sent: str) -> None:
    assert wire_name(name) == sent
    asked = request(assistant(call("c", name)))
    assert openai(asked)[1]["tool_calls"][0]["function"]["name"] == sent
    assert anthropic(asked)["messages"][0]["content"][0]["name"] == sent


def test_documents_are_parsed_from_bytes() -> None:
    assert parse_document(b'{"a":1}') == {"a": 1}
    assert parse_document(rb'{"a":"\udc00x","b":"\ud83e\udd76"}') == {"a": "�x", "b": "🥶"}
    for garbage in (b"[1]", b"{", b"\xff", b"[" * 40_000):
        with pytest.raises(ProviderError) as caught:
            parse_document(garbage)
        assert caught.value.retryable


def test_a_document_of_too_many_values_is_refused_before_it_is_read() -> None:
    for flood in (b"[" + b"{}," * 60_000 + b"{}]", b'{"a":[' + b'"",' * 60_000, b"[" * 60_000):
        with pytest.raises(ProviderError, match="50,000 values") as caught:
            parse_document(flood)
        assert not caught.value.retryable
    text = "," * 1_000_000
    assert parse_document(orjson.dumps({"a": text})) == {"a": text}


@pytest.mark.parametrize(
    ("value", "tokens"), [(5, 5), (5.0, 5), (None, 0), ("5", 0), (-1, 0), (float("nan"), 0), (float("inf"), 0), ([], 0)]
)
def test_a_count_is_read_from_any_value(value: Any, tokens: int) -> None:
    assert count(value) == tokens
