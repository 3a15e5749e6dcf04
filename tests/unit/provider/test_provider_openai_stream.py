"""The shapes of a Chat Completions answer, parsed by hand."""

from __future__ import annotations

import json

import pytest

from tests.provider import (
    Begin,
    EndWithoutFinish,
    FakeProvider,
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
from tests.unit.provider.wire import JSON, deltas, openai_body, post, stream_events, user

INCLUDE = {"include_usage": True}


def call_deltas(chunks: list[JSON]) -> list[JSON]:
    return [delta["tool_calls"][0] for delta in deltas(chunks)]


def arguments(items: list[JSON], index: int) -> str:
    return "".join(i["function"].get("arguments", "") for i in items if i["index"] == index)


def test_text_comes_in_the_asked_number_of_pieces(provider: FakeProvider) -> None:
    provider.script(Reply(Text("hello you", chunks=4)))
    chunks = stream_events(provider, "openai")
    pieces = [delta["content"] for delta in deltas(chunks)]
    assert len(pieces) == 4
    assert "".join(pieces) == "hello you"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * 5


def test_the_stream_ends_with_done(provider: FakeProvider) -> None:
    assert post(provider, "openai", openai_body(stream=True)).text.endswith("\n\ndata: [DONE]\n\n")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_out_under_either_name(provider: FakeProvider, name: str) -> None:
    provider.script(Reply(Reasoning("let me see", chunks=2, name=name), Text("ok")))  # type: ignore[arg-type]
    found = list(deltas(stream_events(provider, "openai")))
    assert [list(delta) for delta in found] == [[name], [name], ["content"]]
    assert found[0][name] + found[1][name] == "let me see"


def test_a_call_begins_with_id_and_name_and_goes_on_with_arguments(provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("ls", {"path": "/workspace"}, chunks=3)))
    chunks = stream_events(provider, "openai")
    first, *rest = call_deltas(chunks)
    assert first == {"index": 0, "id": "call_0_0", "type": "function", "function": {"name": "ls", "arguments": ""}}
    assert [set(item) for item in rest] == [{"index", "function"}] * 3
    assert json.loads(arguments(rest, 0)) == {"path": "/workspace"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_whole_call_in_one_chunk(provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("ls", {"a": 1}, whole=True)))
    (only,) = call_deltas(stream_events(provider, "openai"))
    assert only["function"] == {"name": "ls", "arguments": '{"a": 1}'}


def test_parallel_calls_take_turns(provider: FakeProvider) -> None:
    provider.script(Reply(Interleaved(ToolCall("a", {"x": 1}, chunks=3), ToolCall("b", {"y": 2}, chunks=2))))
    items = call_deltas(stream_events(provider, "openai"))
    assert [item["index"] for item in items] == [0, 1, 0, 1, 0, 1, 0]
    assert [json.loads(arguments(items, index)) for index in (0, 1)] == [{"x": 1}, {"y": 2}]
    assert len({item["id"] for item in items if "id" in item}) == 2


def test_ids_may_be_missing_repeated_or_given(provider: FakeProvider) -> None:
    provider.script(
        Reply(ToolCall("a", omit_id=True)),
        Reply(ToolCall("a", {"x": 1}, chunks=2, repeat_id=True)),
        Reply(ToolCall("a", id="same"), ToolCall("b", id="same")),
    )
    assert not any("id" in item for item in call_deltas(stream_events(provider, "openai")))
    assert [item["id"] for item in call_deltas(stream_events(provider, "openai"))] == ["call_1_0"] * 3
    same = [item for item in call_deltas(stream_events(provider, "openai")) if "id" in item]
    assert [(item["index"], item["id"]) for item in same] == [(0, "same"), (1, "same")]


def test_raw_arguments_need_not_be_json(provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("a", '{"broken": ')))
    assert arguments(call_deltas(stream_events(provider, "openai")), 0) == '{"broken": '


def test_raw_bytes_go_between_events(provider: FakeProvider) -> None:
    provider.script(Reply(Text("a"), Raw(b": keep-alive\n\n"), Text("b")))
    assert b'"a"}' in (raw := post(provider, "openai", openai_body(stream=True)).content)
    assert b"\n\n: keep-alive\n\ndata: " in raw


@pytest.mark.parametrize("reason", ["length", "content_filter", "function_call", "something_new"])
def test_any_finish_reason(provider: FakeProvider, reason: str) -> None:
    provider.script(Reply(Text("a"), finish=reason))
    assert stream_events(provider, "openai")[-1]["choices"][0]["finish_reason"] == reason


def test_an_empty_reply_is_still_a_stream(provider: FakeProvider) -> None:
    provider.script(Reply())
    assert len(stream_events(provider, "openai")) == 2


def test_end_without_finish_is_a_proper_end_of_http(provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), EndWithoutFinish()))
    answer = post(provider, "openai", openai_body(stream=True))
    assert answer.status_code == 200
    assert "half" in answer.text
    assert "[DONE]" not in answer.text
    assert '"finish_reason":"' not in answer.text


def test_an_error_in_the_stream_ends_it(provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), StreamError("server_error", "no", "context_length_exceeded"), Text("never")))
    chunks = stream_events(provider, "openai")
    error = {"message": "no", "type": "server_error", "param": None, "code": "context_length_exceeded"}
    assert chunks[-1] == {"error": error}
    assert len(chunks) == 3


def test_usage_in_a_last_chunk_only_if_asked_for(provider: FakeProvider) -> None:
    provider.script(Reply(Reasoning("r" * 8), Text("t" * 8)), Reply(Text("t")))
    *before, last = stream_events(provider, "openai", stream_options=INCLUDE)
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 4,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert all(chunk["usage"] is None for chunk in before)
    assert not any("usage" in chunk for chunk in stream_events(provider, "openai"))


def test_usage_in_the_choice(provider: FakeProvider) -> None:
    provider.configure(usage="choice")
    last = stream_events(provider, "openai", stream_options=INCLUDE)[-1]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["choices"][0]["usage"]["prompt_tokens"] == 2
    assert "usage" not in last


def test_usage_never(provider: FakeProvider) -> None:
    provider.script(Reply(Text("x"), usage_style="never"))
    assert "usage" not in post(provider, "openai", openai_body(stream=True, stream_options=INCLUDE)).text


def test_a_reply_may_lie_about_its_usage(provider: FakeProvider) -> None:
    provider.script(Reply(Text("x"), usage=Tokens(input=150_000, cache_read=30_000, output=700)))
    usage = stream_events(provider, "openai", stream_options=INCLUDE)[-1]["usage"]
    assert usage["prompt_tokens"] == 180_000
    assert usage["prompt_tokens_details"] == {"cached_tokens": 30_000}
    assert usage["completion_tokens"] == 700


def test_the_whole_answer_says_the_same(provider: FakeProvider) -> None:
    provider.script(Reply(Begin(), Reasoning("hm"), Text("a", chunks=3), Text("b"), ToolCall("ls", {"x": 1}, id="c")))
    body = post(provider, "openai", openai_body()).json()
    message = body["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("ab", "hm")
    function = {"name": "ls", "arguments": '{"x": 1}'}
    assert message["tool_calls"] == [{"id": "c", "type": "function", "function": function}]
    assert body["choices"][0]["finish_reason"] == "tool_calls"
    assert body["usage"]["prompt_tokens"] == 2


def test_whole_answers_report_usage_where_asked(provider: FakeProvider) -> None:
    provider.script(Reply(Text("a"), usage_style="choice"), Reply(Text("a"), usage_style="never"))
    in_choice = post(provider, "openai", openai_body()).json()
    assert "usage" in in_choice["choices"][0]
    assert "usage" not in in_choice
    assert "usage" not in post(provider, "openai", openai_body()).text


def test_a_stream_error_is_a_500_where_nothing_streams(provider: FakeProvider) -> None:
    provider.script(Reply(Text("a"), StreamError()))
    assert post(provider, "openai", openai_body()).status_code == 500


def test_error_statuses_have_bodies_and_headers(provider: FakeProvider) -> None:
    provider.script(
        HttpError(429, headers={"Retry-After": "2"}),
        HttpError(503, body={"error": "busy"}),
        Reply(HttpError(500, body=b"")),
        HttpError(418),
    )
    limited, busy, empty, teapot = (post(provider, "openai", openai_body(stream=True)) for _ in range(4))
    assert limited.status_code == 429
    assert limited.headers["retry-after"] == "2"
    assert limited.json()["error"]["code"] == "rate_limit_exceeded"
    assert (busy.status_code, busy.json()) == (503, {"error": "busy"})
    assert (empty.status_code, empty.content) == (500, b"")
    assert teapot.json()["error"]["message"] == "Error 418"
    assert provider.refusals == []


def test_the_answer_can_depend_on_the_request(provider: FakeProvider) -> None:
    provider.respond(lambda request: Reply(Text(request.last_user_text.upper())))
    delta = next(deltas(stream_events(provider, "openai", messages=[user("shout")])))
    assert delta == {"content": "SHOUT"}
