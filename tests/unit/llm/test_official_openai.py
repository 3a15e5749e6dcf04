"""Checks with OpenAI's own package: it reads the strict fake's answers, and its types accept the adapter's requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from app.llm.base import ModelRequest
from app.llm.openai import OpenAiProvider
from app.llm.quirks import Endpoint
from app.messages import (
    ImagePart,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    new_id,
    now,
)
from tests.provider import FakeProvider, Interleaved, Reasoning, Reply, Text, ToolCall
from tests.provider.fixtures import provider
from tests.unit.llm.values import READ_FILE

__all__ = ["provider"]

ANSWER = Reply(
    Reasoning("First.\n\nSecond.", 2),
    Text("I look. ", 3, phase="commentary"),
    Interleaved(ToolCall("ls", {"path": "a"}, 3), ToolCall("ls", {"path": "b"}, 2)),
)
ASKED: dict[str, Any] = {"model": "m", "store": False, "include": ["reasoning.encrypted_content"], "input": "hello"}
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@pytest.fixture
async def official(provider: FakeProvider) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="k", base_url=provider.openai_url, max_retries=0) as client:
        yield client


async def test_it_reads_a_whole_response(official: AsyncOpenAI, provider: FakeProvider) -> None:
    provider.script(ANSWER)
    response = await official.responses.create(**ASKED)

    Response.model_validate(response.model_dump(), strict=False)
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
    assert response.output_text == "I look. "
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens > 0


async def test_it_reads_a_streamed_response(official: AsyncOpenAI, provider: FakeProvider) -> None:
    provider.script(ANSWER)
    async with official.responses.stream(**ASKED) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()

    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    calls = [item for item in final.output if item.type == "function_call"]
    assert [call.arguments for call in calls] == ['{"path": "a"}', '{"path": "b"}']
    assert {event.type for event in events} >= {"response.created", "response.completed", "response.output_text.delta"}


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter", "refusal", "context_overflow"])
async def test_its_types_accept_every_event(official: AsyncOpenAI, provider: FakeProvider, finish: str) -> None:
    provider.script(Reply(*ANSWER.parts, Reasoning("third", redacted=True), Text("end"), finish=finish))
    events = [event async for event in await official.responses.create(**ASKED, stream=True)]
    lenient = {"context_overflow": "response.failed"}.get(finish)
    for event in events:
        if event.type != lenient:  # the code of an overflow is not among those that the package lists
            EVENT.validate_python(event.model_dump(warnings=False))


async def test_it_reads_chat_completions(official: AsyncOpenAI, provider: FakeProvider) -> None:
    provider.script(ANSWER, ANSWER)
    messages: Any = [{"role": "user", "content": "hello"}]
    whole = await official.chat.completions.create(model="m", messages=messages)
    assert [call.id for call in whole.choices[0].message.tool_calls or []] == ["call_0_0", "call_0_1"]

    async with official.chat.completions.stream(model="m", messages=messages) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "I look. "
    assert [call.function.arguments for call in message.tool_calls or []] == ['{"path": "a"}', '{"path": "b"}']


async def test_it_reads_refusals(official: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError, match="No tool call found"):
        await official.responses.create(
            model="m", input=[{"type": "function_call_output", "call_id": "c", "output": "a"}]
        )


def _history() -> list[Message]:
    item: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e", "status": None}
    return [
        _message(
            Role.USER,
            TextPart(id="1", index=0, text="hello"),
            ImagePart(id="2", index=1, media_type="image/png", data="aGVsbG8="),
        ),
        _message(
            Role.ASSISTANT,
            ReasoningPart(id="3", index=0, text="", provider_data={**item, "status": "completed"}),
            TextPart(id="4", index=1, text="so", phase="commentary"),
            ToolCallPart(id="5", index=2, call_id="c1", name="ls", arguments_text="{}"),
        ),
        _message(
            Role.TOOL,
            ToolResultPart(id="6", index=0, call_id="c1", name="ls", output="a", status=ToolStatus.COMPLETED),
        ),
        _message(Role.CONTROL, TextPart(id="7", index=0, text="go on")),
    ]


def _message(role: Role, *parts: Any) -> Message:
    return Message(id=new_id(), seq=1, role=role, parts=parts, model="m", created_at=now())


@pytest.mark.parametrize(
    ("endpoint", "params"),
    [("responses", ResponseCreateParamsStreaming), ("chat_completions", CompletionCreateParamsStreaming)],
)
async def test_its_types_accept_the_adapters_requests(endpoint: Endpoint, params: Any) -> None:
    """Strictly: no unknown field, and no wrong type."""
    provider = OpenAiProvider("acme", "http://127.0.0.1:9/v1", None, idle_timeout_s=5, endpoint=endpoint)
    quirks = provider.quirks()
    wire = provider.wire_format(quirks)
    request = ModelRequest(
        "m",
        "Be good.",
        _history(),
        tools=[READ_FILE],
        max_output_tokens=500,
        temperature=0.5,
        reasoning_effort="high",
        cache_key="k",
    )
    body = wire.encode(request, wire.parameters(request, quirks), quirks)
    adapter: TypeAdapter[Any] = TypeAdapter(params)
    taken = adapter.validate_json(body)
    assert taken.keys() == adapter.validate_json(body, extra="forbid").keys()
    await provider.aclose()
