from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AnswerError, ContextOverflowError, ProviderError
from app.llm.base import BlockEnd, Finish, ModelRequest, ReasoningDelta, StreamEvent, TextDelta, ToolCallStart
from app.llm.openai import OpenAiProvider
from app.llm.openai_stream import OpenAiStream
from app.llm.sse import SseParser

from .servers import LocalServer, Scripted, document, local_server, sse
from .values import READ_FILE, calls, collect, finish, prose, request, thoughts, usage, user

DONE = "[DONE]"


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def tool(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    outer = {"index": index, "id": call_id, "function": function}
    return {key: value for key, value in outer.items() if value is not None}


def tools(*deltas: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=list(deltas))


async def run(*answers: Scripted, asked: ModelRequest | None = None) -> tuple[list[StreamEvent], LocalServer]:
    async with local_server(*answers) as server:
        provider = OpenAiProvider("acme", server.url + "/v1", "sk-key-0123456789ab", idle_timeout_s=60)
        try:
            return await collect(provider.stream(asked or request())), server
        finally:
            await provider.aclose()


async def said(*documents: dict[str, Any] | str) -> list[StreamEvent]:
    return (await run(Scripted(pieces=sse(*documents))))[0]


async def failed(*answers: Scripted) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await run(*answers)
    return caught.value


async def test_text_streams_and_ends_with_usage() -> None:
    events = await said(
        delta(role="assistant", content=""),
        delta(content="He"),
        delta(content="llo"),
        delta("stop"),
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}},
        DONE,
    )
    assert prose(events) == "Hello"
    assert finish(events) == "stop"
    report = usage(events)
    assert report is not None
    assert (report.input_tokens, report.output_tokens, report.cost_usd) == (10, 2, None)


async def test_the_request_has_the_documented_format() -> None:
    asked = request(user("Hi"), tools=(READ_FILE,), max_output_tokens=99, temperature=0.5, stop=("END",))
    _, server = await run(Scripted(pieces=sse(delta("stop", content="x"), DONE)), asked=asked)
    (got,) = server.asked
    assert got.path == "/v1/chat/completions"
    assert got.headers["authorization"] == "Bearer sk-key-0123456789ab"
    assert got.json == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "stop": ["END"],
        "max_tokens": 99,
        "tools": [
            {
                "type": "function",
                "function": {"name": "read_file", "description": "Reads a file.", "parameters": READ_FILE.parameters},
            }
        ],
        "messages": [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Hi"}],
    }


async def test_no_key_means_no_header() -> None:
    async with local_server(Scripted(pieces=sse(delta("stop", content="x"), DONE))) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=5)
        await collect(provider.stream(request()))
        await provider.aclose()
    assert "authorization" not in server.asked[0].headers


async def test_blocks_are_numbered_in_order_and_each_ends_once() -> None:
    events = await said(
        delta(reasoning_content="hm"),
        delta(content="I look"),
        tools(tool(0, "a", "read_file", "")),
        tools(tool(0, None, None, '{"path":"x"}')),
        delta(content="and more"),
        delta("tool_calls"),
        DONE,
    )
    first_seen: list[tuple[int, type]] = []
    for event in events:
        block = getattr(event, "block", None)
        if block is not None and block not in [number for number, _ in first_seen]:
            first_seen.append((block, type(event)))
    assert first_seen == [(0, ReasoningDelta), (1, TextDelta), (2, ToolCallStart), (3, TextDelta)]
    ends = [event.block for event in events if isinstance(event, BlockEnd)]
    assert sorted(ends) == [0, 1, 2, 3]
    thought = BlockEnd(0, {"type": "chat", "place": "reasoning_content"})
    assert events.index(thought) < events.index(TextDelta(1, "I look"))
    assert events.index(BlockEnd(1)) < events.index(ToolCallStart(2, "read_file"))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_found_under_both_names(field: str) -> None:
    events = await said(delta(**{field: "let me "}), delta(**{field: "see"}), delta("stop", content="ok"), DONE)
    assert (thoughts(events), prose(events)) == ("let me see", "ok")


DIALECTS = [
    pytest.param(
        [
            tools(tool(0, "a", "f", "")),
            tools(tool(1, "b", "g", "")),
            tools(tool(0, None, None, '{"x"')),
            tools(tool(1, None, None, '{"y":')),
            tools(tool(0, None, None, ":1}"), tool(1, None, None, "2}")),
        ],
        id="interleaved by index",
    ),
    pytest.param([tools(tool(0, "a", "f", '{"x":1}'), tool(1, "b", "g", '{"y":2}'))], id="whole calls in one chunk"),
    pytest.param([tools(tool(0, None, "f", '{"x":1}')), tools(tool(1, None, "g", '{"y":2}'))], id="no id"),
    pytest.param(
        [
            tools(tool(0, "a", "f", '{"x"')),
            tools(tool(0, "a", "f", ":1}")),
            tools(tool(1, "b", "g", '{"y"')),
            tools(tool(1, "b", "g", ":2}")),
        ],
        id="id and name repeated",
    ),
    pytest.param(
        [
            tools(tool(0, "a1", "f", "")),
            tools(tool(0, "a2", None, '{"x":1}')),
            tools(tool(1, "b1", "g", "")),
            tools(tool(1, "b2", None, '{"y":2}')),
        ],
        id="a new id in every delta",
    ),
    pytest.param([tools(tool(None, "a", "f", '{"x":1}')), tools(tool(None, "b", "g", '{"y":2}'))], id="no index"),
    pytest.param(
        [
            tools(tool(None, "a", "f", '{"x'), tool(None, "b", "g", '{"y')),
            tools(tool(None, "a", None, '":1}'), tool(None, "b", None, '":2}')),
        ],
        id="interleaved by id",
    ),
    pytest.param(
        [
            tools(tool(None, "a", "f", '{"x"')),
            tools(tool(None, "a", None, ":1}")),
            tools(tool(None, "b", "g", "")),
            tools(tool(None, None, None, '{"y":2}')),
        ],
        id="no index, in pieces",
    ),
    pytest.param(
        [tools(tool(None, None, "f", '{"x":1}'), tool(None, None, "g", '{"y":2}'))], id="neither index nor id"
    ),
    pytest.param([tools(tool(0, "a", "f", '{"x":1}')), tools(tool(0, "b", "g", '{"y":2}'))], id="always index 0"),
    pytest.param([tools(tool(0, "same", "f", '{"x":1}')), tools(tool(1, "same", "g", '{"y":2}'))], id="one id for all"),
    pytest.param([tools(tool(0, "a", "f", {"x": 1})), tools(tool(1, "b", "g", {"y": 2}))], id="arguments as object"),
]


@pytest.mark.parametrize("chunks", DIALECTS)
async def test_two_calls_in_every_dialect(chunks: list[dict[str, Any]]) -> None:
    events = await said(*chunks, delta("tool_calls"), DONE)
    assert calls(events) == [("f", '{"x":1}'), ("g", '{"y":2}')]
    assert finish(events) == "tool_calls"
    assert len([event for event in events if isinstance(event, BlockEnd)]) == 2


async def test_a_name_in_pieces_is_complete_when_the_call_starts() -> None:
    events = await said(
        tools(tool(0, "a", "read_", "")),
        tools(tool(0, None, "file", "")),
        tools(tool(0, None, None, "{}")),
        delta("tool_calls"),
        DONE,
    )
    assert calls(events) == [("read_file", "{}")]


async def test_calls_without_arguments_are_announced() -> None:
    events = await said(tools(tool(0, "a", "f")), tools(tool(1, "b", "g", "")), delta("tool_calls"), DONE)
    assert calls(events) == [("f", ""), ("g", "")]


async def test_the_old_function_call_is_a_call() -> None:
    events = await said(
        delta(function_call={"name": "f", "arguments": '{"x":'}),
        delta(function_call={"arguments": "1}"}),
        delta("function_call"),
        DONE,
    )
    assert (calls(events), finish(events)) == ([("f", '{"x":1}')], "tool_calls")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
    ],
)
async def test_finish_reasons_are_translated(reason: str, expected: str) -> None:
    assert finish(await said(delta(reason, content="x"), DONE)) == expected


async def test_stop_after_calls_is_calls_and_a_refusal_is_a_refusal() -> None:
    assert finish(await said(tools(tool(0, "a", "f", "{}")), delta("stop"), DONE)) == "tool_calls"
    refusal = await said(delta(refusal="I won't."), delta("stop"), DONE)
    assert (prose(refusal), finish(refusal)) == ("I won't.", "refusal")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 3}, (10, 0, 0, 3, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens": 3}, (6, 4, 0, 3, 0)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 8, "completion_tokens": 3}, (2, 8, 0, 3, 0)),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 5}},
            (1, 4, 5, 0, 0),
        ),
        (
            {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 5}},
            (1, 0, 0, 9, 5),
        ),
        (
            {
                "prompt_tokens": 1,
                "completion_tokens": 4,
                "total_tokens": 10,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            (1, 0, 0, 9, 5),
        ),
        ({"prompt_tokens": None, "completion_tokens": "x", "prompt_tokens_details": None}, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 7}}, (0, 3, 0, 0, 0)),
        ({"prompt_tokens": -3, "completion_tokens": 1e300}, (0, 0, 0, 0, 0)),
    ],
)
async def test_usage_is_converted_to_the_neutral_shape(raw: dict[str, Any], expected: tuple[int, ...]) -> None:
    report = usage(await said(delta("stop", content="x"), {"choices": [], "usage": raw}, DONE))
    assert report is not None
    assert expected == (
        report.input_tokens,
        report.cache_read_tokens,
        report.cache_write_tokens,
        report.output_tokens,
        report.reasoning_tokens,
    )


async def test_the_cost_is_what_the_provider_billed() -> None:
    report = usage(await said(delta("stop", content="x"), {"choices": [], "usage": {"prompt_tokens": 1, "cost": 0.25}}))
    assert report is not None
    assert report.cost_usd == 0.25


async def test_usage_inside_the_choice_counts_and_the_last_report_wins() -> None:
    chunk = delta("stop", content="x")
    chunk["choices"][0]["usage"] = {"prompt_tokens": 7, "completion_tokens": 1}
    chunk["usage"] = None
    report = usage(await said({**delta(content="w"), "usage": {"prompt_tokens": 1}}, chunk, DONE))
    assert report is not None
    assert report.input_tokens == 7


async def test_no_usage_is_no_report() -> None:
    assert usage(await said(delta("stop", content="x"), DONE)) is None


@pytest.mark.parametrize(
    "pieces",
    [
        sse(delta(content="half")),
        sse(DONE),
        [],
    ],
)
async def test_a_stream_without_a_finish_has_failed(pieces: Sequence[bytes]) -> None:
    error = await failed(Scripted(pieces=pieces))
    assert (error.code, error.retryable) == ("provider_stream_ended", True)


async def test_a_finish_without_done_is_enough() -> None:
    assert finish(await said(delta("stop", content="x"))) == "stop"
    events, _ = await run(Scripted(pieces=sse(delta("stop", content="x")), end="cut"))
    assert finish(events) == "stop"


@pytest.mark.timeout(20)
async def test_done_ends_the_call_though_the_server_keeps_the_connection() -> None:
    events, server = await run(Scripted(pieces=sse(delta("stop", content="x"), DONE), end="hang"))
    assert finish(events) == "stop"
    await asyncio.wait_for(server.left.wait(), 60)


async def test_garbage_in_the_stream_is_retryable() -> None:
    error = await failed(Scripted(pieces=[b'data: {"choices":[{"del\n\n']))
    assert (error.code, error.retryable) == ("provider_bad_response", True)


async def test_half_a_surrogate_pair_is_not_a_failure() -> None:
    events = await said(r'{"choices":[{"delta":{"content":"a\ud83e b"},"finish_reason":"stop"}]}', DONE)
    assert prose(events) == "a� b"


async def test_a_nul_cannot_be_stored_and_is_replaced() -> None:
    assert prose(await said(delta("stop", content="a\x00b"))) == "a�b"


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        ({"message": "Overloaded", "code": 529}, "provider_overloaded", True),
        ({"message": "No credit", "code": 402}, "provider_bad_request", False),
        ({"message": "Slow down", "code": 429}, "provider_rate_limited", True),
        ({"message": "The server had an error", "type": "server_error"}, "provider_server_error", True),
        ("Something broke", "provider_server_error", True),
    ],
)
async def test_an_error_in_mid_stream(error: Any, code: str, retryable: bool) -> None:
    caught = await failed(Scripted(pieces=sse(delta(content="half"), {"error": error})))
    assert (caught.code, caught.retryable, caught.http_status) == (code, retryable, None)
    assert (error if isinstance(error, str) else error["message"]) in caught.detail


async def test_other_shapes_of_an_error_in_mid_stream() -> None:
    old_vllm = {"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}
    assert (await failed(Scripted(pieces=sse(old_vllm)))).code == "provider_bad_request"
    named = await failed(Scripted(pieces=[b'event: error\ndata: {"message":"gone"}\n\n']))
    assert named.detail == "acme reported an error: gone"
    assert (await failed(Scripted(pieces=sse(delta("error", content="x"))))).retryable


async def test_an_overflow_in_mid_stream() -> None:
    error = await failed(Scripted(pieces=sse({"error": {"code": "context_length_exceeded", "message": "too long"}})))
    assert isinstance(error, ContextOverflowError)


async def test_a_server_that_does_not_stream_is_understood() -> None:
    whole = {
        "choices": [
            {
                "message": {"content": "Hello", "tool_calls": [tool(None, "a", "f", "{}"), tool(None, "b", "g", "{}")]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 6},
    }
    events, _ = await run(document(200, whole))
    assert (prose(events), calls(events)) == ("Hello", [("f", "{}"), ("g", "{}")])
    assert usage(events) is not None
    assert (await failed(document(200, {"error": {"message": "no", "code": 401}}))).code == "provider_auth"
    assert (await failed(document(200, "not json"))).code == "provider_bad_response"


async def test_content_as_a_list_of_pieces() -> None:
    pieces = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, "junk"]
    assert prose(await said(delta("stop", content=pieces))) == "ab"


async def test_nonsense_in_the_chunks_is_skipped() -> None:
    junk: list[dict[str, Any]] = [
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"tool_calls": [None, {"function": None}, {}]}}]},
        {"choices": [{"delta": {"tool_calls": "x", "content": 5}}]},
        {"usage": "x"},
        {},
    ]
    events = await said(*junk, delta("stop", content="ok"))
    assert prose(events) == "ok"


@pytest.mark.parametrize(
    ("message", "extra", "sent_again"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model."
            " Use 'max_completion_tokens' instead.",
            {"param": "max_tokens"},
            {"max_completion_tokens": 50, "temperature": 0.3},
        ),
        (
            "Unsupported value: 'temperature' does not support 0.3 with this model.",
            {"param": "temperature"},
            {"max_tokens": 50},
        ),
        ("Unrecognized request argument supplied: stream_options", {}, {"max_tokens": 50, "temperature": 0.3}),
        (
            "max_tokens is too large: 50. This model supports at most 16 completion tokens.",
            {"param": "max_tokens"},
            {"max_tokens": 16, "temperature": 0.3},
        ),
    ],
)
async def test_a_refused_parameter_is_corrected_once_and_remembered(
    message: str, extra: dict[str, str], sent_again: dict[str, Any]
) -> None:
    answers = [
        document(400, {"error": {"message": message, **extra}}),
        Scripted(pieces=sse(delta("stop", content="ok"), DONE)),
    ]
    async with local_server(*answers) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=5)
        for _ in range(2):
            assert prose(await collect(provider.stream(request(max_output_tokens=50, temperature=0.3)))) == "ok"
        await provider.aclose()
    assert len(server.asked) == 3
    for asked in server.asked[1:]:
        names = ("max_tokens", "max_completion_tokens", "temperature")
        assert {name: asked.json[name] for name in names if name in asked.json} == sent_again
    assert ("stream_options" in server.asked[2].json) == ("stream_options" not in message)


async def test_several_refusals_one_after_the_other() -> None:
    answers = [
        document(400, {"error": {"message": "'max_tokens' is not supported", "param": "max_tokens"}}),
        document(400, {"error": {"message": "'temperature' is not supported", "param": "temperature"}}),
        Scripted(pieces=sse(delta("stop", content="ok"), DONE)),
    ]
    _, server = await run(*answers, asked=request(max_output_tokens=50, temperature=0.3))
    assert len(server.asked) == 3
    assert server.asked[2].json["max_completion_tokens"] == 50


async def test_a_parameter_refused_by_one_model_is_still_sent_to_another() -> None:
    answers = [
        document(400, {"error": {"message": "'temperature' is not supported", "param": "temperature"}}),
        Scripted(pieces=sse(delta("stop", content="ok"), DONE)),
    ]
    async with local_server(*answers) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=5)
        await collect(provider.stream(request(model="picky", temperature=0.3)))
        await collect(provider.stream(request(model="easy", temperature=0.3)))
        await provider.aclose()
    assert server.asked[-1].json["temperature"] == 0.3


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "'messages' is not supported", "param": "messages"}},
        {"error": {"message": "This model does not support tools"}},
        {"error": {"message": "something else"}},
        "plain text",
    ],
)
async def test_another_bad_request_is_not_sent_again(body: Any) -> None:
    async with local_server(document(400, body)) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=5)
        with pytest.raises(AnswerError):
            await collect(provider.stream(request(max_output_tokens=5, temperature=0.1)))
        await provider.aclose()
    assert len(server.asked) == 1


async def test_corrections_are_bounded() -> None:
    body = {"error": "unsupported: temperature max_tokens max_completion_tokens stop stream_options"}
    async with local_server(document(400, body)) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=5)
        with pytest.raises(ProviderError):
            await collect(provider.stream(request(max_output_tokens=5, temperature=0.1, stop=("x",))))
        await provider.aclose()
    assert 2 < len(server.asked) < 8
    assert "max_tokens" not in server.asked[-1].json


def test_openai_itself_gets_the_new_name_first() -> None:
    own = OpenAiProvider("openai", "https://api.openai.com/v1", "k", idle_timeout_s=1)
    assert own.quirks().token_name == "max_completion_tokens"
    assert OpenAiProvider("x", "https://notapi.example/v1", "k", idle_timeout_s=1).quirks().token_name == "max_tokens"


async def test_closing_the_iterator_closes_the_connection() -> None:
    async with local_server(Scripted(pieces=sse(delta(content="one")), end="hang")) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=30)
        async with aclosing(provider.stream(request())) as stream:  # type: ignore[type-var]
            assert await anext(stream) == TextDelta(0, "one")
        await asyncio.wait_for(server.left.wait(), 60)
        await provider.aclose()


@pytest.mark.parametrize(
    "answer", [Scripted(pieces=sse(delta(content="one")), end="hang"), Scripted(silent=True, end="hang")]
)
async def test_cancelling_the_reader_closes_the_connection(answer: Scripted) -> None:
    async with local_server(answer) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=30)
        task = asyncio.create_task(collect(provider.stream(request())))
        await asyncio.wait_for(server.arrived.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.left.wait(), 60)
        await provider.aclose()


_STREAM = b"".join(
    sse(
        delta(reasoning="Grübel 🦶"),
        delta(content="Ich lese 🦶 nun."),
        tools(tool(0, "a", "read_file", "")),
        tools(tool(0, None, None, '{"path":')),
        tools(tool(1, "b", "list_directory", "{}")),
        tools(tool(0, None, None, '"ä"}')),
        delta("tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
        DONE,
    )
)


def _fold(chunks: Sequence[bytes]) -> list[StreamEvent]:
    def no_error(status: int | None, body: str) -> ProviderError:
        raise AssertionError(body)

    stream, parser = OpenAiStream(no_error), SseParser()
    events = [event for chunk in chunks for event in stream.feed(parser.feed(chunk))]
    return events + stream.feed(parser.close()) + stream.end()


def _facts(events: list[StreamEvent]) -> object:
    ends = {event.block for event in events if isinstance(event, BlockEnd)}
    return thoughts(events), prose(events), calls(events), usage(events), finish(events), ends


@given(st.lists(st.integers(0, len(_STREAM)), max_size=30))
def test_the_stream_may_be_split_anywhere(cuts: list[int]) -> None:
    places = sorted({0, len(_STREAM), *cuts})
    chunks = [_STREAM[start:end] for start, end in itertools.pairwise(places)]
    assert _facts(_fold(chunks)) == _facts(_fold([_STREAM]))
    assert isinstance(_fold(chunks)[-1], Finish)


def test_deltas_of_one_chunk_become_one_event() -> None:
    burst = b"".join(sse(*(delta(content=f"{number} ") for number in range(100)), delta("stop")))
    deltas = [event for event in _fold([burst]) if isinstance(event, TextDelta)]
    assert deltas == [TextDelta(0, "".join(f"{number} " for number in range(100)))]


async def test_a_request_is_not_kept_while_its_answer_arrives() -> None:
    text, begun = "x" * 4_000_000, asyncio.Event()

    async def read(stream: AsyncIterator[StreamEvent]) -> None:
        async for _ in stream:
            begun.set()

    async with local_server(Scripted(pieces=sse(delta(content="one")), end="hang")) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=30)
        tracemalloc.start()
        try:
            reading = asyncio.create_task(read(provider.stream(request(user(text)))))
            await begun.wait()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await provider.aclose()
    # The encoded message, for the next request, and what the server here received.
    assert kept < 2.5 * len(text)
