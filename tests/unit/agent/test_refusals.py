"""What is tried against a refusal that no list explains, and in which order."""

from __future__ import annotations

import pytest

from app.agent.refusals import Accepted, Refusals, Sent, candidates, is_away, sounds_like_outage
from app.errors import AnswerError, ProviderError
from app.llm.base import ModelRequest, Remedy, ToolSchema

OWN = ToolSchema("execute_command", "Runs a command.", {"type": "object"})
FOREIGN = ToolSchema("look_up", "Looks something up.", {"type": "object"})
NOTHING = frozenset[str]()


def refusal(text: str, status: int | None = 400, *parameters: str, retryable: bool = False) -> AnswerError:
    error = AnswerError("refused", body=text, meant_status=status, retryable=retryable)
    error.parameters = parameters
    return error


def accepted(tokens: int = 1_000, images: frozenset[str] = NOTHING, *tools: ToolSchema) -> Accepted:
    return Accepted("model", tokens, ("low",), tools or (OWN, FOREIGN), images)


def sent(
    tokens: int = 2_000,
    images: frozenset[str] = NOTHING,
    *,
    reasons: bool = False,
    opaque: str = "",
    calls: bool = True,
    sees: bool = False,
) -> Sent:
    whole = accepted(tokens, images)
    return Sent(whole, reasons, frozenset(opaque.split()), calls, knows_images=sees, can_shrink=calls)


def kinds(error: AnswerError, request: Sent, before: Accepted | None = None) -> list[str]:
    return list(dict.fromkeys(remedy.kind for remedy in candidates(error, request, before)))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("the input exceeds what this engine accepts", "shrink"),
        ("输入过长", "shrink"),
        ("look_up cannot be compiled", "drop_tools"),
        ("tools[1]: no such type", "drop_tools"),
        ("no `thinking` is known here; temperature is not for you", "drop_parameters"),
        ("pictures are not for this model", "drop_images"),
        ("a thought_signature is missing", "sign_calls"),
        ("reasoning_content is required at index 2", "echo_reasoning"),
        ("tool_calls.0.their_seal: Extra inputs are not permitted", "drop_opaque"),
    ],
)
def test_what_a_refusal_names_comes_first(text: str, first: str) -> None:
    request = sent(
        images=frozenset({"i"}), reasons=first == "echo_reasoning", opaque="their_seal" * (first == "drop_opaque")
    )
    assert kinds(refusal(text, 400, "temperature"), request, accepted())[0] == first


def test_what_is_new_is_suspected_and_what_was_accepted_is_not() -> None:
    random = refusal("zork", 400, "temperature")
    assert kinds(random, sent(images=frozenset({"i"})), accepted()) == ["drop_images", "shrink"]
    assert kinds(random, sent(reasons=True), accepted()) == ["drop_reasoning", "echo_reasoning", "shrink"]
    assert kinds(random, sent(tokens=900, calls=False), accepted()) == []
    assert kinds(random, sent(calls=False), None) == ["drop_parameters", "drop_tools"]
    assert kinds(random, sent(calls=False), accepted(1_000, NOTHING, OWN)) == ["drop_tools"]


def test_a_model_that_has_seen_images_is_not_taken_for_blind() -> None:
    assert kinds(refusal("zork"), sent(images=frozenset({"i"}), sees=True), accepted())[0] == "clear_images"


@pytest.mark.parametrize(
    "error",
    [
        refusal("zork", 401),
        refusal("zork", 429),
        refusal("Rate limit reached: too many tokens per minute"),
        refusal("<html>404</html>", 404),
        refusal("model not found", 404),
        refusal("look_up failed, please try again", 503, retryable=True),
        refusal("Bad Gateway", 502, retryable=True),
        refusal("<html><meta content-type><body>502</body></html>", 502, retryable=True),
        refusal("", 500, retryable=True),
        refusal("400m is not a valid model ID"),
    ],
)
def test_nothing_is_tried_against_what_is_not_about_the_request(error: AnswerError) -> None:
    refusals = Refusals()
    assert [refusals.remedy(error, sent()) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("status", [403, 409, 429, 500, 503, 504])
def test_what_speaks_of_size_is_a_refusal_whatever_the_status(status: int) -> None:
    """Of a limit in time it may be worded like that once."""
    refusals, error = (
        Refusals(),
        refusal("upstream error: input tokens exceed the limit", status, retryable=status > 403),
    )
    remedies = [refusals.remedy(error, sent()) for _ in range(2)]
    assert remedies[-1] is not None
    assert remedies[-1].kind == "shrink"


def test_a_server_error_is_a_refusal_if_it_says_so_or_comes_again() -> None:
    assert Refusals().remedy(refusal("look_up is odd", 500, retryable=True), sent()) is not None
    refusals, vague = Refusals(), refusal("zork", 500, retryable=True)
    assert refusals.remedy(vague, sent()) is None
    assert refusals.remedy(vague, sent()) is not None


def test_what_names_nothing_has_to_come_again() -> None:
    refusals = Refusals()
    assert refusals.remedy(refusal("zork"), sent()) == Remedy("repeat")
    assert refusals.accepted(accepted()) is None
    assert refusals.remedy(refusal("zork"), sent()) == Remedy("repeat"), "it was another one"


def test_what_does_not_help_ends_and_each_remedy_is_tried_once() -> None:
    refusals, error, request = (
        Refusals(),
        refusal("zork", 400, "temperature", "stop"),
        sent(reasons=True, opaque="seal"),
    )
    assert refusals.remedy(error, request) == Remedy("repeat")
    tried: list[Remedy] = []
    while (remedy := refusals.remedy(error, request)) is not None:
        tried.append(remedy)
        if remedy.kind != "shrink":
            assert refusals.trial == (remedy,)
    assert len(tried) == len(set(tried)) > 4
    assert refusals.give_up() == tuple(tried)
    assert refusals.remedy(error, request) is None, "until something is accepted"
    refusals.accepted(accepted())
    assert refusals.remedy(error, request) is not None


def test_what_is_tried_ends_while_a_provider_is_waited_for() -> None:
    refusals, odd = Refusals(), refusal("look_up is odd")
    tried = refusals.remedy(odd, sent())
    refusals.pause()
    assert refusals.trial == ()
    assert refusals.remedy(odd, sent()) == tried


def test_a_context_that_could_not_be_made_smaller_was_not_tried() -> None:
    refusals, error = Refusals(), refusal("the input is too long")
    refusals.accepted(accepted())
    assert refusals.remedy(error, sent()) == Remedy("shrink", ("0",))
    refusals.not_shrunk()
    assert refusals.remedy(error, sent()) is None
    assert refusals.give_up() == ()


def test_only_the_parameters_of_a_summary_are_suspected() -> None:
    request = Sent.of_summary(ModelRequest("model", "", []), 2_000)
    error = refusal("zork", 400, "max_tokens", "temperature")
    assert list(candidates(error, request, None)) == [Remedy("drop_parameters", ("temperature",))]


def test_another_refusal_shows_that_the_last_remedy_has_helped() -> None:
    refusals = Refusals()
    first = refusals.remedy(refusal("look_up is odd"), sent())
    second = refusals.remedy(refusal("temperature is odd", 400, "temperature"), sent())
    assert refusals.trial == (first, second)
    assert refusals.accepted(accepted()) is None
    assert not refusals.trial


def test_a_smaller_request_that_is_accepted_teaches_the_size_of_the_refused_one() -> None:
    refusals = Refusals()
    refusals.accepted(accepted(1_000))
    assert refusals.remedy(refusal("zork zork"), sent(calls=True)) == Remedy("repeat")
    assert refusals.remedy(refusal("zork zork"), sent(calls=True)) == Remedy("shrink", ("0",))
    assert refusals.accepted(accepted(1_500)) == 2_000


def test_a_provider_is_away_if_it_cannot_be_reached_or_says_that_it_is() -> None:
    assert is_away(ProviderError("x", code="provider_unreachable", retryable=True))
    assert is_away(refusal("Bad Gateway", 502, retryable=True))
    assert is_away(refusal("overloaded", 529, retryable=True))
    assert is_away(ProviderError("x", code="provider_stream_ended", retryable=True))
    assert not is_away(refusal("the input is too long", 503, retryable=True))
    assert not is_away(refusal("zork"))
    assert sounds_like_outage(refusal("Bad Gateway", 502, retryable=True))
    assert not sounds_like_outage(refusal("zork", 500, retryable=True))
