"""Which answer a request gets, and what is kept of the request."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.provider import FakeProvider, Gate, HttpError, RecordedRequest, Reply, Settings, Text
from tests.provider.agent import echo_agent
from tests.provider.anthropic import ANTHROPIC
from tests.provider.desk import Desk
from tests.provider.dialect import Dialect
from tests.provider.openai import OPENAI
from tests.provider.script import pieces
from tests.unit.provider.wire import (
    FORMATS,
    VERSION,
    Format,
    anthropic_body,
    assistant,
    body_of,
    call,
    calls,
    function,
    openai_body,
    outcome,
    post,
    result,
    text,
    tool,
    use,
    user,
)


def say(provider: FakeProvider, *texts: str, model: str = "m") -> str:
    """Asks with these user messages, and returns the answer's text."""
    answer = post(provider, "openai", openai_body(*(user(item) for item in texts), model=model))
    return str(answer.json()["choices"][0]["message"]["content"])


def replies(*texts: str) -> list[Reply]:
    return [Reply(item) for item in texts]


def test_a_script_is_played_in_order_and_then_says_done(provider: FakeProvider) -> None:
    provider.script(*replies("one", "two"))
    assert [say(provider, "x") for _ in range(4)] == ["one", "two", "done", "done"]


def test_a_script_can_be_played_anew_for_each_conversation(provider: FakeProvider) -> None:
    provider.script(*replies("one", "two"), per_conversation=True)
    assert [say(provider, name) for name in "abab"] == ["one", "one", "two", "two"]


def test_keys_are_models_or_lie_in_the_task(provider: FakeProvider) -> None:
    provider.script_for("task a", *replies("a1", "a2"))
    provider.script_for("task a longer", *replies("longer"))
    provider.script_for("cheap", *replies("summary"))
    assert say(provider, "please do task a now") == "a1"
    assert say(provider, "task a longer") == "longer"
    assert say(provider, "something", "as part of task a") == "a2"
    assert say(provider, "task a", model="cheap") == "summary"
    assert say(provider, "task a") == "done"
    assert say(provider, "nothing known") == "done"


def test_the_first_user_message_counts_before_the_others(provider: FakeProvider) -> None:
    provider.script_for("first", *replies("f"))
    provider.script_for("later and longer", *replies("l"))
    assert say(provider, "first", "later and longer") == "f"


def test_predicates_come_first_and_give_way_when_used_up(provider: FakeProvider) -> None:
    provider.script(*replies("default"))
    provider.script_for("x", *replies("key"))
    provider.script_when(lambda request: "summarise" in request.last_user_text, *replies("summary"))
    assert say(provider, "x", "summarise") == "summary"
    assert say(provider, "x", "summarise") == "key"
    assert say(provider, "y") == "default"


def test_functions_answer(provider: FakeProvider) -> None:
    provider.respond(lambda request: Reply(f"n{request.index}"))
    provider.respond(lambda _: Reply("always"), when=lambda request: request.model == "other")
    assert [say(provider, "x", model=model) for model in ("m", "other", "other", "m")] == [
        "n0",
        "always",
        "always",
        "n3",
    ]
    provider.script(lambda request: Reply(request.model), Reply("fixed"))
    assert [say(provider, "x") for _ in range(3)] == ["m", "fixed", "done"]


@pytest.mark.parametrize(("content", "count"), [("", 3), ("a", 3), ("hello", 2), ("hello", 5), ("hello", 0)])
def test_pieces_are_as_many_as_can_be(content: str, count: int) -> None:
    found = list(pieces(content, count))
    assert "".join(found) == content
    assert len(found) == max(1, min(count, len(content)))
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_what_is_kept_of_an_openai_request(provider: FakeProvider) -> None:
    body = openai_body(
        {"role": "system", "content": "be brief"},
        user("do it"),
        assistant("I will", tool_calls=[call("a", '{"x": 1}')]),
        result("a", [text("o"), text("ut")]),
        user([text("and"), {"type": "image_url", "image_url": {"url": "data:,"}}]),
        tools=[function("ls")],
        max_completion_tokens=50,
    )
    post(provider, "openai", body, x_extra="1")
    (request,) = provider.requests
    assert request.body == body
    assert request.system == "be brief"
    assert request.user_texts == ("do it", "and")
    assert (request.first_user_text, request.last_user_text) == ("do it", "and")
    assert request.assistant_texts == ("I will",)
    assert request.tool_calls == {"a": ("ls", {"x": 1})}
    assert request.tool_results == {"a": "out"}
    assert request.tool_names == ("ls",)
    assert (request.model, request.stream, request.max_output_tokens) == ("m", False, 50)
    assert request.headers["x-extra"] == "1"


def test_what_is_kept_of_an_anthropic_request(provider: FakeProvider) -> None:
    body = anthropic_body(
        user("do it"),
        assistant([text("I will"), use("a", {"x": 1})]),
        user([outcome("a", [text("out")]), text("and")]),
        system=[text("be brief")],
        tools=[tool("ls")],
        stream=True,
    )
    post(provider, "anthropic", body)
    (request,) = provider.requests
    assert request.messages == body["messages"]
    assert request.system == "be brief"
    assert request.user_texts == ("do it", "and")
    assert request.assistant_texts == ("I will",)
    assert request.tool_calls == {"a": ("ls", {"x": 1})}
    assert request.tool_results == {"a": "out"}
    assert request.tool_names == ("ls",)
    assert (request.stream, request.max_output_tokens) == (True, 100)


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'{"a": "\xff"}', b'{"a": "\\ud800"}'])
def test_a_body_that_is_no_json_object(provider: FakeProvider, wire: Format, raw: bytes) -> None:
    path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[wire]
    answer = httpx.post(provider.url + path, content=raw, headers=VERSION, trust_env=False, verify=False)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert [r.rule for r in provider.refusals] == ["json"]
    assert provider.requests[0].raw == raw
    assert provider.requests[0].body == {}


@pytest.mark.parametrize("wire", FORMATS)
def test_any_nonsense_is_refused_and_not_a_crash(provider: FakeProvider, wire: Format) -> None:
    nonsense: list[Any] = [[None], [{}], [{"role": None}], [user([None])], {"a": 1}, [user([{"type": {}}])], 0]
    for messages in nonsense:
        answer = post(provider, wire, body_of(wire, messages=messages))
        assert answer.status_code == 400
    assert provider.script_errors == []


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
            optional={"content": inner, "tool_calls": inner, "tool_call_id": inner, "type": inner, "function": inner},
        )
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "function", "image"])},
            optional={"text": inner, "id": inner, "input": inner, "content": inner, "function": inner, "name": inner},
        )
    ),
    max_leaves=12,
)
FIELDS = ("messages", "system", "tools", "max_tokens", "stream", "stream_options", "thinking", "model")


@given(st.sampled_from([OPENAI, ANTHROPIC]), st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES))
def test_no_document_breaks_the_desk(dialect: Dialect, fields: dict[str, Any]) -> None:
    desk = Desk(Settings())
    body = {**anthropic_body(), **fields}
    request, refused = desk.take(dialect, VERSION, json.dumps(body).encode())
    assert request.body == body
    assert request.accepted == (refused is None)
    if refused is None:
        encoded = dialect.stream(desk.answer(request, Reply("x")))
        assert all(isinstance(frame, bytes) for frame in encoded)


def test_only_the_newest_requests_are_kept_under_load(provider: FakeProvider) -> None:
    provider.configure(keep=2)
    for _ in range(4):
        say(provider, "x")
    assert [request.index for request in provider.requests] == [2, 3]


def test_without_strictness_nothing_is_checked(provider: FakeProvider) -> None:
    provider.configure(strict=False)
    assert post(provider, "openai", openai_body(result("orphan"))).status_code == 200
    assert provider.requests[0].tokens == 0


def test_models_are_listed_in_both_formats(provider: FakeProvider) -> None:
    provider.configure(models=("a", "b"), window=2_048)
    with httpx.Client(trust_env=False, verify=False, base_url=provider.url) as client:
        assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["a", "b"]
        listed = client.get("/v1/models", headers=VERSION).json()
        assert (listed["first_id"], listed["last_id"], listed["data"][0]["type"]) == ("a", "b", "model")
        assert client.get("/props").status_code == 404
        assert client.get("/v1/messages").json()["type"] == "error"


@pytest.mark.parametrize(
    ("style", "found"),
    [
        ("vllm", {"max_model_len": 2_048}),
        ("openrouter", {"context_length": 2_048}),
        ("llama.cpp", {"meta": {"n_ctx": 2_048, "n_ctx_train": 8_192}}),
        ("openai", {}),
    ],
)
def test_servers_that_report_their_window_do_so(provider: FakeProvider, style: str, found: dict[str, object]) -> None:
    provider.configure(window=2_048, overflow=style)
    (model,) = httpx.get(f"{provider.openai_url}/models", trust_env=False, verify=False).json()["data"]
    assert {name: model.get(name) for name in found} == found
    assert found or "2048" not in str(model)


def test_llama_cpp_has_properties_and_every_route_asks_for_the_key(provider: FakeProvider) -> None:
    provider.configure(window=2_048, overflow="llama.cpp", key="k")
    props = f"{provider.url}/props"
    assert httpx.get(props, trust_env=False, verify=False).status_code == 401
    found = httpx.get(props, headers={"authorization": "Bearer k"}, trust_env=False, verify=False)
    assert found.json()["default_generation_settings"] == {"n_ctx": 2_048}


def test_documents_take_the_place_of_what_would_be_given(provider: FakeProvider) -> None:
    provider.configure(documents={"/v1/models": HttpError(503), "/props": {"a": 1}, "/v1/models/x": Gate("slow")})
    provider.open("slow")
    with httpx.Client(trust_env=False, verify=False, base_url=provider.url) as client:
        answers = [client.get(path) for path in ("/v1/models", "/props?model=m", "/v1/models/x")]
    assert [answer.status_code for answer in answers] == [503, 200, 404]
    assert answers[1].json() == {"a": 1}
    assert provider.looked == ["/v1/models", "/props?model=m", "/v1/models/x"]


@pytest.mark.parametrize("wire", FORMATS)
def test_the_echo_agent_makes_two_calls_and_then_answers(provider: FakeProvider, wire: Format) -> None:
    asked: list[RecordedRequest] = []

    def answer(request: RecordedRequest) -> Reply | HttpError:
        asked.append(request)
        return echo_agent(request)

    provider.respond(answer)
    if wire == "openai":
        tools = [function("execute_command")]
        steps = [(calls(call(name)), result(name)) for name in "ab"]
    else:
        tools = [tool("execute_command")]
        steps = [(assistant([use(name)]), user([outcome(name)])) for name in "ab"]
    history = [user("hello")]
    texts = []
    for step in [*steps, ()]:
        texts.append(post(provider, wire, body_of(wire, *history, tools=tools)).text)
        history.extend(step)
    assert ["execute_command" in answer for answer in texts] == [True, True, False]
    assert "You said: hello" in texts[2]
    assert "You said: hello" in post(provider, wire, body_of(wire)).text
    assert len(asked) == 4


@pytest.fixture
def root(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.rootpath


def test_it_explains_itself_by_hand(root: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "tests.provider", "--help"], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 0
    assert "--script" in shown.stdout


@pytest.mark.parametrize("script", ['answers = [Reply("one")]', 'def answer(request):\n    return Reply("one")'])
def test_it_runs_by_hand_with_a_script(root: Path, tmp_path: Path, script: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(f"from tests.provider import Reply\n{script}\n")
    command = [sys.executable, "-m", "tests.provider", "--port", "0", "--script", str(path)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+/v1", process.stdout.readline())
            assert url is not None
            answer = httpx.post(f"{url[0]}/chat/completions", json=openai_body(), trust_env=False, verify=False)
            assert answer.json()["choices"][0]["message"]["content"] == "one"
            assert process.stdout.readline() == "0 openai m 2 tokens: accepted\n"
        finally:
            process.terminate()
    assert Text("one") in Reply("one").parts
