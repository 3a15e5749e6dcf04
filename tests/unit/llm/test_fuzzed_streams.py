"""Streams of any bytes become a valid message or a `ProviderError`; the fuzzer's findings stay fixed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import orjson
import pytest

from app.errors import ProviderError
from app.llm.anthropic_stream import AnthropicStream
from app.llm.base import InputTransformed
from app.llm.held import MAX_HELD_BYTES
from app.llm.openai_calls import MAX_NAME_CHARS
from app.llm.openai_stream import OpenAiStream
from app.llm.windows import classify
from app.llm.wire import MAX_BLOCKS
from tests.fuzz.engine import Result, run
from tests.fuzz.stream_inputs import Answer
from tests.fuzz.streams import StreamFuzzer

DEEP = b'{"a":' * 300 + b"1" + b"}" * 300
"""Deeper than what can be written again."""
STOPPED = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
ENDED = b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
BAD = "ProviderError provider_bad_response (retryable)"

FOUND = [
    pytest.param(
        Answer("anthropic", "stream", (b'data: {"type":"content_block_delta","index":[0]}\n\n' + ENDED,)),
        "message, stop",
        id="a block's index is a list",
    ),
    pytest.param(
        Answer("anthropic", "stream", (b'data: {"type":"content_block_start","index":{}}\n\n' + ENDED,)),
        "message, stop",
        id="a block's index is an object",
    ),
    pytest.param(
        Answer("openai", "stream", (b'data: {"error":' + DEEP + b"}\n\n",)), BAD, id="an error too deep to be written"
    ),
    pytest.param(
        Answer("anthropic", "stream", (b'data: {"type":"error","error":' + DEEP + b"}\n\n",)),
        BAD,
        id="an error too deep to be written, of Anthropic's",
    ),
    pytest.param(
        Answer(
            "openai",
            "stream",
            (
                b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":'
                + DEEP
                + b"}}]}}]}\n\n"
                + STOPPED,
            ),
        ),
        BAD,
        id="arguments too deep to be written",
    ),
    pytest.param(
        Answer(
            "anthropic",
            "document",
            (b'{"type":"message","stop_reason":"tool_use","content":[{"type":"tool_use","input":' + DEEP + b"}]}",),
            is_json=True,
        ),
        BAD,
        id="an input too deep to be written",
    ),
    pytest.param(
        Answer("responses", "document", (b'{"status":["completed"]}',), is_json=True),
        "ProviderError provider_stream_ended (retryable)",
        id="a status that is a list",
    ),
    pytest.param(
        Answer("openai", "stream", (STOPPED + b'data: {"choices":[],"usage":{"cost":1e308}}\n\n',)),
        "message, stop",
        id="a cost beyond all sums",
    ),
    pytest.param(
        Answer(
            "anthropic",
            "stream",
            (
                b'data: {"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking"'
                b',"data":7}}\n\n' + ENDED,
            ),
        ),
        "message, stop",
        id="encrypted thinking that is a number",
    ),
]


@pytest.mark.slow
def test_any_stream_becomes_a_valid_message_or_an_error() -> None:
    with StreamFuzzer() as fuzzer:
        result = run(fuzzer, seed_=7, inputs=300)
    assert result.crash is None, result.crash
    assert_met_all(result)


def assert_met_all(result: Result) -> None:
    """Both formats had complete and incomplete answers."""
    for wire in ("openai", "anthropic"):
        outcomes = {outcome for kind, outcome in result.counts if kind.startswith(wire)}
        assert "message, stop" in outcomes
        assert BAD in outcomes
        assert "ProviderError provider_stream_ended (retryable)" in outcomes


@pytest.mark.parametrize(("answer", "outcome"), FOUND)
def test_past_findings_stay_fixed(answer: Answer, outcome: str) -> None:
    with StreamFuzzer() as fuzzer:
        assert [said for _, said in fuzzer.attempt(answer)] == [outcome]


def test_an_answer_with_endless_parts_is_an_error() -> None:
    def blocks() -> Iterator[bytes]:
        for number in range(MAX_BLOCKS + 1):
            yield b'{"type":"content_block_start","index":%d,"content_block":{"type":"unheard_of"}}' % number

    stream = AnthropicStream(_error)
    with pytest.raises(ProviderError, match="more than 1,000 parts"):
        stream.feed([(b"", data) for data in blocks()])
    with pytest.raises(ProviderError, match="more than 1,000 parts"):
        OpenAiStream(_error).feed([(b"", _call(number, "f")) for number in range(MAX_BLOCKS + 1)])


def test_endless_thinking_is_an_error() -> None:
    stream = AnthropicStream(_error)
    stream.feed([(b"", b'{"type":"content_block_start","index":0,"content_block":{"type":"thinking"}}')])
    piece = orjson.dumps(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "signature_delta", "signature": "x" * (MAX_HELD_BYTES // 4)},
        }
    )
    stream.feed([(b"", piece)] * 3)
    with pytest.raises(ProviderError, match="too much data"):
        stream.feed([(b"", piece)])


def test_the_report_of_input_changes_is_truncated() -> None:
    entries = [{"type": "dropped", "path": "x" * 1_000}] * 100
    stream = AnthropicStream(_error)
    said = stream.feed([(b"", orjson.dumps({"type": "message_delta", "input_transformations": entries}))])
    assert [len(event.transformations) for event in said if isinstance(event, InputTransformed)] == [15]


def test_indistinguishable_calls_are_not_parsed_repeatedly() -> None:
    """Each name could start another call if the previous one were complete, which takes parsing all of it."""
    stream = OpenAiStream(_error)
    long = {"function": {"name": "f", "arguments": '{"a": "' + "x" * 1_000_000 + "}"}}
    stream.feed([(b"", orjson.dumps({"choices": [{"delta": {"tool_calls": [long]}}]}))])
    more = orjson.dumps({"choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": "}"}}]}}]})
    stream.feed([(b"", more)] * 18)
    with pytest.raises(ProviderError, match="told apart"):
        stream.feed([(b"", more)] * 18)


def test_an_endless_name_is_truncated() -> None:
    stream = OpenAiStream(_error)
    stream.feed([(b"", _call(0, name)) for name in ("a" * 600, "b" * 600, "c" * 600)])
    stream.feed([(b"", b'{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}')])
    assert stream.end()[0].name == "a" * 600 + "b" * (MAX_NAME_CHARS - 600)  # type: ignore[union-attr]


def test_an_error_text_of_digits_is_read_quickly() -> None:
    began = time.process_time()
    assert classify(400, "prompt is too long " + "1" * 64_000) is not None
    assert time.process_time() - began < 2, "scans the rest of the text from every digit"


def _call(index: int, name: str) -> bytes:
    return orjson.dumps({"choices": [{"delta": {"tool_calls": [{"index": index, "function": {"name": name}}]}}]})


def _error(status: int | None, body: str) -> ProviderError:
    return ProviderError(body, code="provider_server_error")
