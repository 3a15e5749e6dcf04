"""Compaction rounds as text: in a stream, in a list, in a dry run."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli import view
from app.events import DURABLE_EVENTS
from app.sessions import CompactionReason, CompactionStatus, PruneReason, Rung
from tests.unit.cli.events import USAGE, event, shown

NOTHING = {**USAGE, "input_tokens": 0, "cache_read_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}
COST = "1,500 in (500 cached) · 20 out · $0.0123"


def completed(**more: Any) -> dict[str, Any]:
    data = {
        "round": 2,
        "reason": "overflow",
        "policy": "reactive",
        "status": "completed",
        "rung": "summary",
        "messages_compacted": 42,
        "outputs_pruned": 3,
        "tokens_before": 171_204,
        "tokens_after": 24_310,
        "usage": USAGE,
        "duration_ms": 4_210,
        "created_at": "2026-11-22T10:00:00.000Z",
    }
    return {**data, **more}


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (
            "compaction.started",
            {"round": 1, "reason": "overflow", "policy": "reactive", "tokens_before": 171_204, "limit": 200_000},
            "compacting the context, round 1 (the window is full, policy reactive): 171,204 of 200,000 tokens",
        ),
        (
            "compaction.started",
            {
                "round": 1,
                "reason": "threshold",
                "policy": "handoff",
                "tokens_before": 9,
                "limit": 10,
                "background": True,
            },
            "preparing a summary in the background, round 1 (in advance, policy handoff): 9 of 10 tokens",
        ),
        (
            "compaction.completed",
            completed(),
            "compacted 42 messages by a summary, round 2: 171,204 → 24,310 tokens (−86%) · 3 old outputs cleared"
            f" · 4.2 s · {COST}",
        ),
        (
            "compaction.completed",
            completed(rung="fold", outputs_pruned=0, messages_compacted=1, usage=NOTHING, duration_ms=3),
            "compacted 1 message by notes written without a model, round 2: 171,204 → 24,310 tokens (−86%) · 3 ms"
            " · to redo it: `palimpsest compact ID --redo`",
        ),
        (
            "compaction.completed",
            completed(rung="shrink", outputs_pruned=0, messages_compacted=1, usage=NOTHING, duration_ms=3),
            "compacted 1 message by a shorter tail, round 2: 171,204 → 24,310 tokens (−86%) · 3 ms"
            " · summarized without a model; to redo it: `palimpsest compact ID --redo`",
        ),
        (
            "compaction.failed",
            {"round": 2, "rung": "summary", "code": "summary_empty", "detail": "No text.", "next": "fold"},
            "compaction by a summary failed (summary_empty): No text; trying notes written without a model",
        ),
        (
            "compaction.failed",
            {"round": 2, "rung": "shrink", "code": "not_small_enough", "detail": "Too much.", "next": None},
            "compaction by a shorter tail failed (not_small_enough): Too much; the context is unchanged",
        ),
        (
            "compaction.failed",
            {
                "round": 2,
                "rung": "summary",
                "code": "nothing_to_compact",
                "detail": "Nothing is old enough to compact.",
                "next": None,
            },
            "round 2 changed nothing (nothing_to_compact): Nothing is old enough to compact; the context is unchanged",
        ),
        (
            "compaction.retrying",
            {
                "round": 3,
                "attempt": 5,
                "delay_ms": 9_000,
                "code": "provider_unreachable",
                "detail": "The connection to odd failed: refused.",
            },
            "↻ summary of round 3: attempt 5 failed (provider_unreachable): The connection to odd failed: refused;"
            " retrying in 9 s",
        ),
        ("compaction.cancelled", {"round": 2, "usage": None}, "round 2 was cancelled; the context is unchanged"),
        (
            "compaction.cancelled",
            {"round": 2, "usage": USAGE},
            f"round 2 was cancelled; the context is unchanged · {COST}",
        ),
        (
            "compaction.reverted",
            {"round": 2},
            "round 2 was reverted; its messages are back in the context",
        ),
        (
            "compaction.discarded",
            {"round": 3, "usage": USAGE},
            f"the background summary of round 3 was not needed · {COST}",
        ),
        (
            "prune.completed",
            {
                "outputs_pruned": 3,
                "tools": ["read_file", "x"],
                "reason": "trigger",
                "tokens_before": 50,
                "tokens_after": 1,
            },
            "cleared 3 old outputs (read_file, x): 50 → 1 tokens (−98%)",
        ),
        (
            "prune.completed",
            {"outputs_pruned": 1, "tools": [], "reason": "run_end", "tokens_before": 100, "tokens_after": 100},
            "cleared 1 old output at the end of the run: 100 → 100 tokens",
        ),
    ],
)
def test_each_event_takes_a_line(name: str, data: dict[str, Any], expected: str) -> None:
    assert shown(event(name, 1, **data)) == expected + "\n"


def test_every_compaction_event_is_tested() -> None:
    names = {kind.type for kind in DURABLE_EVENTS if kind.type.startswith(("compaction.", "prune."))}
    tested = {mark.args[1][i][0] for mark in test_each_event_takes_a_line.pytestmark for i in range(len(mark.args[1]))}
    assert names <= tested


@pytest.mark.parametrize("reason", get_args(CompactionReason))
@pytest.mark.parametrize("rung", get_args(Rung))
def test_every_reason_and_rung_has_words(reason: str, rung: str) -> None:
    line = view.started({"round": 1, "reason": reason, "policy": "p", "tokens_before": 1, "limit": 2})
    assert f"({reason}," not in line
    assert f"by {rung}," not in view.completed(completed(rung=rung))


@pytest.mark.parametrize("reason", get_args(PruneReason))
def test_every_reason_to_prune_can_be_shown(reason: str) -> None:
    data = {"outputs_pruned": 2, "tools": ["x"], "reason": reason, "tokens_before": 2, "tokens_after": 1}
    assert reason not in view.pruned(data)


def test_a_list_has_columns() -> None:
    made = view.list_line(completed())
    assert made == (
        "  2  completed  reactive   2026-11-22 10:00  171,204 → 24,310 tokens (−86%) · a summary for 42 messages"
        f" · 3 old outputs cleared · {COST}"
    )
    error = {"code": "not_small_enough", "detail": "The context would have\n9 tokens."}
    failed = completed(status="failed", rung=None, tokens_after=None, usage=USAGE, error=error)
    assert view.list_line(failed) == (
        "  2  failed     reactive   2026-11-22 10:00  the window is full · The context would have 9 tokens"
        f" (not_small_enough) · {COST}"
    )
    cancelled = view.list_line(completed(status="cancelled", rung=None, tokens_after=None, error=None, usage=NOTHING))
    assert cancelled == "  2  cancelled  reactive   2026-11-22 10:00  the window is full"


@pytest.mark.parametrize("status", get_args(CompactionStatus))
def test_every_status_fits_its_column(status: str) -> None:
    line = view.list_line(completed(status=status))
    assert line[5:14].rstrip() == status
    assert line[16:24] == "reactive"


def preview(own: str = "reactive", **more: int) -> str:
    numbers = {"messages_compacted": 4, "outputs_pruned": 1, "tokens_before": 100, "tokens_after": 20, **more}
    return view.preview({"policy": "reactive", "limit": 200, "usable": 150, "trigger": 140, **numbers}, own)


@pytest.mark.parametrize(
    ("messages", "outputs", "what"),
    [
        (4, 1, "replace 4 messages with a summary and clear 1 old output"),
        (1, 0, "replace 1 message with a summary"),
        (0, 2, "clear 2 old outputs"),
    ],
)
def test_a_dry_run_says_what_a_round_would_do(messages: int, outputs: int, what: str) -> None:
    text = preview(messages_compacted=messages, outputs_pruned=outputs)
    assert text.startswith(f"A round under reactive would {what}: 100 → 20 tokens (−80%).\n")
    assert text.endswith("; the policy compacts automatically at 140. Nothing was changed.")


def test_only_the_sessions_own_policy_compacts_automatically() -> None:
    assert preview("handoff").endswith(
        "; as the session's policy, instead of handoff, it would compact automatically at 140. Nothing was changed."
    )


def test_a_dry_run_without_effect_says_so() -> None:
    assert preview(messages_compacted=0, outputs_pruned=0) == (
        "A round would change nothing: no message of the 100 tokens is old enough."
    )


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_change_never_claims_more_than_it_saved(before: int, after: int) -> None:
    text = view.change({"tokens_before": before, "tokens_after": after})
    assert text.startswith(f"{before:,} → {after:,} tokens")
    if after >= before:
        assert "%" not in text
