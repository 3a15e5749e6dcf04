"""What servers require about roles and reasoning: learned from refusals, and kept in every form of the bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistralai.client.models import ChatCompletionStreamRequest

from app.errors import ProviderError, ReshapeError
from app.llm.base import ModelRequest
from app.llm.openai import OpenAiProvider
from app.llm.openai_wire import WireForm, encode_body, form_of
from app.llm.quirks import Quirks, learn_messages, may_follow, wants_reasoning
from app.messages import Message, Role
from tests.provider import FakeProvider, Reasoning, Reply, Text, ToolCall
from tests.provider.fixtures import provider

from .values import assistant, call, collect, image, message, prose, reasoning, request, result, results, text, user

__all__ = ["provider"]

MISTRAL = '{"object":"error","message":"Unexpected role \'user\' after role \'tool\'","code":"3230"}'
STRICT = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
STRICTER = "Conversation roles must alternate user/assistant/user/assistant/..."
IDS = "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9."
ECHO = "The reasoning_content in the thinking mode must be passed back to the API."
STEPS = (user("u"), assistant(text("a"), call("c1")), results(result("c1")))
FORMS = st.builds(
    WireForm, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([None, "reasoning_content"])
)


def wire(asked: ModelRequest, form: WireForm) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = orjson.loads(encode_body(asked, {}, form))["messages"]
    return messages


def learned(sentence: str, *history: Message, known: Quirks | None = None) -> list[str]:
    """The quirks that a refusal of this history sets."""
    quirks = known or Quirks("max_tokens")
    before = quirks.to_json()
    taught = learn_messages(sentence, encode_body(request(*history), {}, form_of(quirks)), quirks)
    changed = [name for name, value in quirks.to_json().items() if value != before[name]]
    assert taught == bool(changed)
    return changed


@pytest.mark.parametrize(
    ("sentence", "history", "quirk"),
    [
        (MISTRAL, (*STEPS, user("v")), "bridges_roles"),
        ("Unexpected role 'user' after role 'user'", (user("u"), user("v")), "bridges_roles"),
        (STRICT, (*STEPS, user("v")), "bridges_roles"),
        (STRICT, STEPS, "tools_as_text"),
        (STRICTER, (user("u"), user("v")), "bridges_roles"),
        (STRICTER, (user("u"),), "no_system_role"),
        ("System role not supported", (user("u"),), "no_system_role"),
        ("Only user, assistant and tool roles are supported, got system.", (user("u"),), "no_system_role"),
        ("Only user and assistant roles are supported!", STEPS, "tools_as_text"),
        ("Only user and assistant roles are supported!", (user("u"),), "no_system_role"),
        (IDS, STEPS, "short_call_ids"),
    ],
)
def test_the_rule_is_derived_from_the_sentence_and_the_request(
    sentence: str, history: tuple[Message, ...], quirk: str
) -> None:
    assert learned(sentence, *history) == [quirk]


@pytest.mark.parametrize("sentence", [STRICT, MISTRAL, "Unexpected role 'tool' after role 'user'", "roles are fine"])
def test_a_history_that_keeps_the_rule_teaches_nothing(sentence: str) -> None:
    assert learned(sentence, user("u")) == []


def test_a_rule_is_learned_once() -> None:
    quirks = Quirks("max_tokens")
    assert learned(MISTRAL, *STEPS, user("v"), known=quirks) == ["bridges_roles"]
    assert learned("Unexpected role 'user' after role 'tool'", user("u"), known=quirks) == []


@pytest.mark.parametrize(
    ("sentence", "field"),
    [
        (ECHO, "reasoning_content"),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", "reasoning_content"),
        ("Missing `reasoning_content` field in the assistant message at message index 2.", "reasoning_content"),
        ("messages with tool_calls must include reasoning_content", "reasoning_content"),
        ("The `reasoning` of earlier turns must be passed back.", "reasoning"),
    ],
)
def test_a_server_names_the_reasoning_field_that_it_requires(sentence: str, field: str) -> None:
    quirks = Quirks("max_tokens")
    assert wants_reasoning(sentence, quirks)
    assert (quirks.echoes_reasoning, quirks.reasoning_field) == (True, field)
    asked = request(user("u"), assistant(reasoning("hm "), reasoning("so"), call("c1")), results(result("c1")))
    assert wire(asked, form_of(quirks))[2][field] == "hm so"


def test_a_server_that_refuses_the_field_never_gets_it_again() -> None:
    quirks = Quirks("max_tokens", echoes_reasoning=True)
    history = (user("u"), assistant(reasoning("hm"), call("c1")), results(result("c1")))
    refusal = "Unknown parameter: 'messages[2].reasoning_content'."
    assert learned(refusal, *history, known=quirks) == ["echoes_reasoning"]
    assert quirks.echoes_reasoning is False
    assert not wants_reasoning(ECHO, quirks)
    assert form_of(quirks).reasoning_field is None


def test_calls_without_reasoning_have_an_empty_field_and_texts_none() -> None:
    form = WireForm(reasoning_field="reasoning_content", asked=True)
    sent = wire(request(*STEPS, assistant(text("done")), user("v")), form)
    assert [m.get("reasoning_content") for m in sent if m["role"] == "assistant"] == ["", None]


def test_quirks_round_trip() -> None:
    quirks = Quirks("max_tokens", max_tokens=5, dropped={"stop"}, bridges_roles=True, echoes_reasoning=False)
    kept = orjson.loads(orjson.dumps(quirks.to_json()))
    assert Quirks("max_completion_tokens").restored(kept) == quirks
    assert Quirks("max_tokens").restored({**kept, "of_a_later_version": [1]}) == quirks
    fresh = Quirks("max_tokens")
    assert fresh.restored({"dropped": 5}) == fresh
    assert fresh.restored({}) == fresh


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Valid histories: every batch of calls is answered, some results have an image."""
    history = [user("task")]
    for number, kind in enumerate(draw(st.lists(st.sampled_from(["user", "text", "calls", "control"]), max_size=14))):
        if kind == "calls":
            extra = [image()] if draw(st.booleans()) else []
            history += [
                assistant(
                    reasoning("r"), text(draw(st.sampled_from(["", "t"]))), call(f"c{number}"), call(f"d{number}")
                ),
                results(result(f"c{number}"), result(f"d{number}"), *extra),
            ]
        elif kind == "text":
            history.append(assistant(text("a")))
        else:
            history.append(user("u") if kind == "user" else message(Role.CONTROL, text("k")))
    return history


@given(histories(), FORMS, st.sampled_from(["Be good.", ""]))
def test_a_longer_history_starts_with_the_bytes_of_the_shorter_one(
    history: list[Message], form: WireForm, system: str
) -> None:
    cache: dict[str, Any] = {}
    before = b""
    for end in range(1, len(history) + 1):
        asked = ModelRequest("m", system, history[:end], wire_cache=cache)
        sent = encode_body(asked, {}, form).removesuffix(b"]}")
        assert sent.startswith(before)
        assert sent + b"]}" == encode_body(ModelRequest("m", system, history[:end]), {}, form)
        before = sent


@given(histories(), FORMS, FORMS)
def test_the_bytes_of_two_forms_never_mix(history: list[Message], one: WireForm, other: WireForm) -> None:
    cache: dict[str, Any] = {}
    for form in (one, other, one):
        assert encode_body(request(*history, wire_cache=cache), {}, form) == encode_body(request(*history), {}, form)


@given(histories(), FORMS)
def test_every_form_keeps_its_rules(history: list[Message], form: WireForm) -> None:
    sent = wire(request(*history), form)
    roles = [m["role"] for m in sent]
    assert roles.count("system") == (0 if form.no_system_role else 1)
    if form.no_system_role:
        assert "Be good." in str(sent[0]["content"])
    if form.bridges_roles:
        assert all(may_follow(first, second) for first, second in pairwise(roles))
        _assert_in_turns(sent)
    if form.tools_as_text:
        assert "tool" not in roles
        assert not any("tool_calls" in m for m in sent)
    _assert_ids(sent, short=form.short_call_ids)
    assert any("reasoning_content" in m for m in sent) == (
        form.reasoning_field is not None and any(m.tool_calls for m in history)
    )


def _assert_ids(sent: Sequence[dict[str, Any]], *, short: bool) -> None:
    """Each result has the id of its call, which is nine letters and digits if a server requires that."""
    calls = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == calls
    assert len(set(calls)) == len(calls)
    assert not short or all(re.fullmatch("[A-Za-z0-9]{9}", call_id) for call_id in calls)


@pytest.mark.parametrize("sentence", [MISTRAL, IDS])
def test_two_concurrent_requests_both_learn(sentence: str) -> None:
    """The second was sent in the old form before the first was refused."""
    body = encode_body(request(*STEPS, user("v")), {})
    quirks = Quirks("max_tokens")
    assert learn_messages(sentence, body, quirks)
    assert learn_messages(sentence, body, quirks)
    assert not learn_messages(sentence, encode_body(request(*STEPS, user("v")), {}, form_of(quirks)), quirks)


def _assert_in_turns(sent: Sequence[dict[str, Any]]) -> None:
    """As Mistral's templates count: except for calls and results, users and answers alternate."""
    spoken = [m["role"] for m in sent if m["role"] in ("user", "assistant") and "tool_calls" not in m]
    assert all(one != other for one, other in pairwise(spoken))


@given(histories(), st.booleans(), st.booleans())
def test_mistrals_types_accept_the_bridged_form(history: list[Message], no_system: bool, as_text: bool) -> None:
    form = WireForm(True, no_system, as_text)
    ChatCompletionStreamRequest.model_validate_json(encode_body(request(*history), {}, form))


async def test_deepseeks_rule_asks_for_a_reshaped_history(provider: FakeProvider) -> None:
    provider.configure(insists=frozenset({"echo"}))
    provider.script(Reply(Reasoning("I think."), Text("a"), ToolCall("read_file", {})), Reply(Text("done")))
    openai = OpenAiProvider("acme", provider.openai_url, None, idle_timeout_s=5)
    try:
        await collect(openai.stream(request(user("u"))))
        step = (user("u"), assistant(text("a"), call("c1")), results(result("c1")))
        with pytest.raises(ReshapeError) as caught:
            await collect(openai.stream(request(*step)))
        assert caught.value.reshape == "echo_reasoning"
        assert openai.known("m").echoes_reasoning
        altered = assistant(reasoning("I thought."), text("a"), call("c1"))
        with pytest.raises(ProviderError):
            await collect(openai.stream(request(step[0], altered, step[2])))
        true = assistant(reasoning("I think."), text("a"), call("c1"))
        assert prose(await collect(openai.stream(request(step[0], true, step[2])))) == "done"
    finally:
        await openai.aclose()
