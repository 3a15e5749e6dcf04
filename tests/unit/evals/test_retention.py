"""The sums of replays, their intervals, and what requests cost with a cache."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.base import ModelRequest
from app.messages import Message, Role, TextPart, Usage, new_id, now
from evals.costs import CacheMeter, TokenPrices
from evals.growth import Found, fact_state
from evals.histories import Probe
from evals.retention import FactState, Retention, mean_interval, retention_report, wilson


def fact(*, in_context: bool, found: bool = False, misleading: bool = False, over: float = 1.0) -> FactState:
    return FactState(
        kind="task",
        question="?",
        fact=("x",),
        in_context=in_context,
        searched=found,
        found=found,
        misleading=misleading,
        over_rounds=over,
    )


def row(history: str, policy: str, facts: Sequence[FactState], **more: object) -> Retention:
    values = {
        "summarizer": "junk",
        "window": 1_000,
        "steps": 10,
        "rungs": {"summary": 3, "prune": 1},
        "tokens": 500,
        "peak": 900,
        "usage": Usage(input_tokens=25, cache_read_tokens=75),
        "summaries": Usage(),
        "cost_usd": 1.0,
        "uncompacted_usd": 4.0,
        **more,
    }
    return Retention.model_validate({"history": history, "policy": policy, "facts": tuple(facts), **values})


def test_facts_are_summed_over_the_histories_that_all_policies_finished() -> None:
    facts = [fact(in_context=True), fact(in_context=False, found=True, over=0.5), fact(in_context=False, over=0.0)]
    rows = [
        row("one", "handoff", facts),
        row("one", "threshold", [fact(in_context=False, misleading=True)] * 3),
        row("two", "handoff", facts),
        row("two", "threshold", [], error="down"),
    ]
    report = retention_report(rows, TokenPrices())
    assert report.compared == ("one",)
    handoff, threshold = report.sums
    assert (handoff.histories, handoff.facts, handoff.rounds, handoff.cost, handoff.cached) == (1, 3, 4, 0.25, 0.75)
    assert [handoff.found, handoff.neither, handoff.misleading] == pytest.approx([1 / 3, 1 / 3, 0])
    assert handoff.over_rounds is not None
    assert handoff.over_rounds.share == pytest.approx(0.5)
    assert (threshold.misleading, threshold.neither) == (3, 1.0)


def test_without_a_history_in_common_there_are_no_shares() -> None:
    (sums,) = retention_report([row("one", "handoff", [], error="down")], TokenPrices()).sums
    assert (sums.in_context, sums.found, sums.cost, sums.facts) == (None, None, None, 0)


def test_intervals_are_those_of_the_literature() -> None:
    # Newcombe 1998, table I, method 3: 81 of 263, 15 of 148, 0 of 20.
    for true, count, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        found = wilson([True] * true + [False] * (count - true))
        assert found is not None
        assert [found.low, found.high] == pytest.approx([low, high], abs=2e-4)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_a_mean_is_within_its_interval(values: list[float]) -> None:
    found = mean_interval(values)
    assert found is not None
    assert 0 <= found.low <= found.share + 1e-9
    assert found.share - 1e-9 <= found.high <= 1


def said(text: str) -> Message:
    part = TextPart(id=new_id(), index=0, text=text, tokens=100)
    return Message(id=new_id(), seq=1, role=Role.USER, parts=(part,), tokens=100, created_at=now())


def test_only_what_follows_the_longest_known_prefix_is_new() -> None:
    meter, system = CacheMeter(), "s" * 400
    one, two, three = said("one"), said("two"), said("three")
    meter.call(ModelRequest("m", system, [one, two]), 10)
    meter.call(ModelRequest("m", system, [one, two, three]), 10)
    assert meter.steps == Usage(input_tokens=300 + 100, cache_read_tokens=300, output_tokens=20)
    meter.call(ModelRequest("m", system, [one, two, said("sum it up")]), 5, summary=True)
    assert meter.summaries == Usage(input_tokens=100, cache_read_tokens=300, output_tokens=5)
    cleared = two.model_copy(update={"tokens": 20})
    meter.call(ModelRequest("m", system, [one, cleared, three]), 0)
    assert meter.steps.input_tokens == 400 + 120
    assert TokenPrices().dollars(Usage(input_tokens=10**6, cache_read_tokens=10**6, output_tokens=10**6)) == 18.3


@pytest.mark.parametrize(
    ("context", "in_context", "misleading"),
    [
        ("To Lund. No: to Umea.", True, False),
        ("Deploy it to Lund.", False, True),
        ("Deploy it.", False, False),
    ],
)
def test_a_context_that_only_states_what_held_before_misleads(context: str, in_context: bool, misleading: bool) -> None:
    probe = Probe(kind="task", question="Where?", facts=(("Umea",),), outdated=(("Lund",),))
    found = fact_state(probe, probe.facts[0], context, Found("x", "x", "now Umea"), [True, False])
    assert (found.in_context, found.misleading) == (in_context, misleading)
    assert (found.searched, found.found, found.over_rounds) == (False, True, 0.5)
