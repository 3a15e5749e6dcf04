"""The official client as a judge of both sides: it parses what the fake sends, and its own types take what the adapter
sends."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import anthropic
import orjson
import pytest
from anthropic.types.beta import BetaMessage
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from pydantic import TypeAdapter

from app.llm.anthropic import AnthropicProvider
from app.llm.base import ModelRequest, ToolSchema
from tests.provider import FakeProvider, Reasoning, Reply, Text, ToolCall
from tests.provider.server import running_provider
from tests.unit.llm.values import request

MODEL = "claude-opus-5-5"
TOOL: Any = {"name": "ls", "description": "lists", "input_schema": {"type": "object"}}
BETA = "thinking-binding-controls-2026-08-01"
DROP: Any = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
REPLY = Reply(Reasoning("I look."), Reasoning("x", redacted=True), Text("Looking."), ToolCall("ls", {"path": "."}))


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running_provider() as fake:
        fake.script(REPLY, REPLY, REPLY)
        yield fake


@pytest.fixture
def client(provider: FakeProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=provider.url, api_key="k", max_retries=0) as made:
        yield made


def ask(client: anthropic.Anthropic, messages: list[Any], *, stream: bool, **more: Any) -> BetaMessage:
    fields: Any = {"model": MODEL, "max_tokens": 2_000, "messages": messages, "tools": [TOOL], **more}
    if not stream:
        message: BetaMessage = client.beta.messages.create(**fields)
        return message
    with client.beta.messages.stream(**fields) as streamed:
        final: BetaMessage = streamed.get_final_message()
    return final


@pytest.mark.parametrize("stream", [True, False])
def test_the_client_replays_what_the_fake_has_issued(
    client: anthropic.Anthropic, provider: FakeProvider, stream: bool
) -> None:
    asked: list[Any] = [{"role": "user", "content": "look"}]
    first = ask(client, asked, stream=stream)
    assert [block.type for block in first.content] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert (first.stop_reason, first.input_transformations) == ("tool_use", None)
    call = first.content[-1]
    assert call.type == "tool_use"
    results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "a.txt"}]}
    answered = [*asked, {"role": "assistant", "content": first.content}, results]
    second = ask(client, answered, stream=stream, thinking=DROP, betas=[BETA])
    assert second.input_transformations == []

    changed = [{"role": "user", "content": "look, but elsewhere"}, *answered[1:]]
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        ask(client, changed, stream=stream)
    third = ask(client, changed, stream=stream, thinking=DROP, betas=[BETA])
    assert third.input_transformations is not None
    assert [(entry.type, entry.path) for entry in third.input_transformations] == [
        ("thinking_dropped", "messages.1.content.0"),
        ("thinking_dropped", "messages.1.content.1"),
    ]
    assert len(provider.refusals) == 1


REQUESTS: list[ModelRequest] = [
    request(model=MODEL),
    request(model=MODEL, reasoning_effort="high", temperature=0.5),
    request(model=MODEL, reasoning_effort="none"),
    request(model=MODEL, drop_block=True),
    request(model="claude-sonnet-4-20250514", reasoning_effort="low", max_output_tokens=8_000),
    request(model=MODEL, tools=(ToolSchema("ls", "lists", {"type": "object"}),), stop=("END",)),
]


@pytest.mark.parametrize("wanted", REQUESTS)
def test_its_types_take_what_the_adapter_sends(wanted: ModelRequest) -> None:
    provider = AnthropicProvider("acme", "http://127.0.0.1:9", None, idle_timeout_s=1)
    parameters = provider.parameters(wanted, provider.quirks())
    body = orjson.loads(provider.encode(wanted, parameters, provider.quirks()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TypeAdapter(MessageCreateParamsStreaming).validate_python(body)
    known = MessageCreateParamsStreaming.__required_keys__ | MessageCreateParamsStreaming.__optional_keys__
    assert set(body) <= known
