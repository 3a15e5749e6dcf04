from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.summary import FaultCode, check_prose, fold
from app.context.tokens import estimate_text
from app.messages import Message
from tests.unit.context.builders import (
    AT,
    any_history,
    assistant,
    call,
    reasoning,
    result,
    sound_histories,
    step,
    text,
    tool,
    user,
)

GOOD = "### Decisions\n- DuckDB"


@pytest.mark.parametrize("stop_reason", ["stop", "other"])
@pytest.mark.parametrize("answer", [GOOD, "完了", "готово"])
def test_a_complete_answer_is_a_summary(answer: str, stop_reason: str) -> None:
    assert check_prose(answer, stop_reason, False, 5_000, 2_000) is None
    assert check_prose(answer, stop_reason, False, 5_000, None) is None


@pytest.mark.parametrize(
    ("answer", "stop_reason", "called", "code"),
    [
        ("", "stop", False, "summary_empty"),
        (" \n\t\u3000", "stop", False, "summary_empty"),
        ("---\n…", "stop", False, "summary_empty"),
        (GOOD, "length", False, "summary_cut_off"),
        ("", "length", False, "summary_cut_off"),
        (GOOD, "refusal", False, "summary_refused"),
        ("", "content_filter", False, "summary_refused"),
        (GOOD, "stop", True, "summary_called_tool"),
        (GOOD, "tool_calls", True, "summary_called_tool"),
        ("", "tool_calls", False, "summary_called_tool"),
        (GOOD, "context_overflow", False, "summary_incomplete"),
        (GOOD, "cancelled", False, "summary_incomplete"),
        (GOOD, None, False, "summary_incomplete"),
        ("word " * 5_000, "stop", False, "summary_too_long"),
    ],
)
def test_unusable_answers(answer: str, stop_reason: str | None, called: bool, code: FaultCode) -> None:
    fault = check_prose(answer, stop_reason, called, 5_000, 2_000)
    assert fault is not None
    assert fault.code == code
    assert fault.detail.endswith(".")


def test_a_summary_is_shorter_than_what_it_covers() -> None:
    answer = "abcd" * 10
    assert check_prose(answer, "stop", False, 11, None) is None
    fault = check_prose(answer, "stop", False, 10, None)
    assert fault is not None
    assert fault.detail == "The summary has about 10 tokens but would replace only 10."


def test_the_estimate_may_be_off_by_half_of_the_cap() -> None:
    assert check_prose("abcd" * 200, "stop", False, 5_000, 100) is None
    fault = check_prose("abcd" * 201, "stop", False, 5_000, 100)
    assert fault is not None
    assert fault.detail == "The summary has about 201 tokens; 100 were allowed."


def test_a_cut_off_answer_names_its_cap() -> None:
    fault = check_prose(GOOD, "length", False, 5_000, 2_000)
    assert fault is not None
    assert "2,000 tokens" in fault.detail


def worked(seq: int, said: str, line: str, exit_code: int = 0) -> list[Message]:
    made = call(f"c{seq}", arguments=f'{{"command":"{line}"}}')
    return [assistant(seq, text(said), made), tool(seq + 1, result(f"c{seq}", exit_code=exit_code))]


def test_a_fold_says_what_was_done() -> None:
    covered = [user(1), *worked(2, "I look.", "ls"), *worked(4, "I test.", "npm test", 1)]
    assert fold(covered, "Earlier: chose DuckDB.", 1_000) == (
        "Earlier: chose DuckDB.\n\n"
        "[Written without a model] 2 steps, 2 tool calls (execute_command 2).\n\n"
        'Last action: execute_command {"command":"npm test"} → completed, exit code 1\n\n'
        "The assistant's last texts, oldest first:\n"
        "- I look.\n"
        "- I test."
    )


def test_the_newest_texts_are_kept() -> None:
    covered = [m for n in range(30) for m in worked(2 * n, f"text {n}.", "ls")]
    folded = fold(covered, None, 10_000)
    assert [n for n in range(30) if f"text {n}." in folded] == [25, 26, 27, 28, 29]
    short = fold([m for n in range(30) for m in worked(2 * n, f"text {n}. {'x' * 900}", "ls")], None, 500)
    assert [n for n in range(30) if f"text {n}." in short] == [29]


def test_reasoning_voided_attempts_and_summaries_are_not_repeated() -> None:
    voided = assistant(1, text("never said")).model_copy(update={"voided_at": AT})
    summary = assistant(2, text("old summary")).model_copy(update={"is_summary": True})
    folded = fold([voided, summary, assistant(3, reasoning("secret thought"), text("said"))], None, 1_000)
    assert "- said" in folded
    assert "1 step." in folded
    for absent in ("never said", "old summary", "secret thought"):
        assert absent not in folded


def test_many_tools_are_counted_together() -> None:
    calls = [call(f"c{n}", name=f"tool{n}") for n in range(12)]
    assert "12 tool calls (tool0 1, tool1 1, " in (folded := fold([assistant(1, *calls)], None, 1_000))
    assert "others 4)" in folded


def test_the_earlier_prose_has_half_the_room() -> None:
    folded = fold([*step(1, "a")], "old " * 5_000, 1_000)
    assert folded.startswith("old old")
    earlier = folded.partition("[Written without a model]")[0]
    assert 450 <= estimate_text(earlier) <= 501
    assert "- next" in folded


def test_a_chain_of_folds_stays_bounded_and_keeps_the_first_words() -> None:
    prose = "The database is DuckDB."
    for round in range(1, 40):
        prose = fold(worked(2 * round, f"round {round}", "ls"), prose, 400)
        assert estimate_text(prose) <= 400
    assert prose.startswith("The database is DuckDB.")
    assert "- round 39" in prose


wild = st.one_of(st.none(), st.text(max_size=100), st.sampled_from(["語" * 5_000, "x" * 50_000, "\x00\n\x1b"]))


@given(any_history, wild, st.integers(-5, 600))
def test_a_fold_is_always_possible_and_never_too_large(
    covered: list[Message], previous: str | None, max_tokens: int
) -> None:
    folded = fold(covered, previous, max_tokens)
    assert estimate_text(folded) <= max(0, max_tokens)
    assert folded == fold(list(covered), previous, max_tokens)
    assert bool(folded) == (max_tokens > 0)


@given(sound_histories(), st.sampled_from(["", "語" * 3_000, "y" * 30_000]), st.integers(100, 300))
def test_a_huge_text_leaves_room_for_what_was_done(covered: list[Message], said: str, max_tokens: int) -> None:
    folded = fold([*covered, assistant(99, text(f"{said}."))], "語" * 9_000, max_tokens)
    assert estimate_text(folded) <= max_tokens
    assert "[Written without a model]" in folded
