"""Bodies, calls and hand parsing for both formats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

import httpx

from tests.provider import FakeProvider

JSON = dict[str, Any]
Format = Literal["openai", "anthropic"]
FORMATS: tuple[Format, ...] = ("openai", "anthropic")
PATHS: dict[Format, str] = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
VERSION = {"anthropic-version": "2023-06-01"}
SCHEMA: JSON = {"type": "object", "properties": {"command": {"type": "string"}}}


class Case(NamedTuple):
    """A rule, a body that it takes, its nearest neighbor that it refuses, and how the refusal is worded."""

    rule: str
    taken: JSON
    refused: JSON
    sentence: str


def user(content: Any) -> JSON:
    return {"role": "user", "content": content}


def assistant(content: Any, **fields: Any) -> JSON:
    return {"role": "assistant", "content": content, **fields}


def text(value: str, **fields: Any) -> JSON:
    return {"type": "text", "text": value, **fields}


def call(call_id: Any, arguments: Any = "{}", name: str = "ls") -> JSON:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*items: JSON, content: Any = None) -> JSON:
    return assistant(content, tool_calls=list(items))


def result(call_id: Any, content: Any = "out") -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def use(call_id: str, arguments: Any = None, name: str = "ls") -> JSON:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments}


def outcome(call_id: str, content: Any = "out") -> JSON:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def function(name: str = "ls", **fields: Any) -> JSON:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **fields}}


def tool(name: str = "ls", **fields: Any) -> JSON:
    return {"name": name, "input_schema": SCHEMA, **fields}


def openai_body(*messages: Any, **fields: Any) -> JSON:
    return {"model": "m", "messages": list(messages) or [user("hello")], **fields}


def anthropic_body(*messages: Any, **fields: Any) -> JSON:
    return {"model": "m", "max_tokens": 100, "messages": list(messages) or [user("hello")], **fields}


def body_of(wire: Format, *messages: JSON, **fields: Any) -> JSON:
    return openai_body(*messages, **fields) if wire == "openai" else anthropic_body(*messages, **fields)


def plain_client() -> httpx.Client:
    """A client that loads no certificates, which would take longer than the test."""
    return httpx.Client(trust_env=False, verify=False, timeout=10)


def post(provider: FakeProvider, wire: Format, body: JSON, **headers: str) -> httpx.Response:
    """One request over a connection of its own."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with plain_client() as client:
        return client.post(provider.url + PATHS[wire], json=body, headers={**VERSION, **named})


@asynccontextmanager
async def streaming(provider: FakeProvider, wire: Format, **fields: Any) -> AsyncIterator[httpx.Response]:
    """An open stream, for tests that leave it or are left by it."""
    body = body_of(wire, stream=True, **fields)
    async with (
        httpx.AsyncClient(trust_env=False, verify=False, timeout=10) as client,
        client.stream("POST", provider.url + PATHS[wire], json=body, headers=VERSION) as response,
    ):
        yield response


def events(answer: httpx.Response) -> list[JSON]:
    """The data of each server-sent event; `[DONE]` is left out after a look that it comes last."""
    blocks = [block for block in answer.text.split("\n\n") if block]
    data = [line.removeprefix("data: ") for block in blocks for line in block.split("\n") if line.startswith("data: ")]
    if data and data[-1] == "[DONE]":
        data.pop()
    return [json.loads(item) for item in data]


def stream_events(provider: FakeProvider, wire: Format, **fields: Any) -> list[JSON]:
    response = post(provider, wire, body_of(wire, stream=True, **fields))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return events(response)


def deltas(chunks: list[JSON]) -> Iterator[JSON]:
    """The deltas of a Chat Completions stream that say something."""
    for chunk in chunks:
        for choice in chunk.get("choices", []):
            if choice["delta"].get("role") is None and choice["delta"]:
                yield choice["delta"]


def message_of(response: httpx.Response) -> str:
    """The sentence of an error in either format."""
    return str(response.json()["error"]["message"])
