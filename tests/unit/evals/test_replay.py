"""A replay: its starting context, its window, and the round it makes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.budget import make_budget, trigger
from app.context.policies import POLICIES, Policy, preset
from app.errors import ProviderError, UnknownModelError
from app.llm.base import UNKNOWN_PRICES, ModelInfo, ModelRequest
from app.messages import Role
from evals.replay import SMALLEST_WINDOW, Replay, filled_window

from .stage import MODEL, SUMMARY, Model, history, models

INFO = ModelInfo(MODEL, "acme", 128_000, "catalog", None, UNKNOWN_PRICES, True)


async def replay(model: Model, policy: Policy | None = None, *, steps: int = 30, window: int | None = None) -> Replay:
    recorded = history(steps=steps)
    return await Replay.of(recorded, recorded.conversation(), MODEL, models(model), policy=policy, window=window)


@given(st.integers(5_000, 2_000_000), st.sampled_from(POLICIES))
def test_the_window_is_the_largest_that_the_context_fills(tokens: int, policy: Policy) -> None:
    settings = preset(policy)

    def trigger_of(window: int) -> int:
        return trigger(make_budget(replace(INFO, context_window=window, window_source="setting"), settings), settings)

    window = filled_window(tokens, INFO, settings)
    assert window >= SMALLEST_WINDOW
    if trigger_of(SMALLEST_WINDOW) < tokens <= 200_000:
        assert trigger_of(window) < tokens
        assert trigger_of(window + 1) >= tokens


async def test_the_full_context_is_what_the_next_step_would_send() -> None:
    whole = await replay(Model())
    request = whole.request()
    assert len(request.messages) == 61
    assert "Write omega.txt" in request.system
    assert {"execute_command", "recall"} <= {tool.name for tool in request.tools}
    assert whole.fits


async def test_replays_of_one_conversation_send_the_same_bytes() -> None:
    recorded = history()
    conversation = recorded.conversation()
    whole = await Replay.of(recorded, conversation, MODEL, models(Model()))
    policy = await Replay.of(recorded, conversation, MODEL, models(Model()), policy=POLICIES[0])
    assert whole.request().messages == policy.request().messages
    assert (whole.request().system, whole.request().tools) == (policy.request().system, policy.request().tools)


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_round_makes_the_context_smaller_and_keeps_the_task(policy: Policy) -> None:
    model = Model()
    made = await replay(model, policy)
    before = made.tokens
    result = await made.compact()
    assert result.rung == "summary"
    assert result.summary == SUMMARY
    assert result.messages_compacted > 20
    assert (result.failures, result.problem) == ((), None)
    assert made.tokens < before
    text = "\n".join(message.text for message in made.request().messages)
    assert "Write alpha.sh for the harbour." in text
    assert SUMMARY in text
    assert "output 3 " not in "".join(r.output for m in made.request().messages for r in m.tool_results)
    assert result.usage.cost_usd == 0.01
    assert len(model.summaries) == 1


async def test_the_summary_is_requested_in_the_conversation_if_the_policy_says_so() -> None:
    model = Model()
    made = await replay(model, "reactive", steps=60)
    prefix = list(made.request().messages)
    await made.compact()
    (asked,) = model.summaries
    assert list(asked.messages[:-1]) == prefix
    assert asked.tools


async def test_a_given_window_replaces_the_filled_one() -> None:
    model = Model()
    made = await replay(model, "handoff", window=16_000)
    assert made.window == 16_000
    await made.compact()
    # Only the summary and the last request are left.
    assert [message.role for message in made.request().messages] == [Role.USER]


async def test_a_history_larger_than_the_model_is_summarized_in_pieces() -> None:
    model = Model()
    recorded = history(steps=300)
    made = await Replay.of(recorded, recorded.conversation(), MODEL, models(model, window=16_000), policy="reactive")
    assert made.window == 16_000 < made.tokens
    result = await made.compact()
    assert result.rung == "summary"
    assert made.tokens <= made.config.budget.usable
    assert len(model.summaries) > 1
    for asked in model.summaries:
        assert len(asked.messages) == 1
        assert asked.messages[0].tokens < 16_000


async def test_a_round_succeeds_without_a_models_summary() -> None:
    def refuse(request: ModelRequest) -> str:
        raise ProviderError("The provider is down.", code="provider_unavailable")

    made = await replay(Model(refuse), "threshold")
    result = await made.compact()
    assert result.rung == "fold"
    assert [(failure.rung, failure.code) for failure in result.failures] == [("summary", "provider_unavailable")]


async def with_large_outputs() -> Replay:
    """Steps whose first outputs are most of the context, replayed under `reactive`."""
    recorded = history(steps=20)
    large = [
        {**message, "content": "a large output " * 1_500}
        if message.get("tool_call_id") in ("c3", "c4", "c5")
        else message
        for message in recorded.messages
    ]
    recorded = recorded.model_copy(update={"messages": tuple(large)})
    return await Replay.of(recorded, recorded.conversation(), MODEL, models(Model()), policy="reactive")


async def test_a_summary_is_made_of_outputs_that_nobody_has_cleared() -> None:
    made = await with_large_outputs()
    before = made.tokens
    assert before > made.config.budget.usable
    result = await made.compact()
    assert (result.rung, result.outputs_pruned, result.problem) == ("summary", 0, None)
    assert made.tokens < before
    shown = [result for message in made.request().messages for result in message.tool_results]
    assert not [result for result in shown if "recall(" in result.output]


async def test_a_smaller_window_is_summarized_too() -> None:
    made = await with_large_outputs()
    smaller = await Replay.of(
        made.history, made.history.conversation(), MODEL, models(Model()), policy="reactive", window=7_000
    )
    result = await smaller.compact()
    assert result.rung == "summary"
    assert result.summary == SUMMARY
    assert smaller.tokens <= smaller.config.budget.usable


@pytest.mark.parametrize("policy", POLICIES)
async def test_below_the_trigger_a_manual_round_is_made(policy: Policy) -> None:
    made = await replay(Model(), policy, window=100_000)
    before = made.tokens
    result = await made.compact()
    assert (result.rung, result.summary) == ("summary", SUMMARY)
    assert made.tokens < before


async def test_a_task_that_does_not_fit_is_clipped_without_a_model() -> None:
    def refuse(request: ModelRequest) -> str:
        return "I would rather not." * 2_000

    recorded = history(steps=0).model_copy(update={"messages": ({"role": "user", "content": "word " * 8_000},)})
    made = await Replay.of(
        recorded, recorded.conversation(), MODEL, models(Model(refuse)), policy="reactive", window=8_000
    )
    before = made.tokens
    result = await made.compact()
    assert (result.rung, result.problem, result.usage.total_tokens) == ("fold", None, 0)
    assert made.tokens < before


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_short_history_has_nothing_old_enough_or_gets_smaller(policy: Policy) -> None:
    made = await replay(Model(), policy, steps=1)
    before = made.tokens
    result = await made.compact()
    assert (result.rung is None) == (made.tokens == before)
    assert (result.problem is None) == (result.rung is not None)


async def test_a_context_larger_than_the_window_does_not_fit() -> None:
    recorded = history(steps=60)
    whole = await Replay.of(recorded, recorded.conversation(), MODEL, models(Model(), window=8_000))
    assert not whole.fits


async def test_an_unknown_model_is_reported() -> None:
    recorded = history()
    with pytest.raises(UnknownModelError):
        await Replay.of(recorded, recorded.conversation(), "nobody/x", models(Model()))
