"""The shapes of a Messages answer, parsed by hand."""

from __future__ import annotations

import json

import pytest

from tests.provider import (
    Begin,
    EndWithoutFinish,
    FakeProvider,
    Gate,
    HttpError,
    Interleaved,
    Raw,
    Reasoning,
    Reply,
    StreamError,
    Text,
    Tokens,
    ToolCall,
)
from tests.unit.provider.wire import JSON, anthropic_body, post, stream_events


def kinds(items: list[JSON]) -> list[str]:
    return [item["type"] for item in items]


def block_starts(items: list[JSON]) -> list[tuple[int, str]]:
    return [(i["index"], i["content_block"]["type"]) for i in items if i["type"] == "content_block_start"]


def joined(items: list[JSON], index: int, field: str) -> str:
    found = [i["delta"] for i in items if i["type"] == "content_block_delta" and i["index"] == index]
    return "".join(delta.get(field, "") for delta in found)


def test_the_order_of_events(provider: FakeProvider) -> None:
    provider.script(Reply(Text("hello", chunks=2)))
    answer = post(provider, "anthropic", anthropic_body(stream=True))
    names = [line.removeprefix("event: ") for line in answer.text.split("\n") if line.startswith("event: ")]
    assert names == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    data = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n") if line.startswith("data: ")]
    assert kinds(data) == names
    assert joined(data, 0, "text") == "hello"


def test_blocks_are_numbered_and_closed_before_the_next(provider: FakeProvider) -> None:
    provider.script(Reply(Reasoning("hm", chunks=2), Text("a"), ToolCall("x", {"k": 1}, chunks=2), Text("b")))
    items = stream_events(provider, "anthropic")
    assert block_starts(items) == [(0, "thinking"), (1, "text"), (2, "tool_use"), (3, "text")]
    open_blocks: set[int] = set()
    for item in items:
        if item["type"] == "content_block_start":
            assert not open_blocks
            open_blocks.add(item["index"])
        elif item["type"] == "content_block_stop":
            open_blocks.remove(item["index"])
    assert not open_blocks
    assert json.loads(joined(items, 2, "partial_json")) == {"k": 1}


def test_parts_of_one_kind_in_a_row_are_one_block(provider: FakeProvider) -> None:
    provider.open("g")
    provider.script(Reply(Reasoning("a"), Reasoning("b"), Text("c"), Gate("g"), Text("d")))
    items = stream_events(provider, "anthropic")
    assert block_starts(items) == [(0, "thinking"), (1, "text")]
    assert (joined(items, 0, "thinking"), joined(items, 1, "text")) == ("ab", "cd")


def test_a_signature_closes_the_thinking(provider: FakeProvider) -> None:
    provider.script(Reply(Reasoning("hm"), Reasoning("secret", redacted=True), Text("a")))
    items = stream_events(provider, "anthropic")
    first = [i for i in items if i.get("index") == 0]
    assert first[-2]["delta"]["type"] == "signature_delta"
    assert len(first[-2]["delta"]["signature"]) > 20
    assert block_starts(items)[1] == (1, "redacted_thinking")
    assert "secret" not in json.dumps(items)


def test_a_call_carries_id_name_and_json(provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("ls", {"a": [1, 2]}, chunks=3), ToolCall("pwd", whole=True), ToolCall("x", "{bad")))
    items = stream_events(provider, "anthropic")
    starts = [i["content_block"] for i in items if i["type"] == "content_block_start"]
    assert starts[0] == {"type": "tool_use", "id": "toolu_0_0", "name": "ls", "input": {}}
    assert len({start["id"] for start in starts}) == 3
    assert json.loads(joined(items, 0, "partial_json")) == {"a": [1, 2]}
    assert joined(items, 2, "partial_json") == "{bad"
    assert items[-2]["delta"]["stop_reason"] == "tool_use"


def test_ids_may_be_missing_or_given(provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("a", omit_id=True), ToolCall("b", id="mine")))
    starts = [i for i in stream_events(provider, "anthropic") if i["type"] == "content_block_start"]
    assert "id" not in starts[0]["content_block"]
    assert starts[1]["content_block"]["id"] == "mine"


def test_parallel_calls_take_turns(provider: FakeProvider) -> None:
    provider.script(Reply(Interleaved(ToolCall("a", {"x": 1}, chunks=2), ToolCall("b", {"y": 2}, chunks=2))))
    items = stream_events(provider, "anthropic")
    assert [i["index"] for i in items if "index" in i] == [0, 1] * 4
    assert [json.loads(joined(items, index, "partial_json")) for index in (0, 1)] == [{"x": 1}, {"y": 2}]


@pytest.mark.parametrize(
    ("neutral", "own"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("context_overflow", "model_context_window_exceeded"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_finish_reasons_in_its_own_words(provider: FakeProvider, neutral: str, own: str) -> None:
    provider.script(Reply(Text("a"), finish=neutral))
    assert stream_events(provider, "anthropic")[-2]["delta"] == {"stop_reason": own, "stop_sequence": None}


def test_an_error_in_the_stream_ends_it(provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), StreamError(), Text("never")), Reply(StreamError("api_error", "no")))
    items = stream_events(provider, "anthropic")
    assert items[-1]["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert kinds(items)[-2:] == ["content_block_delta", "error"]
    assert kinds(stream_events(provider, "anthropic")) == ["message_start", "ping", "error"]


def test_end_without_finish(provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), EndWithoutFinish()), Reply(EndWithoutFinish()))
    assert kinds(stream_events(provider, "anthropic"))[-1] == "content_block_delta"
    assert stream_events(provider, "anthropic") == []


def test_raw_bytes(provider: FakeProvider) -> None:
    provider.script(Reply(Raw(b": hm\n\n")))
    assert "\n\n: hm\n\nevent: message_delta" in post(provider, "anthropic", anthropic_body(stream=True)).text


def test_begin_sends_the_opening_alone(provider: FakeProvider) -> None:
    provider.script(Reply(Begin()))
    assert kinds(stream_events(provider, "anthropic")) == ["message_start", "ping", "message_delta", "message_stop"]


def test_usage_at_both_ends(provider: FakeProvider) -> None:
    provider.script(Reply(Text("x" * 12)))
    items = stream_events(provider, "anthropic")
    start = {"input_tokens": 2, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    assert items[0]["message"]["usage"] == start
    assert items[-2]["usage"]["output_tokens"] == 3
    assert items[-2]["usage"]["input_tokens"] is None


def test_usage_never(provider: FakeProvider) -> None:
    provider.configure(usage="never")
    assert "usage" not in post(provider, "anthropic", anthropic_body(stream=True)).text
    assert "usage" not in post(provider, "anthropic", anthropic_body()).text


def test_a_reply_may_lie_about_its_usage(provider: FakeProvider) -> None:
    provider.script(Reply(Text("x"), usage=Tokens(input=5, cache_read=6, cache_write=7, output=8)))
    usage = post(provider, "anthropic", anthropic_body()).json()["usage"]
    assert list(usage.values()) == [5, 7, 6, 8]


def test_the_whole_answer_says_the_same(provider: FakeProvider) -> None:
    calls = Interleaved(ToolCall("a", id="1"), ToolCall("b", id="2"))
    provider.script(Reply(Reasoning("hm"), Text("t"), calls, EndWithoutFinish()))
    body = post(provider, "anthropic", anthropic_body()).json()
    assert [block["type"] for block in body["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert body["content"][2] == {"type": "tool_use", "id": "1", "name": "a", "input": {}}
    assert body["stop_reason"] == "tool_use"


def test_errors_in_its_own_shape(provider: FakeProvider) -> None:
    provider.script(HttpError(529), HttpError(429, headers={"retry-after": "1"}), Reply(StreamError()))
    overloaded, limited, streamed = (post(provider, "anthropic", anthropic_body()) for _ in range(3))
    assert overloaded.status_code == 529
    assert overloaded.json()["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert limited.headers["retry-after"] == "1"
    assert limited.json()["error"]["type"] == "rate_limit_error"
    assert streamed.status_code == 500
