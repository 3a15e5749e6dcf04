from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ContextOverflowError, ProviderError
from app.llm.anthropic import DEFAULT_MAX_TOKENS, AnthropicProvider
from app.llm.anthropic_stream import AnthropicStream
from app.llm.base import BlockEnd, ModelRequest, ReasoningDelta, StreamEvent, TextDelta, ToolCallStart, UsageReport
from app.llm.sse import SseParser

from .servers import LocalServer, Scripted, document, local_server
from .values import LIST, READ_FILE, calls, collect, finish, prose, request, thoughts, usage, user

Event = dict[str, Any]

START: Event = {
    "type": "message_start",
    "message": {
        "id": "msg",
        "role": "assistant",
        "content": [],
        "usage": {
            "input_tokens": 5,
            "cache_creation_input_tokens": 7,
            "cache_read_input_tokens": 11,
            "output_tokens": 1,
        },
    },
}
STOP: Event = {"type": "message_stop"}


def begin(index: int, kind: str, **fields: Any) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def more(index: int, kind: str, **fields: Any) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, **counts: Any) -> Event:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": counts or None}


def words(index: int, *pieces: str) -> list[Event]:
    return [begin(index, "text", text=""), *(more(index, "text_delta", text=piece) for piece in pieces), stop(index)]


def named(*events: Event) -> list[bytes]:
    return [b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in events]


async def run(*answers: Scripted, asked: ModelRequest | None = None) -> tuple[list[StreamEvent], LocalServer]:
    async with local_server(*answers) as server:
        provider = AnthropicProvider("anthropic", server.url, "sk-ant-key-0123456789", idle_timeout_s=60)
        try:
            return await collect(provider.stream(asked or request())), server
        finally:
            await provider.aclose()


async def said(*events: Event) -> list[StreamEvent]:
    return (await run(Scripted(pieces=named(*events))))[0]


async def failed(*answers: Scripted) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await run(*answers)
    return caught.value


async def test_text_streams_and_ends_with_usage() -> None:
    events = await said(START, {"type": "ping"}, *words(0, "He", "llo"), ending("end_turn", output_tokens=9), STOP)
    assert (prose(events), finish(events)) == ("Hello", "stop")
    report = usage(events)
    assert report is not None
    assert (report.input_tokens, report.cache_write_tokens, report.cache_read_tokens) == (5, 7, 11)
    assert (report.output_tokens, report.cost_usd) == (9, None)
    assert [event for event in events if isinstance(event, BlockEnd)] == [BlockEnd(0)]


async def test_input_is_reported_before_the_answer_comes() -> None:
    first = (await said(START, *words(0, "x"), ending("end_turn"), STOP))[0]
    assert isinstance(first, UsageReport)
    assert first.usage.input_tokens == 5


async def test_null_fields_do_not_erase_what_was_counted() -> None:
    last = ending("end_turn", output_tokens=9, input_tokens=None, cache_read_input_tokens=None)
    report = usage(await said(START, *words(0, "x"), last, STOP))
    assert report is not None
    assert (report.input_tokens, report.cache_read_tokens, report.output_tokens) == (5, 11, 9)


async def test_reasoning_tokens_of_the_output_are_reported() -> None:
    last = ending("end_turn", output_tokens=9, output_tokens_details={"thinking_tokens": 4})
    report = usage(await said(START, *words(0, "x"), last, STOP))
    assert report is not None
    assert report.reasoning_tokens == 4


@pytest.mark.parametrize("ending_of_url", ["", "/", "/v1", "/v1/"])
async def test_the_request_has_the_documented_format(ending_of_url: str) -> None:
    answer = Scripted(pieces=named(START, *words(0, "x"), ending("end_turn"), STOP))
    asked = request(user("Hi"), tools=(READ_FILE,), max_output_tokens=99, temperature=0.5, stop=("END", " "))
    async with local_server(answer) as server:
        provider = AnthropicProvider("anthropic", server.url + ending_of_url, "the-key", idle_timeout_s=5)
        await collect(provider.stream(asked))
        await provider.aclose()
    (got,) = server.asked
    assert got.path == "/v1/messages"
    assert got.headers["x-api-key"] == "the-key"
    assert got.headers["anthropic-version"] == "2023-06-01"
    body = got.json
    assert (body["max_tokens"], body["temperature"], body["stop_sequences"]) == (99, 0.5, ["END"])
    assert body["tools"][0]["name"] == "read_file"


async def test_a_limit_is_sent_even_if_none_was_requested() -> None:
    _, server = await run(Scripted(pieces=named(START, *words(0, "x"), ending("end_turn"), STOP)))
    assert server.asked[0].json["max_tokens"] == DEFAULT_MAX_TOKENS
    assert "temperature" not in server.asked[0].json


async def test_thinking_is_kept_complete_with_its_signature() -> None:
    events = await said(
        START,
        begin(0, "thinking", thinking="", signature=""),
        more(0, "thinking_delta", thinking="let me "),
        more(0, "thinking_delta", thinking="see"),
        more(0, "signature_delta", signature="abc"),
        more(0, "signature_delta", signature="def"),
        stop(0),
        begin(1, "redacted_thinking", data="xyz"),
        stop(1),
        *words(2, "Yes."),
        ending("end_turn"),
        STOP,
    )
    assert thoughts(events) == "let me see"
    assert BlockEnd(0, {"type": "thinking", "thinking": "let me see", "signature": "abcdef"}) in events
    assert BlockEnd(1, {"type": "redacted_thinking", "data": "xyz"}) in events
    assert ReasoningDelta(1, "") in events
    assert TextDelta(2, "Yes.") in events


async def test_thinking_without_a_signature_is_kept_without_one() -> None:
    events = await said(
        START, begin(0, "thinking", thinking="", signature="", novel=1), more(0, "thinking_delta", thinking="hm"),
        stop(0), begin(1, "thinking", thinking=""), stop(1), *words(2, "Yes."), ending("end_turn"), STOP,
    )  # fmt: skip
    assert BlockEnd(0, {"type": "thinking", "thinking": "hm", "novel": 1}) in events
    assert BlockEnd(1, None) in events


async def test_calls_stream_their_arguments() -> None:
    events = await said(
        START,
        *words(0, "I look."),
        begin(1, "tool_use", id="toolu_1", name="read_file", input={}),
        more(1, "input_json_delta", partial_json=""),
        more(1, "input_json_delta", partial_json='{"path":'),
        more(1, "input_json_delta", partial_json='"a"}'),
        stop(1),
        begin(2, "tool_use", id="toolu_2", name="list_directory", input={}),
        stop(2),
        begin(3, "tool_use", id="toolu_3", name="write_file", input={"path": "b"}),
        stop(3),
        ending("tool_use"),
        STOP,
    )
    assert calls(events) == [("read_file", '{"path":"a"}'), ("list_directory", ""), ("write_file", '{"path":"b"}')]
    assert finish(events) == "tool_calls"
    assert [event.block for event in events if isinstance(event, BlockEnd)] == [0, 1, 2, 3]


async def test_an_unknown_kind_of_block_gets_no_number() -> None:
    events = await said(
        START, begin(0, "server_tool_use", name="web_search"), more(0, "input_json_delta", partial_json="{}"), stop(0),
        begin(1, "tool_use", name="read_file"), stop(1), ending("tool_use"), STOP,
    )  # fmt: skip
    assert ToolCallStart(0, "read_file") in events


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        ("model_context_window_exceeded", "context_overflow"),
    ],
)
async def test_stop_reasons_are_translated(reason: str, expected: str) -> None:
    assert finish(await said(START, *words(0, "x"), ending(reason), STOP)) == expected


@pytest.mark.parametrize(
    ("kind", "code", "retryable"),
    [
        ("overloaded_error", "provider_overloaded", True),
        ("rate_limit_error", "provider_rate_limited", True),
        ("api_error", "provider_server_error", True),
        ("timeout_error", "provider_server_error", True),
        ("something_new", "provider_server_error", True),
        ("invalid_request_error", "provider_bad_request", False),
        ("authentication_error", "provider_auth", False),
    ],
)
async def test_an_error_in_mid_stream(kind: str, code: str, retryable: bool) -> None:
    broken = {"type": "error", "error": {"type": kind, "message": "It broke"}}
    error = await failed(Scripted(pieces=named(START, *words(0, "half"), broken)))
    assert (error.code, error.retryable, error.http_status) == (code, retryable, None)
    assert "It broke" in error.detail


async def test_an_overflow_as_an_answer_and_in_mid_stream() -> None:
    body = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
    }
    for answer in (document(400, body), Scripted(pieces=named(START, body))):
        error = await failed(answer)
        assert isinstance(error, ContextOverflowError)
        assert (error.limit, error.requested) == (8, 9)


async def test_an_early_end_is_a_failure_but_a_missing_message_stop_is_not() -> None:
    error = await failed(Scripted(pieces=named(START, *words(0, "half"))))
    assert (error.code, error.retryable) == ("provider_stream_ended", True)
    assert (await failed(Scripted(pieces=named(START, ending(None), STOP)))).retryable
    events, _ = await run(Scripted(pieces=named(START, *words(0, "x"), ending("end_turn")), end="cut"))
    assert finish(events) == "stop"


async def test_a_block_that_was_never_stopped_ends_with_the_message() -> None:
    events = await said(START, begin(0, "text", text=""), more(0, "text_delta", text="x"), ending("max_tokens"), STOP)
    assert events[-2:] == [BlockEnd(0), events[-1]]


@pytest.mark.timeout(20)
async def test_message_stop_ends_the_call_though_the_server_keeps_the_connection() -> None:
    pieces = named(START, *words(0, "x"), ending("end_turn"), STOP)
    events, server = await run(Scripted(pieces=pieces, end="hang"))
    assert finish(events) == "stop"
    await asyncio.wait_for(server.left.wait(), 60)


async def test_text_in_the_start_of_a_block_is_not_lost() -> None:
    events = await said(
        START, begin(0, "text", text="He"), more(0, "text_delta", text="llo"), stop(0), ending("end_turn"), STOP
    )
    assert prose(events) == "Hello"


async def test_nonsense_in_the_stream_is_skipped() -> None:
    junk: list[Event] = [
        {"type": "message_start"},
        {"type": "content_block_delta", "index": 9, "delta": None},
        {"type": "content_block_stop", "index": 9},
        {"type": "content_block_start", "index": 5},
        {"type": "message_delta"},
        {"type": "novelty"},
        more(0, "novelty_delta", text="x"),
    ]
    events = await said(START, begin(0, "text"), *junk, more(0, "text_delta", text="ok"), ending("end_turn"), STOP)
    assert prose(events) == "ok"


async def test_a_server_that_does_not_stream_is_understood() -> None:
    whole = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    events, _ = await run(document(200, whole))
    assert (thoughts(events), prose(events), calls(events)) == ("hm", "Hello", [("f", '{"x":1}')])
    assert BlockEnd(0, {"type": "thinking", "thinking": "hm", "signature": "s"}) in events
    assert usage(events) is not None
    error = await failed(document(200, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}))
    assert error.code == "provider_overloaded"


@pytest.mark.parametrize(
    ("message", "name", "expected"),
    [
        ("max_tokens: 9000 > 4096, which is the maximum allowed number of output tokens", "max_tokens", 4096),
        ("`temperature` is not supported for this model", "temperature", None),
    ],
)
async def test_a_refused_parameter_is_corrected_once_and_remembered(message: str, name: str, expected: Any) -> None:
    answers = [
        document(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}}),
        Scripted(pieces=named(START, *words(0, "ok"), ending("end_turn"), STOP)),
    ]
    async with local_server(*answers) as server:
        provider = AnthropicProvider("anthropic", server.url, None, idle_timeout_s=5)
        for _ in range(2):
            events = await collect(provider.stream(request(max_output_tokens=9000, temperature=0.3)))
            assert prose(events) == "ok"
        await provider.aclose()
    assert [asked.json.get(name) for asked in server.asked[1:]] == [expected, expected]


async def test_closing_the_iterator_closes_the_connection() -> None:
    pieces = named(begin(0, "text", text=""), more(0, "text_delta", text="one"))
    async with local_server(Scripted(pieces=pieces, end="hang")) as server:
        provider = AnthropicProvider("anthropic", server.url, None, idle_timeout_s=30)
        async with aclosing(provider.stream(request())) as stream:  # type: ignore[type-var]
            assert await anext(stream) == TextDelta(0, "one")
        await asyncio.wait_for(server.left.wait(), 60)
        await provider.aclose()


_STREAM = b"".join(
    named(
        START,
        begin(0, "thinking", thinking=""),
        more(0, "thinking_delta", thinking="Grübel 🦶"),
        more(0, "signature_delta", signature="sig"),
        stop(0),
        *words(1, "Ich ", "lese 🦶."),
        begin(2, "tool_use", name="read_file", input={}),
        more(2, "input_json_delta", partial_json='{"path":'),
        more(2, "input_json_delta", partial_json='"ä"}'),
        stop(2),
        ending("tool_use", output_tokens=20),
        STOP,
    )
)


def _facts(chunks: Sequence[bytes]) -> object:
    def no_error(status: int | None, body: str) -> ProviderError:
        raise AssertionError(body)

    stream, parser = AnthropicStream(no_error), SseParser()
    events = [event for chunk in chunks for event in stream.feed(parser.feed(chunk))] + stream.end()
    ends = [event for event in events if isinstance(event, BlockEnd)]
    return thoughts(events), prose(events), calls(events), usage(events), finish(events), ends


@given(st.lists(st.integers(0, len(_STREAM)), max_size=30))
def test_the_stream_may_be_split_anywhere(cuts: list[int]) -> None:
    chunks = [_STREAM[start:end] for start, end in pairwise(sorted({0, len(_STREAM), *cuts}))]
    assert _facts(chunks) == _facts([_STREAM])


A = '{"path": "a.txt"}'


@pytest.mark.parametrize(
    ("block", "pieces"),
    [
        ({"input": {}}, [A[:4], A[4:]]),
        ({"input": {}}, [A[:4], A[:9], A]),
        ({"input": {}}, [A[:4], A[4:], A]),
        ({"input": {"path": "a.txt"}}, [A]),
        ({"input": {"path": "a.txt"}}, [A[:4]]),
        ({}, ["{}", A]),
        ({}, [orjson.dumps(A).decode()]),
    ],
)
async def test_arguments_that_come_as_snapshots_are_not_doubled(block: Event, pieces: list[str]) -> None:
    events = await said(
        START, begin(0, "tool_use", name="functions.f", **block),
        *(more(0, "input_json_delta", partial_json=piece) for piece in pieces), stop(0), ending("tool_use"), STOP,
    )  # fmt: skip
    ((name, arguments),) = calls(events)
    assert (name, orjson.loads(arguments)) == ("f", {"path": "a.txt"})


async def test_blocks_whose_start_is_missing_are_read() -> None:
    events = await said(
        START, more(0, "thinking_delta", thinking="hm"), more(1, "text_delta", text="hi"),
        more(2, "input_json_delta", partial_json="{}"), ending("tool_use"), STOP,
    )  # fmt: skip
    assert (thoughts(events), prose(events), calls(events)) == ("hm", "hi", [("unknown", "{}")])


async def test_what_only_the_server_understands_of_a_call_is_kept() -> None:
    call = begin(0, "tool_use", id="t", name="f", input={}, signature="s", caller=None)
    signed = more(0, "signature_delta", signature="t")
    assert BlockEnd(0, {"call": {"signature": "s"}}) in await said(START, call, stop(0), ending("tool_use"), STOP)
    assert BlockEnd(0, {"call": {"signature": "st"}}) in await said(START, call, signed, ending("tool_use"), STOP)


async def test_a_call_that_is_written_as_text_is_read() -> None:
    markup = '<tool_call>{"name": "list_directory", "arguments": {}}</tool_call>'
    answer = Scripted(pieces=named(START, *words(0, "I look.", markup), ending("end_turn"), STOP))
    events, _ = await run(answer, asked=request(tools=(LIST,)))
    assert (prose(events), calls(events)) == ("I look.", [("list_directory", "{}")])
    assert finish(events) == "tool_calls"
    events, _ = await run(answer)
    assert (prose(events), finish(events)) == ("I look." + markup, "stop")


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "It broke"}},
        {"error": "It broke"},
        {"type": "error", "error": "It broke"},
        {"base_resp": {"status_code": 1000, "status_msg": "It broke"}},
    ],
)
async def test_an_error_of_another_shape_is_an_error(error: Event) -> None:
    assert "It broke" in (await failed(Scripted(pieces=[*named(START), b"data: %s\n\n" % orjson.dumps(error)]))).detail
    assert "It broke" in (await failed(document(200, error))).detail
