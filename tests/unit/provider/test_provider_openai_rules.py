"""Each thing that Chat Completions refuses, beside its nearest neighbour that it takes."""

from __future__ import annotations

import pytest

from tests.provider import FakeProvider
from tests.unit.provider.wire import (
    Case,
    assistant,
    call,
    calls,
    function,
    message_of,
    post,
    result,
    text,
    user,
)
from tests.unit.provider.wire import openai_body as body

SYSTEM = {"role": "system", "content": "be brief"}
ASK = user("hello")
ONE = (ASK, calls(call("a")), result("a"))


CASES = {
    "no model": Case("shape", body(), body(model=""), "you must provide a model parameter"),
    "no messages": Case("shape", body(), {"model": "m"}, "Missing required parameter: 'messages'."),
    "messages no list": Case("shape", body(), body(messages="hi"), "Invalid type for 'messages'"),
    "empty messages": Case("empty", body(), body(messages=[]), "Invalid 'messages': empty array."),
    "unknown role": Case("shape", body(ASK), body({"role": "robot", "content": "x"}), "Invalid value: 'robot'."),
    "both limits": Case(
        "shape",
        body(max_completion_tokens=5),
        body(max_tokens=5, max_completion_tokens=5),
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
    ),
    "stream options": Case(
        "shape",
        body(stream=True, stream_options={"include_usage": True}),
        body(stream_options={"include_usage": True}),
        "only allowed when 'stream' is enabled",
    ),
    "orphan result": Case(
        "pairing",
        body(*ONE),
        body(ASK, result("a")),
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
    ),
    "orphan beside a call": Case(
        "pairing",
        body(*ONE),
        body(*ONE, result("b")),
        "Invalid parameter: 'tool_call_id' of 'b' not found in 'tool_calls' of previous message.",
    ),
    "result without id": Case(
        "pairing", body(*ONE), body(*ONE[:2], {"role": "tool", "content": "x"}), "'messages[2].tool_call_id'"
    ),
    "missing result": Case(
        "pairing",
        body(ASK, calls(call("a"), call("b")), result("b"), result("a")),
        body(ASK, calls(call("a"), call("b")), result("a"), user("well?")),
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        " The following tool_call_ids did not have response messages: b",
    ),
    "missing result at the end": Case(
        "pairing", body(*ONE), body(*ONE[:2]), "tool_call_ids did not have response messages: a"
    ),
    "result too late": Case(
        "pairing", body(*ONE, user("x")), body(*ONE[:2], user("x"), result("a")), "did not have response messages: a"
    ),
    "id twice in a batch": Case(
        "ids",
        body(ASK, calls(call("a"), call("b")), result("a"), result("b")),
        body(ASK, calls(call("a"), call("a")), result("a"), result("a")),
        "call ids must be unique",
    ),
    "id twice in the conversation": Case(
        "ids",
        body(*ONE, calls(call("b")), result("b")),
        body(*ONE, calls(call("a")), result("a")),
        "'messages[3].tool_calls': call ids must be unique",
    ),
    "result twice": Case("ids", body(*ONE), body(*ONE, result("a")), "Duplicate value for 'tool_call_id' of 'a'"),
    "id too long": Case(
        "ids",
        body(ASK, calls(call("a" * 40)), result("a" * 40)),
        body(ASK, calls(call("a" * 41)), result("a" * 41)),
        "Expected a string with maximum length 40, but got a string with length 41 instead.",
    ),
    "no id": Case("ids", body(*ONE), body(ASK, calls(call(""))), "'messages[1].tool_calls[0].id'"),
    "arguments not JSON": Case(
        "arguments",
        body(ASK, calls(call("a", '{"x": 1}')), result("a")),
        body(ASK, calls(call("a", '{"x": ')), result("a")),
        "Invalid 'messages[1].tool_calls[0].function.arguments': not valid JSON",
    ),
    "arguments empty": Case("arguments", body(*ONE), body(ASK, calls(call("a", "")), result("a")), "not valid JSON"),
    "arguments no object": Case(
        "arguments", body(*ONE), body(ASK, calls(call("a", "[1]")), result("a")), "expected a JSON object"
    ),
    "arguments parsed": Case(
        "arguments",
        body(*ONE),
        body(ASK, calls({**call("a"), "function": {"name": "ls", "arguments": {}}}), result("a")),
        "not valid JSON",
    ),
    "name of a call": Case(
        "tools",
        body(ASK, calls(call("a", name="read_file-2")), result("a")),
        body(ASK, calls(call("a", name="read file")), result("a")),
        "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
    ),
    "name of a tool": Case(
        "tools", body(tools=[function("a" * 64)]), body(tools=[function("a.b")]), "'tools[0].function.name'"
    ),
    "long name of a tool": Case(
        "tools", body(tools=[function("a" * 64)]), body(tools=[function("a" * 65)]), "with maximum length 64"
    ),
    "tool without schema": Case(
        "tools",
        body(tools=[function()]),
        body(tools=[function(parameters=None)]),
        "Invalid schema for function 'ls': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.",
    ),
    "tool without function": Case(
        "tools", body(tools=[function()]), body(tools=[{"name": "ls"}]), "'tools[0].function'"
    ),
    "no tools in the list": Case("tools", body(tools=[function()]), body(tools=[]), "Invalid 'tools': empty array."),
    "tools no list": Case("tools", body(tools=[function()]), body(tools={}), "Invalid type for 'tools'"),
    "same tool twice": Case(
        "tools",
        body(tools=[function("a"), function("b")]),
        body(tools=[function("a"), function("a")]),
        "the function name 'a' is not unique",
    ),
    "null content": Case(
        "empty",
        body(*ONE),
        body(ASK, assistant(None), ASK),
        "Invalid value for 'content': expected a string, got null.",
    ),
    "empty user message": Case("empty", body(user(" ")), body(user("")), "must have non-empty content"),
    "empty part": Case("empty", body(user([text("x")])), body(user([text("")])), "'messages[0].content[0].text'"),
    "no parts": Case("empty", body(user([text("x")])), body(user([])), "'messages[0].content': empty array."),
    "part without type": Case("shape", body(user([text("x")])), body(user([{"text": "x"}])), "content[0].type"),
    "unknown part": Case(
        "shape", body(user([text("x")])), body(user([{"type": "hologram"}])), "Invalid value: 'hologram'."
    ),
    "stream options no object": Case(
        "shape", body(stream=True, stream_options=None), body(stream=True, stream_options="x"), "expected an object"
    ),
    "content a number": Case("shape", body(user("1")), body(user(1)), "expected a string or an array"),
    "empty list of calls": Case(
        "empty",
        body(ASK, assistant("x"), ASK),
        body(ASK, assistant("x", tool_calls=[]), ASK),
        "tool_calls': empty array",
    ),
    "calls of a user": Case(
        "shape", body(*ONE), body({**ASK, "tool_calls": [call("a")]}), "only an assistant message has a list of calls"
    ),
    "call without function": Case(
        "shape", body(*ONE), body(ASK, calls({"id": "a"}), result("a")), "'messages[1].tool_calls[0].function'"
    ),
    "late system message": Case(
        "order", body(SYSTEM, ASK), body(ASK, SYSTEM, ASK), "System message must be at the beginning."
    ),
    "system alone": Case("order", body(SYSTEM, ASK), body(SYSTEM), "No user query found in messages."),
    "assistant first": Case(
        "order",
        body(SYSTEM, ASK),
        body(SYSTEM, assistant("hi"), ASK),
        "Expected first role User after the system prompt",
    ),
    "assistant last": Case(
        "order", body(ASK, assistant("hi"), ASK), body(ASK, assistant("hi")), "Expected last role User or Tool"
    ),
    "blank assistant last": Case(
        "empty", body(ASK, assistant(" "), ASK), body(ASK, assistant(" \n")), "non-whitespace"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refuses_what_is_broken_and_takes_its_neighbour(provider: FakeProvider, name: str) -> None:
    case = CASES[name]
    taken = post(provider, "openai", case.taken)
    assert taken.status_code == 200, taken.text
    assert provider.refusals == []

    refused = post(provider, "openai", case.refused)
    assert refused.status_code == 400
    assert refused.json()["error"].keys() == {"message", "type", "param", "code"}
    assert refused.json()["error"]["type"] == "invalid_request_error"
    assert case.sentence in message_of(refused)
    assert [r.rule for r in provider.refusals] == [case.rule]
    assert provider.broken == provider.refusals
    assert [r.accepted for r in provider.requests] == [True, False]


@pytest.mark.parametrize(
    ("name", "value", "sentence", "code"),
    [
        (
            "max_tokens",
            5,
            "Unsupported parameter: 'max_tokens' is not supported with this model."
            " Use 'max_completion_tokens' instead.",
            "unsupported_parameter",
        ),
        ("temperature", 0.3, "Unsupported value: 'temperature' does not support 0.3", "unsupported_value"),
        ("top_k", 3, "Unsupported parameter: 'top_k' is not supported with this model.", "unsupported_parameter"),
    ],
)
def test_refuses_configured_parameters(
    provider: FakeProvider, name: str, value: float, sentence: str, code: str
) -> None:
    request = body(**{name: value})
    assert post(provider, "openai", request).status_code == 200
    provider.configure(refused_parameters=frozenset({name}))
    error = post(provider, "openai", request).json()["error"]
    assert error["message"].startswith(sentence)
    assert (error["param"], error["code"]) == (name, code)
    assert [r.rule for r in provider.refusals] == ["parameter"]
    assert provider.broken == []


def test_asks_for_its_key(provider: FakeProvider) -> None:
    provider.configure(key="sk-right")
    assert post(provider, "openai", body(), authorization="Bearer sk-right").status_code == 200
    missing = post(provider, "openai", body())
    assert missing.status_code == 401
    assert "You didn't provide an API key" in message_of(missing)
    wrong = post(provider, "openai", body(), authorization="Bearer sk-wrong")
    assert wrong.status_code == 401
    assert wrong.json()["error"]["code"] == "invalid_api_key"
    assert "sk-wrong" not in wrong.text
    assert [r.rule for r in provider.refusals] == ["auth", "auth"]
