"""How the end of an answer is recognized: by a word, by what follows the answer, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import orjson
import pytest

from app.errors import ProviderError
from app.llm.anthropic_stream import AnthropicStream
from app.llm.base import StreamEvent
from app.llm.endings import End, end_word, meaning
from app.llm.openai import OpenAiProvider
from app.llm.openai_responses_stream import ResponsesStream
from app.llm.openai_stream import OpenAiStream
from app.llm.wire import MAX_OWN_WORDS, ResponseStream, UnknownEndError

from .servers import Scripted, local_server, sse
from .values import collect, finish, prose, request, usage

MEANINGS: dict[End, str] = {
    "stop": "stop STOP REASON_STOP FINISH_REASON_STOP end_turn endTurn eos eos_token stop_sequence completed COMPLETE"
    " endoftext <|im_end|> normal stopped_eos done",
    "length": "length max_tokens MAX_TOKENS max_output_tokens MaxTokens model_length REASON_MAX_LEN token_limit"
    " stopped_limit max_completion_tokens",
    "tool_calls": "tool_calls tool-calls function_call tool_use toolUse TOOL_CALL",
    "content_filter": "content_filter content-filter SAFETY RECITATION PROHIBITED_CONTENT BLOCKLIST SPII IMAGE_SAFETY"
    " sensitive guardrail_intervened content_filtered LANGUAGE ERROR_TOXIC",
    "refusal": "refusal refused",
    "context_overflow": "model_context_window_exceeded MODEL_CONTEXT_WINDOW_EXCEEDED context_length_exceeded"
    " context_window_exceeded max_context contextLengthExceeded REASON_MAX_CONTEXT prompt_too_long",
    "failure": "network_error insufficient_system_resource malformed_function_call MALFORMED_FUNCTION_CALL abort"
    " aborted error timeout cancelled USER_CANCEL context_canceled overloaded engine_error unexpected_tool_call"
    " TOO_MANY_TOOL_CALLS MISSING_THOUGHT_SIGNATURE server_shutdown connection_reset REASON_TIME_LIMIT not_finished"
    " no_healthy_upstream upstream_error UNHEALTHY bad_gateway at_capacity worker_died out_of_memory oom"
    " connection_dropped",
    "other": "pause_turn",
    None: "something_new OTHER FINISH_REASON_UNSPECIFIED repetition",
}


@pytest.mark.parametrize(("end", "word"), [(end, word) for end, words in MEANINGS.items() for word in words.split()])
def test_a_word_for_the_end_has_a_meaning_in_any_spelling(end: End, word: str) -> None:
    assert meaning(word) == end


@pytest.mark.parametrize(
    ("value", "word"),
    [("stop", "stop"), (None, None), ("", None), ("null", None), ({"type": "length", "length": 9}, "length")],
)
def test_a_word_is_found_in_any_shape(value: Any, word: str | None) -> None:
    assert end_word(value) == word


def _error(status: int | None, body: str) -> ProviderError:
    return ProviderError(body, code="provider_server_error", retryable=True)


def chat(word: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": word}]}


CALL = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
COUNTED = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
UNCOUNTED = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
TEXT_BLOCK: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
]
CALL_BLOCK = {
    "type": "content_block_start",
    "index": 1,
    "content_block": {"type": "tool_use", "name": "f", "input": {}},
}
TEXT_ITEM: list[dict[str, Any]] = [{"type": "response.output_text.delta", "output_index": 0, "delta": "hi"}]
CALL_ITEM = {
    "type": "response.output_item.done",
    "output_index": 1,
    "item": {"type": "function_call", "name": "f", "arguments": "{}"},
}


def last_delta(word: str | None, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": word}, "usage": usage}


def incomplete(reason: str) -> dict[str, Any]:
    return {"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}}


STREAMS: dict[str, type[OpenAiStream] | type[AnthropicStream] | type[ResponsesStream]] = {
    "chat": OpenAiStream,
    "messages": AnthropicStream,
    "responses": ResponsesStream,
}


def fold(kind: str, *events: dict[str, Any] | str, own_words: Collection[str] = ()) -> list[StreamEvent]:
    stream: ResponseStream = STREAMS[kind](_error)
    data = [(b"", event.encode() if isinstance(event, str) else orjson.dumps(event)) for event in events]
    return stream.feed(data) + stream.end(own_words)


WORDLESS = [
    pytest.param("chat", [chat(content="hi"), "[DONE]"], "stop", id="done"),
    pytest.param("chat", [chat(content="hi"), COUNTED], "stop", id="usage"),
    pytest.param("chat", [chat(tool_calls=[CALL]), COUNTED], "tool_calls", id="usage after a call"),
    pytest.param("chat", [{**chat(content="hi"), "usage": COUNTED["usage"]}], "stop", id="usage in the last chunk"),
    pytest.param("chat", [chat(content="hi"), {"choices": [{"message": {"content": "hi"}}]}], "stop", id="a message"),
    pytest.param("messages", [*TEXT_BLOCK, {"type": "message_stop"}], "stop", id="message_stop"),
    pytest.param("messages", [*TEXT_BLOCK, last_delta(None, output_tokens=2)], "stop", id="message_delta"),
    pytest.param("messages", [*TEXT_BLOCK, CALL_BLOCK, {"type": "message_stop"}], "tool_calls", id="a call's stop"),
    pytest.param("messages", [*TEXT_BLOCK, "[DONE]"], "stop", id="done in messages"),
    pytest.param("responses", [*TEXT_ITEM, "[DONE]"], "stop", id="done in responses"),
    pytest.param("responses", [*TEXT_ITEM, CALL_ITEM, "[DONE]"], "tool_calls", id="done after a call in responses"),
    pytest.param(
        "responses", [*TEXT_ITEM, {"type": "response.completed", "response": {"status": None}}], "stop", id="no status"
    ),
    pytest.param("responses", [*TEXT_ITEM, {"type": "response.done", "response": {}}], "stop", id="response.done"),
]


@pytest.mark.parametrize(("kind", "events", "end"), WORDLESS)
def test_an_answer_without_a_word_ends_by_what_follows_it(kind: str, events: list[Any], end: str) -> None:
    assert finish(fold(kind, *events)) == end


CUTS = [
    pytest.param("chat", [chat(content="hi")], id="text"),
    pytest.param("chat", ["[DONE]"], id="nothing but done"),
    pytest.param("chat", [COUNTED], id="nothing but usage"),
    pytest.param("chat", [COUNTED, chat(content="hi")], id="usage before the text"),
    pytest.param("chat", [chat(content="hi"), UNCOUNTED], id="usage that counts nothing"),
    pytest.param(
        "chat",
        [{**chat(content=word), "usage": COUNTED["usage"]} for word in ("a", "b")],
        id="usage with each piece",
    ),
    pytest.param("messages", TEXT_BLOCK, id="a text block"),
    pytest.param("messages", [{"type": "message_stop"}], id="nothing but message_stop"),
    pytest.param("responses", TEXT_ITEM, id="a text item"),
    pytest.param("responses", ["[DONE]"], id="nothing but done in responses"),
]


@pytest.mark.parametrize(("kind", "events"), CUTS)
def test_an_answer_that_was_cut_is_retried(kind: str, events: list[Any]) -> None:
    with pytest.raises(ProviderError, match="before the response was complete") as caught:
        fold(kind, *events)
    assert caught.value.retryable


ENDED: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "chat": lambda word: [chat(content="hi"), chat(word)],
    "messages": lambda word: [*TEXT_BLOCK, last_delta(word)],
    "responses": lambda word: [*TEXT_ITEM, incomplete(word)],
}


@pytest.mark.parametrize("kind", ENDED)
def test_a_word_means_the_same_in_every_format(kind: str) -> None:
    assert finish(fold(kind, *ENDED[kind]("MODEL_CONTEXT_WINDOW_EXCEEDED"))) == "context_overflow"
    assert finish(fold(kind, *ENDED[kind]("MAX_TOKENS"))) == "length"
    with pytest.raises(ProviderError, match="network_error") as caught:
        fold(kind, *ENDED[kind]("network_error"))
    assert (caught.value.code, caught.value.retryable) == ("provider_server_error", True)


@pytest.mark.parametrize("kind", ENDED)
def test_an_unknown_word_is_an_end_once_the_model_is_known_for_it(kind: str) -> None:
    events = ENDED[kind]("something_new")
    with pytest.raises(UnknownEndError) as caught:
        fold(kind, *events)
    assert (caught.value.word, caught.value.retryable) == ("something_new", True)
    assert finish(fold(kind, *events, own_words={"something_new"})) == "other"
    assert finish(fold(kind, *events, own_words=[str(number) for number in range(MAX_OWN_WORDS)])) == "other"


def test_a_response_that_was_cancelled_has_failed() -> None:
    with pytest.raises(ProviderError, match="cancelled"):
        fold("responses", *TEXT_ITEM, {"type": "response.cancelled", "response": {"status": "cancelled"}})


def test_an_error_next_to_the_word_is_the_error() -> None:
    failed = chat("error")
    failed["choices"][0]["error"] = {"message": "upstream gone", "code": 502}
    with pytest.raises(ProviderError, match="upstream gone"):
        fold("chat", failed)


async def test_each_model_has_its_own_words() -> None:
    answer = Scripted(pieces=sse(chat("something_new", content="hi"), "[DONE]"))
    async with local_server(answer) as server:
        provider = OpenAiProvider("acme", server.url, None, idle_timeout_s=60)
        for model in ("one", "two"):
            with pytest.raises(UnknownEndError):
                await collect(provider.stream(request(model=model)))
            events = await collect(provider.stream(request(model=model)))
            assert (prose(events), finish(events)) == ("hi", "other")
        await provider.aclose()


@pytest.mark.parametrize(
    ("kind", "events", "counts"),
    [
        (
            "chat",
            [
                {**chat(content="hi"), "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}},
                {**chat("stop"), "usage": {"prompt_tokens": 0, "completion_tokens": 2, "prompt_tokens_details": {}}},
                {"choices": [], "usage": {"prompt_tokens": None, "completion_tokens": 0, "total_tokens": 0}},
            ],
            (5, 4, 2),
        ),
        (
            "messages",
            [
                {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 4}}},
                *TEXT_BLOCK[1:],
                last_delta("end_turn", input_tokens=0, cache_read_input_tokens=0, output_tokens=2),
            ],
            (5, 4, 2),
        ),
        (
            "responses",
            [
                *TEXT_ITEM,
                {"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 2}}},
                {"type": "response.completed", "response": {"usage": {"input_tokens": 0, "output_tokens": 0}}},
            ],
            (5, 0, 2),
        ),
    ],
)
def test_zeros_in_a_later_report_replace_no_count(kind: str, events: list[Any], counts: tuple[int, ...]) -> None:
    report = usage(fold(kind, *events))
    assert report is not None
    assert (report.input_tokens, report.cache_read_tokens, report.output_tokens) == counts
