"""The window, and every provider's way to say that it is too small."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.provider import FakeProvider, Reply, Text
from tests.provider.overflow import COUNTS_OUTPUT, SHAPES, OverflowStyle
from tests.unit.provider.wire import FORMATS, Format, body_of, message_of, openai_body, post, user

LONG = user("x" * 400)
"""Exactly 100 tokens by the fake's count."""

EXPECTED: dict[OverflowStyle, tuple[int, str]] = {
    "openai": (400, "This model's maximum context length is 99 tokens. However, your messages resulted in 100 tokens."),
    "responses": (400, "Your input exceeds the context window of this model."),
    "anthropic": (400, "prompt is too long: 100 tokens > 99 maximum"),
    "gemini": (400, "The input token count (100) exceeds the maximum number of tokens allowed (99)."),
    "openrouter": (400, "maximum context length is 99 tokens. However, you requested about 107 tokens (100 of text"),
    "vllm": (400, "your prompt contains at least 100 input tokens, for a total of at least 107 tokens."),
    "llama.cpp": (400, "request (100 tokens) exceeds the available context size (99 tokens), try increasing it"),
    "ollama-error": (400, "prompt too long; exceeded max context length by 1 tokens"),
    "bedrock": (400, "Input is too long for requested model"),
    "xai": (400, "This model's maximum prompt length is 99 but the request contains 100 tokens."),
    "groq": (400, "Please reduce the length of the messages or completion."),
    "lmstudio": (400, "greater than the context length"),
    "mistral": (400, "Prompt contains 100 tokens and 0 draft tokens, too large for model with 99 maximum"),
    "cerebras": (413, ""),
}


@pytest.mark.parametrize("style", EXPECTED)
def test_a_prompt_of_the_window_is_taken_and_one_token_more_is_not(
    provider: FakeProvider, style: OverflowStyle
) -> None:
    output = 0 if style in COUNTS_OUTPUT else 7
    provider.configure(window=100, overflow=style)
    fits: dict[str, Any] = {"max_tokens": output} if output else {}
    assert post(provider, "openai", openai_body(LONG, **fits)).status_code == 200
    provider.configure(window=99)
    answer = post(provider, "openai", openai_body(LONG, max_tokens=7))
    status, sentence = EXPECTED[style]
    assert answer.status_code == status
    assert sentence in answer.text
    assert [(r.rule, r.request) for r in provider.refusals] == [("overflow", 1)]
    assert provider.broken == []


def test_every_style_has_a_shape_or_is_silent() -> None:
    assert set(get_args(OverflowStyle)) == SHAPES.keys() | {"ollama"} == EXPECTED.keys() | {"ollama"}


def test_codes_and_numbers_of_the_shapes(provider: FakeProvider) -> None:
    provider.configure(window=99, overflow="openai")
    error = post(provider, "openai", openai_body(LONG)).json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    provider.configure(overflow="llama.cpp")
    error = post(provider, "openai", openai_body(LONG)).json()["error"]
    assert (error["type"], error["n_prompt_tokens"], error["n_ctx"]) == ("exceed_context_size_error", 100, 99)
    provider.configure(overflow="cerebras")
    assert post(provider, "openai", openai_body(LONG)).content == b""


@pytest.mark.parametrize("wire", FORMATS)
def test_prompt_and_output_together_may_not_exceed_the_window(provider: FakeProvider, wire: Format) -> None:
    provider.configure(window=150)
    assert post(provider, wire, body_of(wire, LONG, max_tokens=50)).status_code == 200
    sentences = {
        "openai": "you requested 151 tokens (100 in the messages, 51 in the completion)",
        "anthropic": "input length and `max_tokens` exceed context limit: 100 + 51 > 150, decrease input length",
    }
    assert sentences[wire] in message_of(post(provider, wire, body_of(wire, LONG, max_tokens=51)))


def test_a_model_may_have_a_window_of_its_own(provider: FakeProvider) -> None:
    provider.configure(windows={"small": 99})
    assert post(provider, "openai", openai_body(LONG)).status_code == 200
    assert post(provider, "openai", openai_body(LONG, model="small")).status_code == 400


def test_ollama_answers_and_reports_less_than_was_sent(provider: FakeProvider) -> None:
    provider.configure(window=40, overflow="ollama")
    answer = post(provider, "openai", openai_body(LONG))
    assert answer.json()["usage"]["prompt_tokens"] == 40
    assert provider.requests[0].tokens == 100
    assert provider.refusals == []


@pytest.mark.parametrize("wire", FORMATS)
def test_a_body_over_the_limit_is_413(provider: FakeProvider, wire: Format) -> None:
    provider.configure(max_body=600)
    assert post(provider, wire, body_of(wire, LONG)).status_code == 200
    answer = post(provider, wire, body_of(wire, user("x" * 600)))
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "request_too_large"


def test_a_refused_request_uses_up_no_answer_and_is_no_prefix(provider: FakeProvider) -> None:
    provider.configure(window=99)
    provider.script(Reply(Text("first")))
    assert post(provider, "openai", openai_body(LONG)).status_code == 400
    provider.configure(window=1_000)
    answer = post(provider, "openai", openai_body(LONG)).json()
    assert answer["choices"][0]["message"]["content"] == "first"
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
