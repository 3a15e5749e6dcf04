"""Chat Completions as gateways and other servers speak it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import orjson
import pytest

from app.errors import ProviderError
from app.llm.base import BlockEnd, ReasoningDelta, StreamEvent, TextDelta, ToolCallStart
from app.llm.held import MAX_HELD_BYTES
from app.llm.openai_stream import OpenAiStream
from app.llm.tool_names import clean_name

from .values import calls, finish, prose, thoughts


def _error(status: int | None, body: str) -> ProviderError:
    return ProviderError(body, code="provider_server_error", retryable=True)


def fold(*chunks: dict[str, Any]) -> list[StreamEvent]:
    """The events of a stream with these chunks, each fed alone."""
    stream = OpenAiStream(_error)
    events = [event for chunk in chunks for event in stream.feed([(b"", orjson.dumps(chunk))])]
    return events + stream.end()


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def message(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": fields, "finish_reason": "stop"}]}


STOP: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def said(*deltas: dict[str, Any]) -> list[StreamEvent]:
    return fold(*(delta(**fields) for fields in deltas), STOP)


def tools(*entries: Any) -> dict[str, Any]:
    return {"tool_calls": list(entries)}


def entry(index: Any = None, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    outer = {"index": index, "id": call_id, "function": function or None}
    return {key: value for key, value in outer.items() if value is not None}


X, Y = '{"x": 1}', '{"y": 2}'
F, G = ("f", X), ("g", Y)


CALLS = [
    pytest.param(
        [tools(entry(0, "a", "f", X)), tools(entry(0, "b", "g", "")), tools(entry(1, None, None, Y))],
        [F, G],
        id="arguments under another index",
    ),
    pytest.param(
        [
            tools(entry(0, "a", "f", "")),
            tools(entry(1, None, None, X[:4])),
            tools(entry(1, None, None, X[4:])),
            tools(entry(0, "b", "g", "")),
            tools(entry(1, None, None, Y)),
        ],
        [F, G],
        id="heads at 0, all arguments at 1",
    ),
    pytest.param(
        [
            tools(entry(0, "a", "f", "")),
            tools(entry(1, "b", "g", "")),
            tools(entry(0, "b", None, Y)),
            tools(entry(0, "a", None, X)),
        ],
        [F, G],
        id="the id is right, the index is not",
    ),
    pytest.param(
        [tools(entry(0, "a", "f", ""), entry(1, "b", "g", "")), tools(entry(0, None, None, X)),
         tools(entry(1, None, None, Y))],
        [F, G],
        id="both heads first",
    ),
    pytest.param(
        [tools(entry(0, None, None, X[:4])), tools(entry(0, None, None, X[4:])), tools(entry(0, "a", "f"))],
        [F],
        id="the name after the arguments",
    ),
    pytest.param(
        [tools(entry(0, "a", None, "")), tools(entry(0, None, None, X)), tools(entry(0, None, "f"))],
        [F],
        id="the name last",
    ),
    pytest.param(
        [tools(entry(0, "a", "f", "null")), tools(entry(1, "b", "", "")), tools(entry(1, None, None, Y))],
        [("f", "null"), ("unknown", Y)],
        id="a call without a name after arguments that are no object",
    ),
    pytest.param(
        [tools(entry(0, "a", "read", "")), tools(entry(0, "a", "read_file", "")), tools(entry(0, "a", None, X))],
        [("read_file", X)],
        id="a growing name",
    ),
    pytest.param(
        [tools(entry(0, None, "f", X)), tools(entry(0, None, "g", Y))], [F, G], id="always index 0 and no id"
    ),
    pytest.param(
        [tools(entry(0, None, "f", X)), tools(entry(0, None, "f", X))], [F], id="the same call once more"
    ),
    pytest.param(
        [tools(entry(0, "a", "f", X)), tools(entry(0, "a", "f", X))], [F], id="the same call once more, with its id"
    ),
    pytest.param(
        [tools(entry(0, "a", "f", X)), tools(entry(0, "b", "f", X))], [F, F], id="the same call twice, by ids"
    ),
    pytest.param(
        [tools(entry(0, "a", "f", "{}")), tools(entry(0, "a", "f", X))], [F], id="a placeholder for the arguments"
    ),
    pytest.param(
        [tools(entry(None, None, "f", X[:4]), entry(None, None, "g", Y[:4])),
         tools(entry(None, None, None, X[4:]), entry(None, None, None, Y[4:]))],
        [F, G],
        id="by the place in the list",
    ),
    pytest.param(
        [tools(entry(0, "a", "f", "{}")), tools(entry(1, "b", "g", Y))], [("f", "{}"), G], id="no arguments first"
    ),
    pytest.param([tools(entry("0", "a", "f", X)), tools(entry("1", "b", "g", Y))], [F, G], id="indices as text"),
    pytest.param([{"tool_calls": entry(0, "a", "f", X)}], [F], id="an object instead of a list"),
    pytest.param([{"tool_calls": {"0": entry(None, "a", "f", X), "1": entry(None, "b", "g", Y)}}], [F, G], id="a map"),
    pytest.param([tools({"id": "a", "name": "f", "arguments": X})], [F], id="flat"),
    pytest.param([tools({"name": "f", "parameters": {"x": 1}})], [("f", '{"x":1}')], id="flat, with parameters"),
    pytest.param([tools({"id": "a", "function": "f", "arguments": X})], [F], id="the name as function"),
    pytest.param([tools({"name": "f", "input": {"x": 1}})], [("f", '{"x":1}')], id="flat, with input"),
    pytest.param([tools({"function": [{"name": "f", "arguments": X}]})], [F], id="a list as function"),
    pytest.param([tools(None, entry(0, "a", "f", X), {}, "junk")], [F], id="null entries"),
    pytest.param([{"tool_calls": json.dumps([entry(0, "a", "f", X), entry(1, "b", "g", Y)])}], [F, G], id="as text"),
    pytest.param([tools(json.dumps(entry(0, "a", "f", X)), json.dumps(entry(1, "b", "g", Y)))], [F, G], id="texts"),
    pytest.param([tools([entry(0, "a", "f", X), entry(1, "b", "g", Y)])], [F, G], id="a list in a list"),
    pytest.param([{"content": "I look."}, tools("junk"), {"tool_calls": "{"}], [("unknown", "")], id="unreadable"),
    pytest.param([tools(entry(0, "a", "f", X)), {"tool_calls": True}], [F, ("unknown", "")], id="a call, and junk"),
    pytest.param([tools([[[["deep"]]]])], [("unknown", "")], id="a deep list"),
    pytest.param([tools(entry(0, "a", "f", [1]))], [("f", "[1]")], id="arguments that are no object"),
    pytest.param([tools(entry(0, "a", "f", json.dumps(X)))], [F], id="arguments encoded twice"),
    pytest.param([tools(entry(0, "a", None, X))], [("unknown", X)], id="no name"),
    pytest.param([tools(entry(0, "a"))], [("unknown", "")], id="nothing but an id"),
]  # fmt: skip


@pytest.mark.parametrize(("deltas", "expected"), CALLS)
def test_calls_are_found_in_every_dialect(deltas: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    events = said(*deltas)
    assert calls(events) == expected
    assert finish(events) == "tool_calls"
    starts = [event for event in events if isinstance(event, ToolCallStart)]
    assert {event.block for event in starts} <= {event.block for event in events if isinstance(event, BlockEnd)}


@pytest.mark.parametrize("value", ["", "null", "[]", [None], [[]], {"0": None}, [""]])
def test_empty_calls_are_no_calls(value: Any) -> None:
    events = said({"content": "Done."}, {"tool_calls": value})
    assert (calls(events), finish(events)) == ([], "stop")


@pytest.mark.parametrize("beside", [{}, {"delta": {"tool_calls": None}}, {"message": {"content": ""}}])
def test_calls_may_be_next_to_the_delta(beside: dict[str, Any]) -> None:
    choice = {"index": 0, "tool_calls": [entry(0, "a", "f", X)], "finish_reason": "tool_calls", **beside}
    assert calls(fold({"choices": [choice]})) == [F]


def test_interleaved_calls_that_end_like_objects_are_kept_apart() -> None:
    """The second call waits for its arguments while a `}` ends a piece of the first one's."""
    pieces = ['{"code":"f() {', "}", "{g()}", '"}']
    events = said(
        tools(entry(0, "a", "f", ""), entry(1, "b", "g", "")),
        *(tools(entry(0, None, None, piece)) for piece in pieces),
        tools(entry(1, None, None, Y)),
    )
    assert calls(events) == [("f", "".join(pieces)), G]


@pytest.mark.parametrize(
    ("garbled", "name"),
    [
        ("read_file", "read_file"),
        ("mcp__files-read", "mcp__files-read"),
        ("functions.read_file", "read_file"),
        ("functions.read_file:0", "read_file"),
        ("default_api.read_file", "read_file"),
        ("read_file<|channel|>commentary", "read_file"),
        ("functions.read_file<|channel|>json", "read_file"),
        ("<|channel|>commentary to=functions.read_file", "read_file"),
        ("<|constrain|>read_file", "read_file"),
        (" `read_file`\n", "read_file"),
        ("functions", "functions"),
        ("no such tool", "no such tool"),
        ("", "unknown"),
        ("<|channel|>", "unknown"),
    ],
)
def test_a_name_is_cleaned_of_what_templates_leave(garbled: str, name: str) -> None:
    assert clean_name(garbled) == name
    assert [event.name for event in said(tools(entry(0, "a", garbled, "{}"))) if isinstance(event, ToolCallStart)] == [
        name
    ]


MESSAGES = [
    pytest.param([delta(content="all "), delta(content="done"), message(content="all done")], "all done", [], id="all"),
    pytest.param([delta(content="all "), message(content="all done")], "all done", [], id="the rest of the text"),
    pytest.param([delta(role="assistant"), message(content="all done")], "all done", [], id="only a message"),
    pytest.param([message(content="all "), message(content="done")], "all done", [], id="deltas named message"),
    pytest.param(
        [delta(**tools(entry(0, "a", "f", X))), message(content="", **tools(entry(None, "a", "f", X)))],
        "",
        [F],
        id="a call",
    ),
    pytest.param(
        [delta(**tools(entry(0, "a", "f", X))), message(**tools(entry(None, "other", "f", X)))],
        "",
        [F],
        id="a call with another id",
    ),
    pytest.param(
        [delta(**tools(entry(0, "a", "f", X[:4]))), message(**tools(entry(0, "a", "f", X), entry(1, "b", "g", Y)))],
        "",
        [F, G],
        id="the rest of a call and another",
    ),
    pytest.param(
        [delta(**tools(entry(0, "a", "f", X), entry(1, "b", "f", X))),
         message(**tools(entry(0, "a", "f", X), entry(1, "b", "f", X)))],
        "",
        [F, F],
        id="two equal calls",
    ),
    pytest.param([delta(content="hi"), message(**tools(entry(0, "a", "f", X)))], "hi", [F], id="a call only there"),
    pytest.param(
        [delta(function_call={"name": "f", "arguments": X}), message(function_call={"name": "f", "arguments": X})],
        "",
        [F],
        id="the old function call",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("chunks", "text", "expected"), MESSAGES)
def test_a_complete_message_repeats_nothing(
    chunks: list[dict[str, Any]], text: str, expected: list[tuple[str, str]]
) -> None:
    events = fold(*chunks)
    assert (prose(events), calls(events)) == (text, expected)


@pytest.mark.parametrize("repeated", [{}, tools(entry(0, "a", "f", X))])
def test_a_last_delta_may_repeat_the_message(repeated: dict[str, Any]) -> None:
    chunks = [delta(reasoning_content="hm"), delta(content="I will look."), *([delta(**repeated)] if repeated else [])]
    last = delta(reasoning_content="hm", content="I will look.", **repeated)
    last["choices"][0]["finish_reason"] = "stop"
    events = fold(*chunks, last)
    assert (thoughts(events), prose(events), calls(events)) == ("hm", "I will look.", [F] if repeated else [])


def test_pieces_may_repeat_if_each_has_a_word_for_the_end() -> None:
    piece = delta(content="ha")
    piece["choices"][0]["finish_reason"] = "stop"
    assert prose(fold(piece, piece, piece)) == "hahaha"


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
DETAIL = {"type": "reasoning.text", "text": "hm", "signature": None, "index": 0}


def chat_data(place: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "chat"} | ({"place": place} if place else {}) | ({"fields": fields} if fields else {})


REASONING = [
    pytest.param([{"reasoning_content": "hm"}], chat_data("reasoning_content"), id="reasoning_content"),
    pytest.param([{"reasoning": "hm"}], chat_data("reasoning"), id="reasoning"),
    pytest.param([{"reasoning_text": "hm"}], chat_data("reasoning_text"), id="reasoning_text"),
    pytest.param([{"reasoning": {"content": "hm"}}], chat_data("reasoning"), id="an object"),
    pytest.param([{"content": [THINKING]}], chat_data("thinking_part"), id="a part"),
    pytest.param([{"content": [{"type": "thinking", "thinking": "hm"}]}], chat_data("thinking_part"), id="a flat part"),
    pytest.param([{"reasoning_content": "hm", "reasoning": "hm"}], chat_data("reasoning_content"), id="two fields"),
    pytest.param(
        [{"reasoning_details": [DETAIL]}], chat_data("reasoning_details", reasoning_details=[DETAIL]), id="details"
    ),
    pytest.param(
        [{"reasoning": "hm", "reasoning_details": [DETAIL]}],
        chat_data("reasoning", reasoning_details=[DETAIL]),
        id="details and a field",
    ),
    pytest.param(
        [{"reasoning_details": [DETAIL]}, {"reasoning": "", "reasoning_details": [{**DETAIL, "index": 1}]}],
        chat_data("reasoning_details", reasoning_details=[DETAIL, {**DETAIL, "index": 1}]),
        id="two details",
    ),
]


@pytest.mark.parametrize(("deltas", "data"), REASONING)
def test_reasoning_is_found_in_all_places_and_shown_once(deltas: list[dict[str, Any]], data: dict[str, Any]) -> None:
    events = said(*deltas, {"content": "four"})
    assert (thoughts(events), prose(events)) == ("hm" * len(deltas), "four")
    assert BlockEnd(0, data) in events
    whole = fold(
        message(**(deltas[0] | {"content": [*deltas[0].get("content", []), {"type": "text", "text": "four"}]}))
    )
    assert (thoughts(whole), prose(whole)) == ("hm", "four")


TAGGED = [
    ("<think>hm</think>four", "hm", "four"),
    ("\n<think>\nhm\n</think>\n\nfour", "hm", "four"),
    ("<thinking>a < b </think> c</thinking> four", "a < b </think> c", "four"),
    ("<think>\n\n</think>\n\nfour", "", "four"),
    ("<think>never closed", "never closed", ""),
    ("<think>hm</think>", "hm", ""),
    ("four <think>hm</think>", "", "four <think>hm</think>"),
    ("<thinkpad> is a laptop", "", "<thinkpad> is a laptop"),
    ("<th", "", "<th"),
    ("\n\nfour", "", "\n\nfour"),
]


@pytest.mark.parametrize(("text", "reasoning", "answer"), TAGGED)
@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_reasoning_between_tags_is_told_from_the_answer(text: str, reasoning: str, answer: str, size: int) -> None:
    events = said(*({"content": text[at : at + size]} for at in range(0, len(text), size)))
    assert (thoughts(events), prose(events)) == (reasoning, answer)
    places = [event.provider_data for event in events if isinstance(event, BlockEnd) and event.provider_data]
    assert places == ([chat_data("think_tag")] if reasoning else [])


def test_reasoning_between_tags_is_shown_as_it_comes() -> None:
    stream = OpenAiStream(_error)
    shown = stream.feed([(b"", orjson.dumps(delta(content="<think>let me see</th")))])
    assert shown == [ReasoningDelta(0, "let me see")]


def test_a_call_ends_what_was_held_back() -> None:
    events = said({"content": "\n"}, tools(entry(0, "a", "f", X)), {"content": "more"})
    assert [type(event) for event in events[:2]] == [TextDelta, BlockEnd]
    assert (prose(events), calls(events)) == ("\nmore", [F])


SIGNATURE = {"google": {"thought_signature": "sig"}}
ENCRYPTED = {"type": "reasoning.encrypted", "data": "abc", "id": "r1", "index": 1}


def data_of(events: list[StreamEvent]) -> list[dict[str, Any]]:
    ends = (event for event in events if isinstance(event, BlockEnd))
    return [event.provider_data for event in ends if event.provider_data is not None]


OPAQUE = [
    pytest.param(
        [tools({**entry(0, "a", "f", X), "extra_content": SIGNATURE, "type": "function", "thought_signature": None})],
        [{"call": {"extra_content": SIGNATURE}}],
        id="of a call",
    ),
    pytest.param(
        [
            tools({**entry(0, "a", "f", X), "extra_content": {"a": 1, "b": 1}}),
            tools({"index": 0, "extra_content": {"b": 2}, "function": {"thought_signature": "s", "arguments": ""}}),
        ],
        [{"call": {"extra_content": {"a": 1, "b": 2}}, "function": {"thought_signature": "s"}}],
        id="in several deltas",
    ),
    pytest.param(
        [tools({"index": 0, "extra_content": SIGNATURE}), tools(entry(0, "a", "f", X))],
        [{"call": {"extra_content": SIGNATURE}}],
        id="before the call",
    ),
    pytest.param([tools({"name": "f", "arguments": X, "novel": 1})], [{"call": {"novel": 1}}], id="of a flat call"),
    pytest.param(
        [{"content": "hi", "extra_content": SIGNATURE, "annotations": [1], "novel": None, "other": {}}],
        [chat_data(extra_content=SIGNATURE)],
        id="of a message",
    ),
    pytest.param(
        [{"reasoning": "hm"}, {"content": "hi"}, {"reasoning_signature": "late"}],
        [chat_data("reasoning"), chat_data(reasoning_signature="late")],
        id="after the reasoning",
    ),
    pytest.param(
        [{"reasoning": "hm", "novel": 1}, {"content": "hi"}, {"reasoning_signature": "late", "novel": 2}],
        [chat_data("reasoning", novel=2, reasoning_signature="late")],
        id="with the reasoning and after it",
    ),
    pytest.param([{"content": "hi", "reasoning_details": [ENCRYPTED]}],
                 [chat_data(reasoning_details=[ENCRYPTED])], id="encrypted details"),
    pytest.param(
        [
            {"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]},
            {"reasoning": "b", "reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0}]},
            {"reasoning_details": [{"type": "reasoning.text", "signature": "s", "text": None, "index": 0}, ENCRYPTED]},
            {"reasoning_details": [{**ENCRYPTED, "data": "def"}]},
        ],
        [
            chat_data(
                "reasoning",
                reasoning_details=[
                    {"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"},
                    {**ENCRYPTED, "data": "abcdef"},
                ],
            )
        ],
        id="details in pieces",
    ),
    pytest.param(
        [{"reasoning_details": [{"type": "reasoning.encrypted", "data": text} for text in "ab"]}],
        [chat_data(reasoning_details=[{"type": "reasoning.encrypted", "data": text} for text in "ab"])],
        id="encrypted details without an index",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("deltas", "data"), OPAQUE)
def test_what_only_the_server_understands_is_kept(deltas: list[dict[str, Any]], data: list[dict[str, Any]]) -> None:
    assert data_of(said(*deltas)) == data


def test_details_of_a_complete_message_replace_those_of_its_deltas() -> None:
    details = [{"type": "reasoning.text", "text": "hm", "index": 0}]
    events = fold(
        *(delta(reasoning=piece, reasoning_details=[{**details[0], "text": piece}]) for piece in "hm"),
        message(content="four", reasoning="hm", reasoning_details=details),
    )
    assert data_of(events) == [chat_data("reasoning", reasoning_details=details)]
    assert thoughts(events) == "hm"


@pytest.mark.parametrize(
    "piece",
    [
        {"novel": "x" * (MAX_HELD_BYTES // 4)},
        tools({"index": 0, "function": {"name": "f", "novel": "x" * (MAX_HELD_BYTES // 4)}}),
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x" * (MAX_HELD_BYTES // 4)}]},
    ],
)
def test_what_is_kept_is_bounded_and_what_is_replaced_does_not_count(piece: dict[str, Any]) -> None:
    stream = OpenAiStream(_error)
    stream.feed([(b"", orjson.dumps(delta(novel="x" * 1_000)))] * 10)
    pieces = [orjson.dumps(delta(**piece)).replace(b"novel", b"novel%d" % number) for number in range(5)]
    with pytest.raises(ProviderError, match="too much data"):
        stream.feed([(b"", data) for data in itertools.chain(pieces)])


@pytest.mark.parametrize(
    ("document", "detail"),
    [
        ({"error": "no model is loaded"}, "no model is loaded"),
        ({"error": [{"message": "gone", "code": 502}]}, "gone"),
        ({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "slow down"}}, "slow down"),
        ({"code": 1210, "msg": "bad input", "success": False}, "bad input"),
        ({"object": "error", "message": "bad", "code": 400}, "bad"),
    ],
)
def test_an_error_with_status_200_is_an_error(document: dict[str, Any], detail: str) -> None:
    with pytest.raises(ProviderError, match=detail):
        fold(delta(content="half"), document)
    with pytest.raises(ProviderError, match=detail):
        OpenAiStream(_error).whole(orjson.dumps(document))
    with pytest.raises(ProviderError, match=detail):
        OpenAiStream(_error).whole(orjson.dumps([document]))


def test_a_sound_base_resp_is_no_error() -> None:
    assert finish(fold({**message(content="hi"), "base_resp": {"status_code": 0, "status_msg": ""}})) == "stop"


EVENTS = [
    (b"ping", b"ping"),
    (b"ping", b'{"type":'),
    (b"keepalive", b"{}"),
    (b"", b"ping"),
    (b"", b"null"),
    (b"", b"true"),
    (b"", b""),
    (b"", b"[]"),
    (b"", b"123"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_without_a_document_says_nothing(event: tuple[bytes, bytes]) -> None:
    stream = OpenAiStream(_error)
    assert stream.feed([event]) == []
    assert not stream.done
    assert prose(stream.feed([(b"", b"  " + orjson.dumps(delta(content="hi")))])) == "hi"


def test_an_error_event_may_be_words() -> None:
    with pytest.raises(ProviderError, match="upstream gone"):
        OpenAiStream(_error).feed([(b"error", b"upstream gone")])
