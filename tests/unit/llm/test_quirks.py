from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.quirks import Quirks

WANTED: dict[str, Any] = {"temperature": 0.3, "stop": ["END"], "stream_options": {"include_usage": True}}


def refusal(message: str, param: str | None = None) -> str:
    return orjson.dumps({"error": {"message": message, "param": param}}).decode()


def taught(*bodies: str, limit: int | None = 32_000) -> dict[str, Any]:
    """What is sent after these refusals, each of which must teach something."""
    quirks = Quirks("max_tokens")
    for body in bodies:
        assert quirks.learn(body, quirks.parameters(WANTED, limit)), body
    return quirks.parameters(WANTED, limit)


def test_at_first_every_parameter_with_a_value_is_sent() -> None:
    quirks = Quirks("max_tokens")
    assert quirks.parameters({"temperature": 0.0, "stop": None}, 5) == {"temperature": 0.0, "max_tokens": 5}
    assert quirks.parameters({}, None) == {}


@pytest.mark.parametrize(
    ("body", "dropped"),
    [
        (refusal("Unsupported value: 'temperature' does not support 0.3 here.", "temperature"), "temperature"),
        (refusal("`temperature` is deprecated for this model."), "temperature"),
        (refusal("Unsupported parameter: 'stop' is not supported with this model.", "stop"), "stop"),
        (refusal('Unknown parameter "stop"'), "stop"),
        ('{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}',
         "stream_options"),
        ("Unrecognized request argument supplied: stream_options", "stream_options"),
        (refusal("stream_options.include_usage is not supported", "stream_options.include_usage"), "stream_options"),
    ],
)  # fmt: skip
def test_a_refused_parameter_is_left_out(body: str, dropped: str) -> None:
    assert taught(body) == {name: value for name, value in WANTED.items() if name != dropped} | {"max_tokens": 32_000}


@pytest.mark.parametrize(
    ("body", "maximum"),
    [
        (refusal("max_tokens is too large: 32000. This model supports at most 16384 completion tokens"), 16_384),
        (refusal("max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens"), 8_192),
        (refusal("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), 8_192),
        (refusal("`max_tokens` must be less than or equal to `4096`"), 4_096),
        (refusal("max_tokens: the maximum is 2048 here", "max_tokens"), 2_048),
    ],
)
def test_a_limit_that_is_too_high_is_lowered(body: str, maximum: int) -> None:
    assert taught(body)["max_tokens"] == maximum


def test_a_learned_maximum_never_raises_the_limit() -> None:
    quirks = Quirks("max_tokens")
    assert quirks.learn(refusal("max_tokens: at most 8192"), {"max_tokens": 32_000})
    assert quirks.parameters({}, 100) == {"max_tokens": 100}


def test_a_limit_too_low_to_be_usable_is_ignored() -> None:
    quirks = Quirks("max_tokens")
    before = quirks.to_json()
    assert not quirks.learn(refusal("max_tokens: at most 10"), {"max_tokens": 8_192})
    assert quirks.to_json() == before


def test_a_maximum_that_was_not_exceeded_teaches_nothing() -> None:
    assert not Quirks("max_tokens").learn(refusal("max_tokens: at most 8192"), {"max_tokens": 8192})


def test_the_limits_other_name_is_tried_before_dropping_it() -> None:
    by_new_name = refusal("'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens")
    assert "max_completion_tokens" in taught(by_new_name)
    neither = taught(by_new_name, refusal("Unknown parameter: max_completion_tokens"))
    assert not {"max_tokens", "max_completion_tokens"} & set(neither)


def test_the_new_name_is_replaced_by_the_old_one() -> None:
    quirks = Quirks("max_completion_tokens")
    assert quirks.learn(refusal("unknown: max_completion_tokens"), quirks.parameters({}, 9))
    assert quirks.parameters({}, 9) == {"max_tokens": 9}


def test_a_format_with_one_name_has_no_other() -> None:
    quirks = Quirks("max_tokens", token_names=("max_tokens",))
    assert quirks.learn(refusal("max_tokens is not supported"), quirks.parameters({}, 9))
    assert quirks.parameters({}, 9) == {}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "Bad request",
        refusal("'messages' is not supported", "messages"),
        refusal("This model does not support tools, temperature is fine", "tools"),
        refusal("temperature must be between 0 and 2"),
        refusal("unexpected end: please stop sending garbage"),
        refusal("max_tokens must be positive"),
        '{"error": "plain"}',
        "[]",
    ],
)
def test_other_errors_teach_nothing(body: str) -> None:
    quirks = Quirks("max_tokens")
    before = quirks.parameters(WANTED, 32_000)
    assert not quirks.learn(body, before)
    assert quirks.parameters(WANTED, 32_000) == before


def test_a_parameter_that_was_not_sent_cannot_have_been_refused() -> None:
    assert not Quirks("max_tokens").learn(refusal("unsupported: temperature"), {"max_tokens": 5})


def test_the_first_of_several_names_counts() -> None:
    sent = taught(refusal("temperature is not supported; stream_options and max_tokens are"))
    assert set(sent) == {"stop", "stream_options", "max_tokens"}


_WORDS = ["unsupported", "temperature", "'stop'", "stream_options", "max_tokens", "max_completion_tokens", "at most 10"]


@given(st.lists(st.lists(st.sampled_from(_WORDS), max_size=5).map(" ".join), max_size=30))
def test_every_correction_changes_the_next_request(bodies: list[str]) -> None:
    quirks, lessons = Quirks("max_tokens"), 0
    for body in bodies:
        sent = quirks.parameters(WANTED, 32_000)
        if quirks.learn(body, sent):
            lessons += 1
            assert quirks.parameters(WANTED, 32_000) != sent
    assert lessons <= 6


EFFORT = {"reasoning_effort": "minimal"}


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("Unsupported value: 'minimal' is not supported with this model. Supported values are: 'none', 'low', 'medium',"
         " 'high', and 'xhigh'.", {"minimal", "max"}),
        ("Input should be 'low', 'medium' or 'high'", {"none", "minimal", "xhigh", "max"}),
        ("Invalid value for reasoning_effort: minimal", {"minimal"}),
    ],
)  # fmt: skip
def test_a_refused_effort_teaches_the_accepted_ones(message: str, refused: set[str]) -> None:
    quirks = Quirks("max_tokens")
    assert quirks.learn(refusal(message, "reasoning_effort"), EFFORT)
    assert (quirks.refused_efforts, quirks.dropped) == (refused, set())


def test_a_refused_effort_of_claude_teaches_the_accepted_ones() -> None:
    quirks = Quirks("max_tokens")
    message = "output_config.effort: Input should be 'low', 'medium' or 'high'"
    assert quirks.learn(refusal(message), {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}})
    assert (quirks.refused_efforts, quirks.dropped) == ({"minimal", "xhigh", "max"}, set()), "none is never listed"


def test_stored_parameters_of_another_format_are_ignored() -> None:
    assert Quirks("max_tokens").restored({"token_name": "max_output_tokens"}).token_name == "max_tokens"


def test_a_server_without_efforts_gets_none() -> None:
    quirks = Quirks("max_tokens")
    assert quirks.learn(refusal("Unrecognized request argument supplied: reasoning_effort"), EFFORT)
    assert quirks.parameters(EFFORT, None) == {}


def test_a_model_with_tools_only_at_the_other_endpoint_keeps_its_effort() -> None:
    message = (
        "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function"
        " tools, use /v1/responses or set reasoning_effort to 'none'."
    )
    quirks = Quirks("max_tokens")
    assert not quirks.learn(refusal(message, "reasoning_effort"), EFFORT)
    assert (quirks.refused_efforts, quirks.dropped) == (set(), set())
