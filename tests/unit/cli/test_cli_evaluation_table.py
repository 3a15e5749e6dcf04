"""The table of an evaluation."""

from __future__ import annotations

import pytest

from app.cli.eval_table import percent
from app.cli.evaluate import NO_MODEL, render
from app.messages import Usage
from evals import BASELINE, Answer, Row, report
from evals.histories import Kind

COST = Usage(input_tokens=200, cache_read_tokens=800, output_tokens=50, cost_usd=0.0123)


def answers(task: bool, judged: bool | None = None) -> tuple[Answer, ...]:
    def one(kind: Kind, found: bool) -> Answer:
        verdict = None if judged is None else (judged,)
        return Answer(kind=kind, question="?", facts=(("x",),), answer="a", found=(found,), judged=verdict)

    return one("task", task), one("errors", False), one("next_step", True)


def row(policy: str, history: str = "long_log", **fields: object) -> Row:
    made = {"tokens_before": 9_000, "tokens_after": 9_000, "window": 10_000, "answers": answers(True), **fields}
    return Row.model_validate({"history": history, "policy": policy, **made})


ROWS = [row(BASELINE), row("handoff", tokens_after=3_000, compaction=COST, answers=answers(False), rung="summary")]


def test_rows_have_recall_tokens_costs_and_cache() -> None:
    text = render(report("m/x", None, ROWS, scripted=False))
    lines = text.splitlines()
    assert lines[0] == "Recall of m/x after one round of compaction"
    assert "Total (1 history)" in lines
    heading = next(line for line in lines if "decis." in line)
    assert " ".join(heading.split()) == "task files decis. errors next all rung tokens round cost cached"
    full = [line.split() for line in lines if line.startswith("  full context")]
    assert full == [["full", "context", "100%", "–", "–", "0%", "100%", "67%", "–", "9,000", "–", "–"]] * 2
    handoff = [" ".join(line.split()) for line in lines if line.startswith("  handoff")]
    assert handoff == ["handoff 0% – – 0% 100% 33% summary 9,000 → 3,000 1,000 in · 50 out · $0.0123 80%"] * 2


def test_columns_are_aligned() -> None:
    lines = render(report("m/x", None, ROWS, scripted=False)).splitlines()
    block = lines[lines.index("long_log") + 1 :]
    assert len({len(line) for line in block}) == 1


def test_a_scripted_model_is_pointed_out() -> None:
    assert NO_MODEL in render(report("scripted/demo", None, ROWS, scripted=True))
    assert NO_MODEL not in render(report("m/x", None, ROWS, scripted=False))


def test_a_judge_has_a_column() -> None:
    text = render(report("m/x", "m/j", [row(BASELINE, answers=answers(True, judged=True))], scripted=False))
    assert " judge " in text
    assert "67%   100%" in text


def test_failures_are_rows_with_their_reasons_listed_below() -> None:
    rows = [*ROWS, row("reactive", answers=(), error="The key was refused. (provider_auth)", notes=("summary: x (y)",))]
    text = render(report("m/x", None, rows, scripted=False))
    assert "  reactive      failed, see below" in text
    assert text.splitlines()[-3:] == [
        "Problems",
        "  long_log, reactive: summary: x (y)",
        "  long_log, reactive: The key was refused. (provider_auth)",
    ]
    assert "Total (0 of 1 histories: those that every policy completed)" in text
    assert "  reactive      no history" in text


def test_a_round_without_a_model_call_costs_none() -> None:
    text = render(report("m/x", None, [row("reactive", tokens_after=10, rung="fold")], scripted=False))
    last = " ".join(text.splitlines()[-1].split())
    assert last.endswith("9,000 → 10 no model call –")


def test_the_rungs_of_a_policy_are_counted_if_histories_differ() -> None:
    rows = [
        row("reactive", "one", rung="summary", compaction=COST),
        row("reactive", "two", rung="prune", tokens_after=6_000),
        row("reactive", "three", rung="summary", compaction=COST),
        row("handoff", "one", rung="shrink", compaction=COST),
        row("handoff", "two", rung="shrink", compaction=COST),
        row("handoff", "three", rung="shrink", compaction=COST),
    ]
    lines = [" ".join(line.split()) for line in render(report("m/x", None, rows, scripted=False)).splitlines()]
    assert [line for line in lines if line.startswith("reactive")] == [
        "reactive 100% – – 0% 100% 67% prune 1, summary 2 27,000 → 24,000 2,000 in · 100 out · $0.0246 80%",
        "reactive 100% – – 0% 100% 67% summary 9,000 → 9,000 1,000 in · 50 out · $0.0123 80%",
        "reactive 100% – – 0% 100% 67% prune 9,000 → 6,000 no model call –",
        "reactive 100% – – 0% 100% 67% summary 9,000 → 9,000 1,000 in · 50 out · $0.0123 80%",
    ]
    assert next(line for line in lines if line.startswith("handoff")).split()[7] == "shrink"


def test_an_unknown_price_is_shown_as_unknown() -> None:
    cost = COST.model_copy(update={"cost_usd": None})
    assert "cost unknown" in render(report("m/x", None, [row("reactive", compaction=cost)], scripted=False))


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.0, "0%"), (1.0, "100%"), (0.666, "67%")])
def test_shares_are_whole_percents(value: float | None, text: str) -> None:
    assert percent(value) == text
