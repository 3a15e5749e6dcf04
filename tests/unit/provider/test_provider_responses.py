"""The strict fake's Responses endpoint: what it refuses."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.provider import FakeProvider, Reasoning, Reply, Text, ToolCall
from tests.unit.provider.wire import JSON, SCHEMA

USER: JSON = {"role": "user", "content": "hello"}
CALL: JSON = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}
OUTPUT: JSON = {"type": "function_call_output", "call_id": "c1", "output": "a"}
TOOL: JSON = {"type": "function", "name": "ls", "parameters": SCHEMA, "strict": False}
STATELESS: JSON = {"store": False, "include": ["reasoning.encrypted_content"]}


def post(provider: FakeProvider, *items: JSON, **fields: Any) -> httpx.Response:
    body = {"model": "m", "input": list(items) or [USER], **STATELESS, **fields}
    with httpx.Client(trust_env=False, verify=False) as client:
        return client.post(f"{provider.openai_url}/responses", json=body)


def test_a_sound_history_is_answered(provider: FakeProvider) -> None:
    provider.script(Reply(Reasoning("hm"), ToolCall("ls", {})))
    answer = post(provider, tools=[TOOL])
    reasoning, call = answer.json()["output"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "a"}
    assert post(provider, USER, reasoning, call, output).json()["output"][0]["content"][0]["text"] == "done"
    assert provider.refusals == []


@pytest.mark.parametrize(
    ("items", "fields", "sentence"),
    [
        ([], {"frequency": 1}, "Unknown parameter: 'frequency'."),
        ([], {"reasoning": {"depth": 1}}, "Unknown parameter: 'reasoning.depth'."),
        ([], {"store": True}, "Encrypted reasoning is for responses that are not stored: set 'store' to false."),
        ([], {"previous_response_id": "resp_1"}, "Previous response with id 'resp_1' not found."),
        ([], {"max_output_tokens": 5}, "Expected a value >= 16, but got 5 instead."),
        ([], {"tools": [{**TOOL, "strict": True}]}, "an array including every key in properties."),
        ([], {"tools": [{"type": "function", "function": {}}]}, "Missing required parameter: 'tools[0].name'."),
        ([{"type": "note"}], {}, "Invalid value: 'note'."),
        ([{"role": "tool", "content": "a"}], {}, "Invalid value: 'tool'."),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}]}], {}, "Invalid value: 'text'."),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}], {}, "'output_text'"),
        ([USER, CALL], {}, "No tool output found for function call c1."),
        ([USER, OUTPUT], {}, "No tool call found for function call output with call_id c1."),
        ([USER, OUTPUT, CALL], {}, "No tool call found for function call output with call_id c1."),
        ([USER, CALL, OUTPUT, OUTPUT], {}, "No tool call found for function call output with call_id c1."),
        ([USER, CALL, OUTPUT, CALL, OUTPUT], {}, "Duplicate function call found with call_id c1."),
        ([USER, {**CALL, "arguments": "{"}, OUTPUT], {}, "expected a JSON object."),
    ],
)  # fmt: skip
def test_a_broken_request_is_refused(provider: FakeProvider, items: list[JSON], fields: JSON, sentence: str) -> None:
    answer = post(provider, *items, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith(sentence) or sentence in answer.json()["error"]["message"]
    assert len(provider.broken) == 1


def test_reasoning_goes_back_unchanged_and_in_place_or_not_at_all(provider: FakeProvider) -> None:
    provider.script(Reply(Reasoning("hm"), Text("so")))
    reasoning, message = post(provider).json()["output"]
    other = {**reasoning, "encrypted_content": "x"}
    unverified = f"The encrypted content for item {reasoning['id']} could not be verified."
    lonely = f"Item '{reasoning['id']}' of type 'reasoning' was provided without its required following item."
    for items, fields, sentence in (
        ([USER, other, message, USER], {}, unverified),
        ([USER, {**reasoning, "summary": []}, message, USER], {}, unverified),
        ([USER, reasoning, message, USER], {"model": "another"}, unverified),
        ([USER, reasoning, USER], {}, lonely),
        ([USER, message, reasoning], {}, lonely),
        ([USER, {**reasoning, "encrypted_content": None}, message, USER], {}, "Items are not persisted"),
        ([USER, reasoning, message, reasoning, message], {}, "Duplicate item found"),
    ):
        assert sentence in post(provider, *items, **fields).json()["error"]["message"]
    assert post(provider, USER, reasoning, message, USER).status_code == 200


def test_models_and_servers_that_lack_an_endpoint(provider: FakeProvider) -> None:
    provider.configure(responses_only=frozenset({"codex"}), tools_on_responses=frozenset({"m"}))
    with httpx.Client(base_url=provider.openai_url, trust_env=False, verify=False) as client:
        path, chat = "/chat/completions", {"messages": [USER]}
        codex = client.post(path, json={"model": "codex", **chat})
        assert (codex.status_code, "not a chat model" in codex.text) == (404, True)
        tools = [{"type": "function", "function": {"name": "ls", "parameters": SCHEMA}}]
        refused = client.post(path, json={"model": "m", "tools": tools, **chat})
        assert refused.json()["error"]["param"] == "reasoning_effort"
        assert refused.json()["error"]["message"] == (
            "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use function"
            " tools, use /v1/responses or set reasoning_effort to 'none'."
        )
        assert client.post(path, json={"model": "m", "tools": tools, "reasoning_effort": "none", **chat}).is_success
        provider.configure(has_responses=False)
        assert client.post("/responses", json={"model": "m", "input": "a"}).status_code == 404
