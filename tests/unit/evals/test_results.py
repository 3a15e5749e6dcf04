"""Sums over rows."""

from __future__ import annotations

import pytest

from app.messages import Usage
from evals import BASELINE, KINDS, Answer, Row, report
from evals.histories import Kind
from evals.results import cached, recall, share


def answer(*found: bool, kind: Kind = "task", judged: tuple[bool, ...] | None = None) -> Answer:
    facts = tuple((f"fact {number}",) for number in range(len(found)))
    return Answer(kind=kind, question="?", facts=facts, answer="a", found=found, judged=judged)


def row(history: str, policy: str, *answers: Answer, error: str | None = None, usage: Usage | None = None) -> Row:
    return Row(
        history=history,
        policy=policy,
        tokens_before=100,
        tokens_after=40,
        window=200,
        answers=answers,
        error=error,
        compaction=usage or Usage(),
    )


def test_recall_counts_facts_and_not_questions() -> None:
    assert recall([answer(True, True, True), answer(False)]) == 0.75
    assert recall([]) is None


def test_shares_without_facts_are_unknown() -> None:
    assert share([]) is None
    assert cached(Usage()) is None
    assert cached(Usage(input_tokens=25, cache_read_tokens=75, output_tokens=9)) == 0.75


def test_a_policy_is_summed_over_its_histories() -> None:
    one = Usage(input_tokens=10, cache_read_tokens=30, output_tokens=5, cost_usd=0.5)
    found = report(
        "m/x",
        "m/judge",
        [
            row("a", "reactive", answer(True, judged=(True,)), answer(False, kind="files", judged=None), usage=one),
            row("b", "reactive", answer(True, False, judged=(False, False)), usage=one),
        ],
        scripted=False,
    )
    (sums,) = found.policies
    assert sums.recall == {
        "task": pytest.approx(2 / 3),
        "files": 0.0,
        "decisions": None,
        "errors": None,
        "next_step": None,
    }
    assert set(sums.recall) == set(KINDS)
    assert sums.overall == 0.5
    assert sums.judged == pytest.approx(1 / 3)
    assert (sums.tokens_before, sums.tokens_after, sums.rows, sums.failed) == (200, 80, 2, 0)
    assert (sums.compaction.prompt_tokens, sums.compaction.cost_usd, sums.cached) == (80, 1.0, 0.75)


def test_policies_are_compared_over_the_same_histories() -> None:
    good, bad = answer(True), answer(False)
    found = report(
        "m/x",
        None,
        [
            row("a", BASELINE, good),
            row("a", "reactive", good),
            row("a", "handoff", bad),
            row("b", BASELINE, good),
            row("b", "reactive", bad),
            row("b", "handoff", error="The provider is down."),
        ],
        scripted=False,
    )
    assert found.compared == ("a",)
    by_policy = {sums.policy: sums for sums in found.policies}
    assert (by_policy["reactive"].overall, by_policy["reactive"].rows) == (1.0, 1)
    assert (by_policy["handoff"].overall, by_policy["handoff"].failed) == (0.0, 1)


def test_a_baseline_that_does_not_fit_prevents_no_comparison() -> None:
    found = report(
        "m/x", None, [row("a", BASELINE, error="too large"), row("a", "reactive", answer(True))], scripted=False
    )
    assert found.compared == ("a",)
    assert [(sums.policy, sums.overall) for sums in found.policies] == [(BASELINE, None), ("reactive", 1.0)]


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    rows = [
        row("a", "reactive", answer(True), usage=Usage(input_tokens=1, cost_usd=None)),
        row("b", "reactive", answer(True), usage=Usage(input_tokens=1, cost_usd=1.0)),
    ]
    assert report("m/x", None, rows, scripted=False).policies[0].compaction.cost_usd is None


def test_everything_is_json() -> None:
    found = report("m/x", None, [row("a", "reactive", answer(True))], scripted=True)
    public = found.public()
    assert public["rows"][0]["answers"][0]["facts"] == [["fact 0"]]
    assert public["scripted"] is True
