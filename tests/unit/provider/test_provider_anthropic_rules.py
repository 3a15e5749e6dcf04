"""Each thing that Messages refuses, beside its nearest neighbour that it takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.provider import FakeProvider, Reasoning, Reply, Text, ToolCall
from tests.unit.llm.values import PNG
from tests.unit.provider.wire import (
    JSON,
    Case,
    assistant,
    message_of,
    outcome,
    plain_client,
    post,
    text,
    tool,
    use,
    user,
)
from tests.unit.provider.wire import anthropic_body as body

ASK = user("hello")
MARK: JSON = {"cache_control": {"type": "ephemeral"}}
ONE = (ASK, assistant([use("a")]), user([outcome("a")]))
TWO = (ASK, assistant([use("a"), use("b")]))
UNANSWERED = "`tool_use` ids were found without `tool_result` blocks immediately after: "


def without(name: str) -> JSON:
    return {key: value for key, value in body().items() if key != name}


CASES = {
    "no max_tokens": Case("shape", body(), without("max_tokens"), "max_tokens: Field required"),
    "no model": Case("shape", body(), without("model"), "model: Field required"),
    "no messages": Case("shape", body(), without("messages"), "messages: Field required"),
    "max_tokens of zero": Case("shape", body(max_tokens=1), body(max_tokens=0), "max_tokens: Input should be greater"),
    "messages no list": Case("shape", body(), body(messages="x"), "messages: Input should be a valid list"),
    "empty messages": Case("empty", body(), body(messages=[]), "messages: at least one message is required"),
    "system role": Case(
        "shape",
        body(system="be brief"),
        body({"role": "system", "content": "be brief"}, ASK),
        'Unexpected role "system". The Messages API accepts a top-level `system` parameter',
    ),
    "unknown role": Case("shape", body(ASK), body({"role": "tool", "content": "x"}), "Input should be 'user' or"),
    "assistant first": Case(
        "order",
        body(ASK, assistant("hi"), ASK),
        body(assistant("hi"), ASK),
        'messages: first message must use the "user" role',
    ),
    "users in a row": Case(
        "order",
        body(user([text("a"), text("b")])),
        body(ASK, ASK),
        'roles must alternate between "user" and "assistant", but found multiple "user" roles in a row',
    ),
    "assistants in a row": Case(
        "order", body(ASK, assistant("a"), ASK), body(ASK, assistant("a"), assistant("b"), ASK), 'multiple "assistant"'
    ),
    "assistant last": Case(
        "order", body(ASK, assistant("a"), ASK), body(ASK, assistant("a")), "must end with a user message."
    ),
    "assistant last with a space": Case(
        "empty", body(ASK, assistant("a "), ASK), body(ASK, assistant("a ")), "cannot end with trailing whitespace"
    ),
    "blank assistant last": Case("empty", body(ASK, assistant("a"), ASK), body(ASK, assistant(" ")), "non-whitespace"),
    "empty content": Case("empty", body(user("x")), body(user("")), "messages.0: all messages must have non-empty"),
    "empty list": Case("empty", body(user([text("x")])), body(user([])), "all messages must have non-empty content"),
    "empty block": Case(
        "empty", body(user([text("x")])), body(user([text("")])), "messages: text content blocks must be non-empty"
    ),
    "empty block in a result": Case(
        "empty",
        body(*ONE[:2], user([outcome("a", [text("x")])])),
        body(*ONE[:2], user([outcome("a", [text("")])])),
        "text content blocks must be non-empty",
    ),
    "empty system block": Case(
        "empty", body(system=[text("x")]), body(system=[text("")]), "system: text content blocks must be non-empty"
    ),
    "content a number": Case(
        "shape", body(user("1")), body(user(1)), "messages.0.content: Input should be a valid list"
    ),
    "content of strings": Case("shape", body(user([text("x")])), body(user(["x"])), "should be a valid dictionary"),
    "orphan result": Case(
        "pairing",
        body(*ONE),
        body(user([outcome("a")])),
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a. Each `tool_result` block must"
        " have a corresponding `tool_use` block in the previous message.",
    ),
    "missing result": Case(
        "pairing",
        body(*TWO, user([outcome("b"), outcome("a")])),
        body(*TWO, user([outcome("a")])),
        f"messages.1: {UNANSWERED}b. Each `tool_use` block must have a corresponding `tool_result` block in the next"
        " message.",
    ),
    "missing result at the end": Case("pairing", body(*ONE), body(*ONE[:2]), f"messages.1: {UNANSWERED}a"),
    "text before results": Case(
        "pairing",
        body(*ONE[:2], user([outcome("a"), text("go on")])),
        body(*ONE[:2], user([text("go on"), outcome("a")])),
        f"{UNANSWERED}a",
    ),
    "result without id": Case(
        "pairing", body(*ONE), body(*ONE[:2], user([{"type": "tool_result"}])), "tool_use_id: Field required"
    ),
    "result by the assistant": Case(
        "pairing", body(*ONE), body(ASK, assistant([outcome("a")]), ASK), "can not be in `assistant` messages"
    ),
    "image without source": Case(
        "shape",
        body(user([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}])),
        body(user([{"type": "image"}])),
        "messages.0.content.0.image.source: Field required",
    ),
    "unknown block": Case("shape", body(*ONE), body(user([{"type": "hologram"}])), "can not be in `user` messages"),
    "result twice": Case(
        "ids",
        body(*ONE),
        body(*ONE[:2], user([outcome("a"), outcome("a")])),
        "each tool_use must have a single result. Found multiple `tool_result` blocks with id: a",
    ),
    "id twice in a batch": Case(
        "ids",
        body(*TWO, user([outcome("a"), outcome("b")])),
        body(ASK, assistant([use("a"), use("a")]), user([outcome("a")])),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    "id twice in the conversation": Case(
        "ids",
        body(*ONE, assistant([use("b")]), user([outcome("b")])),
        body(*ONE, assistant([use("a")]), user([outcome("a")])),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "id with a dot": Case(
        "ids", body(*ONE), body(ASK, assistant([use("a.b")]), user([outcome("a.b")])), "should match pattern"
    ),
    "input a string": Case(
        "arguments",
        body(ASK, assistant([use("a", {"x": 1})]), user([outcome("a")])),
        body(ASK, assistant([use("a", '{"x": 1}')]), user([outcome("a")])),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "name of a call": Case(
        "tools",
        body(*ONE),
        body(ASK, assistant([use("a", name="read file")]), user([outcome("a")])),
        "tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
    ),
    "name of a tool": Case(
        "tools", body(tools=[tool("a" * 64)]), body(tools=[tool("a" * 65)]), "tools.0.custom.name: String should match"
    ),
    "tool without schema": Case(
        "tools", body(tools=[tool()]), body(tools=[{"name": "ls"}]), "tools.0.custom.input_schema: Field required"
    ),
    "schema of no object": Case(
        "tools",
        body(tools=[tool()]),
        body(tools=[tool(input_schema={})]),
        "input_schema.type: Input should be 'object'",
    ),
    "tool no object": Case("tools", body(tools=[tool()]), body(tools=["ls"]), "should be a valid dictionary"),
    "tools no list": Case("tools", body(tools=[]), body(tools={}), "tools: Input should be a valid list"),
    "same tool twice": Case(
        "tools", body(tools=[tool("a"), tool("b")]), body(tools=[tool("a"), tool("a")]), "Tool names must be unique."
    ),
    "five breakpoints": Case(
        "cache_control",
        body(user([text("x", **MARK)]), tools=[tool(**MARK)], system=[text("a", **MARK), text("b", **MARK)]),
        body(
            *ONE[:2],
            user([outcome("a", [text("x", **MARK)]), text("y", **MARK)]),
            tools=[tool(**MARK)],
            system=[text("a", **MARK), text("b", **MARK)],
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "breakpoint on thinking": Case(
        "cache_control",
        body(ASK, assistant([text("x", **MARK)]), ASK),
        body(ASK, assistant([{"type": "thinking", "thinking": "x", "signature": "y", **MARK}, text("x")]), ASK),
        "thinking.cache_control: Extra inputs are not permitted",
    ),
    "invented signature": Case(
        "thinking",
        body(ASK, assistant([text("x")]), ASK),
        body(ASK, assistant([{"type": "thinking", "thinking": "x", "signature": "y"}, text("x")]), ASK),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "no budget": Case(
        "thinking",
        body(max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}),
        body(max_tokens=2000, thinking={"type": "enabled"}),
        "budget_tokens: Field required",
    ),
    "small budget": Case(
        "thinking",
        body(thinking={"type": "disabled"}),
        body(max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1000}),
        "Input should be greater than or equal to 1024",
    ),
    "budget over max_tokens": Case(
        "thinking",
        body(max_tokens=1025, thinking={"type": "enabled", "budget_tokens": 1024}),
        body(max_tokens=1024, thinking={"type": "enabled", "budget_tokens": 1024}),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    ),
    "cool thinking": Case(
        "thinking",
        body(max_tokens=2000, temperature=1, thinking={"type": "enabled", "budget_tokens": 1024}),
        body(max_tokens=2000, temperature=0, thinking={"type": "enabled", "budget_tokens": 1024}),
        "`temperature` may only be set to 1 when thinking is enabled.",
    ),
    "thinking left out in an open loop": Case(
        "thinking",
        body(*ONE, assistant("so"), ASK, max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}),
        body(*ONE, max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}),
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refuses_what_is_broken_and_takes_its_neighbour(provider: FakeProvider, name: str) -> None:
    case = CASES[name]
    taken = post(provider, "anthropic", case.taken)
    assert taken.status_code == 200, taken.text
    assert provider.refusals == []

    refused = post(provider, "anthropic", case.refused)
    assert refused.status_code == 400
    assert refused.json()["type"] == "error"
    assert refused.json()["error"]["type"] == "invalid_request_error"
    assert case.sentence in message_of(refused)
    assert [r.rule for r in provider.refusals] == [case.rule]
    assert provider.broken == provider.refusals


def test_refuses_configured_parameters(provider: FakeProvider) -> None:
    request = body(temperature=0.5)
    assert post(provider, "anthropic", request).status_code == 200
    provider.configure(refused_parameters=frozenset({"temperature"}))
    assert message_of(post(provider, "anthropic", request)) == "`temperature` is deprecated for this model."


def test_asks_for_its_version(provider: FakeProvider) -> None:

    with plain_client() as client:
        answer = client.post(provider.url + "/v1/messages", json=body())
    assert answer.status_code == 400
    assert message_of(answer) == "anthropic-version: header is required"
    assert provider.refusals[0].rule == "headers"


def test_asks_for_its_key(provider: FakeProvider) -> None:
    provider.configure(key="right")
    assert post(provider, "anthropic", body(), x_api_key="right").status_code == 200
    missing = post(provider, "anthropic", body())
    wrong = post(provider, "anthropic", body(), x_api_key="wrong")
    assert [missing.status_code, wrong.status_code] == [401, 401]
    assert message_of(missing) == "x-api-key header is required"
    assert wrong.json()["error"] == {"type": "authentication_error", "message": "invalid x-api-key"}


def answered_thinking(provider: FakeProvider) -> list[JSON]:
    """The blocks of an answer with two signed blocks of thinking and a call."""
    thoughts = (Reasoning("first"), Text("hm"), Reasoning("second"), Reasoning("third", redacted=True))
    provider.script(Reply(*thoughts, ToolCall("ls", {}, id="a")))
    content = post(provider, "anthropic", body()).json()["content"]
    assert isinstance(content, list)
    return content


def back(content: list[JSON], **fields: Any) -> JSON:
    return body(ASK, assistant(content), user([outcome("a")]), **fields)


def test_takes_its_own_thinking_back_unchanged(provider: FakeProvider) -> None:
    content = answered_thinking(provider)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    answer = post(provider, "anthropic", back(content, max_tokens=2000, thinking=thinking))
    assert answer.status_code == 200, answer.text


def test_takes_an_answer_back_with_no_thinking_at_all(provider: FakeProvider) -> None:
    content = [block for block in answered_thinking(provider) if "thinking" not in block["type"]]
    assert post(provider, "anthropic", back(content)).status_code == 200


def test_refuses_thinking_whose_text_was_changed(provider: FakeProvider) -> None:
    content = answered_thinking(provider)
    content[0] = {**content[0], "thinking": "other"}
    assert "blocks in the latest assistant message cannot be modified" in message_of(
        post(provider, "anthropic", back(content))
    )


@pytest.mark.parametrize(("place", "name", "kind"), [(0, "signature", "thinking"), (3, "data", "redacted_thinking")])
def test_refuses_a_seal_that_was_changed(provider: FakeProvider, place: int, name: str, kind: str) -> None:
    content = answered_thinking(provider)
    content[place] = {**content[place], name: content[place][name] + "0"}
    answer = post(provider, "anthropic", back(content))
    assert message_of(answer) == f"messages.1.content.{place}: Invalid `{name}` in `{kind}` block"


def test_refuses_thinking_of_another_model(provider: FakeProvider) -> None:
    content = answered_thinking(provider)
    assert "Invalid `signature`" in message_of(post(provider, "anthropic", back(content, model="other")))
    assert [r.rule for r in provider.refusals] == ["thinking"]


@pytest.mark.parametrize("left_out", [0, 2, 3])
def test_refuses_half_of_an_answers_thinking(provider: FakeProvider, left_out: int) -> None:
    content = answered_thinking(provider)
    del content[left_out]
    assert "cannot be modified" in message_of(post(provider, "anthropic", back(content)))
