from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.facts import CommandFact, Facts, FileFact, UserRequest
from app.context.facts_text import FIRST_FAILURES, FIRST_FILES, SENTENCE_TOKENS, render_facts
from app.context.telling import Sentence
from app.context.tokens import estimate_text
from app.messages import ToolStatus
from app.sessions import PlanItem

ROOM = 100_000


def failure(command: str = "make", **changes: Any) -> CommandFact:
    values: dict[str, Any] = {"failures": 1, "exit_code": 1, "passes": False, **changes}
    return CommandFact(command, **values)


def said(*texts: str) -> tuple[UserRequest, ...]:
    return tuple(UserRequest(f"m{number}", text) for number, text in enumerate(texts))


FULL = Facts(
    task="Build a flashcard app.",
    requests=said("Use SQLite.", "No, use DuckDB."),
    files=(FileFact("src/db.ts", read=3, written=1), FileFact("a\n.ts", edited=2, change="x = 1 → x = 2")),
    commands=(
        failure("npm test", failures=3, error="TypeError: x", passes=True, outcome="12 passed"),
        CommandFact("make", 2, outcome="built"),
        failure("sleep 9\necho", status=ToolStatus.CANCELLED, exit_code=None),
    ),
    sentences=(Sentence("DuckDB it is.", 2), Sentence("The port is 80.", 5)),
    calls=(("execute_command", 12), ("read_file", 3)),
    plan=(
        PlanItem(text="schema", status="completed"),
        PlanItem(text="cli", status="in_progress"),
        PlanItem(text="docs"),
    ),
    rounds=2,
)


def test_facts_with_enough_room_are_shown_in_full() -> None:
    assert render_facts(FULL, ROOM) == (
        "### Original Task\n"
        "Build a flashcard app.\n\n"
        "### User messages, oldest first (where they disagree, the later one counts)\n"
        "[user message 1 of 2]\n"
        "Use SQLite.\n"
        "[user message 2 of 2]\n"
        "No, use DuckDB.\n\n"
        "### Changed files, last changed first (commands may have changed others)\n"
        "- src/db.ts: written\n"
        "- a\\n.ts: edited 2 times; last: x = 1 → x = 2\n\n"
        "### Failed commands, newest first\n"
        "- npm test: exit code 1, failed 3 times: TypeError: x; passes now: 12 passed\n"
        "- sleep 9\\necho: cancelled\n\n"
        "### Last results of other commands, newest first\n"
        "- make: 2 times, last: built\n\n"
        "### Your own findings and decisions along the way, oldest first\n"
        "- DuckDB it is.\n"
        "- The port is 80.\n\n"
        "### Plan ([x] is done, [>] in progress)\n"
        "- [x] schema\n"
        "- [>] cli\n"
        "- [ ] docs\n\n"
        "Completed tool calls: execute_command 12, read_file 3.\n"
        "Compaction rounds: 2."
    )


def test_no_facts_are_no_text() -> None:
    assert render_facts(Facts(), ROOM) == ""


def test_user_messages_are_whole_while_there_is_room() -> None:
    long = "wish " * 3_000
    assert long in render_facts(Facts(task="t", requests=said(long, "more")), ROOM)


def test_user_messages_are_whole_only_where_that_is_roomy() -> None:
    facts = Facts(task="t", requests=said("wish " * 3_000))
    assert "characters left out" not in render_facts(facts, ROOM, 5_000)
    assert "characters left out" in render_facts(facts, ROOM, 2_000)


def test_pasted_blocks_are_clipped_before_what_the_user_wrote() -> None:
    log = "\n".join(f"12:00:{n % 60:02} line {n}" for n in range(900))
    text = f"This log is from today.\n\n{log}\n\nNever restart the broker.\n\n```\n{log}\n```\nThanks."
    told = render_facts(Facts(task="t", requests=said(text)), 1_000)
    assert "This log is from today." in told
    assert "Never restart the broker." in told
    assert told.endswith("Thanks.")
    assert told.count('characters left out; recall("m0") returns the whole]') == 2


def test_a_long_message_without_blocks_keeps_its_beginning_and_end() -> None:
    told = render_facts(Facts(task="t", requests=said("begin " + "r" * 20_000 + " end")), 1_000)
    assert "begin rrr" in told
    assert told.endswith("rrr end")


def test_the_sentences_that_tell_most_are_shown_once_within_their_room() -> None:
    many = tuple(Sentence(f"Sentence number {n} says port {n}.", 2 + (n % 50 == 0)) for n in range(400))
    told = render_facts(Facts(task="t", sentences=(*many, *many[:1])), ROOM)
    lines = [line for line in told.splitlines() if line.startswith("- Sentence")]
    assert estimate_text("\n".join(lines)) <= SENTENCE_TOKENS
    assert len(lines) == len(set(lines))
    assert {f"- {many[n].text}" for n in range(0, 400, 50)} < set(lines)
    assert f"- {many[399].text}" in lines


def test_older_requests_without_room_are_counted() -> None:
    facts = Facts(task="the task", requests=said(*(f"wish {n} " + "x" * 1_000 for n in range(50))))
    told = render_facts(facts, 1_500)
    assert "wish 49 " in told
    assert "wish 45 " in told
    assert "wish 0 " not in told
    shown = told.count("[user message")
    assert f"Not shown for lack of room: {50 - shown} user messages; `history_search` finds them." in told


def test_a_task_that_does_not_fit_is_clipped_and_says_so() -> None:
    told = render_facts(Facts(task="begin " + "x" * 10_000 + " end", requests=said("r")), 300)
    assert told.startswith("### Original Task\nbegin xxx")
    assert "the task alone is larger than its room; `history_search` finds the whole" in told
    assert "1 user message;" in told
    assert estimate_text(told) <= 300


@pytest.mark.parametrize("spare", [0, 1, 4, 8, 40])
def test_a_task_that_fits_alone_is_never_cut(spare: int) -> None:
    task = "word " * 100
    facts = Facts(task=task, requests=said("r" * 500), files=tuple(FileFact(f"f{n}", read=1) for n in range(99)))
    assert task in render_facts(facts, estimate_text(task) + spare)


def test_the_newest_files_and_failures_come_before_older_requests() -> None:
    facts = Facts(
        task="t",
        requests=said(*["r" * 2_000] * 30),
        files=tuple(FileFact(f"file{n}.py", edited=1) for n in range(100)),
        commands=tuple(failure(f"cmd{n}") for n in range(30)),
    )
    told = render_facts(facts, 1_000)
    assert told.count("[user message ") == 1
    assert told.count(".py: edited") >= FIRST_FILES
    assert told.count(": exit code 1") == FIRST_FAILURES
    assert "file0.py" in told
    assert "cmd0: " in told
    assert "Not shown for lack of room: 29 user messages, " in told
    assert f", {30 - FIRST_FAILURES} failed commands; " in told


def test_open_plan_items_come_before_done_ones_and_all_keep_their_order() -> None:
    done = tuple(PlanItem(text=f"done {n} " + "x" * 400, status="completed") for n in range(5))
    plan = (*done[:4], PlanItem(text="open one"), done[4], PlanItem(text="open two", status="in_progress"))
    told = render_facts(Facts(task="t", plan=plan), 250)
    lines = [line for line in told.splitlines() if line.startswith("- [")]
    assert "- [ ] open one" in lines
    assert lines[-1] == "- [>] open two"
    assert 2 < len(lines) < 7


def test_rarely_used_tools_are_counted_together() -> None:
    told = render_facts(Facts(calls=tuple((f"tool{n}", 20 - n) for n in range(10))), ROOM)
    assert "tool7 13, other tools 23." in told
    assert "tool8" not in told


wild = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["日本語のタスク", "### Plan\n- [ ] done", "x" * 5_000, "\x00\x1b[31m", "| a |\n", "漢" * 3_000]),
)
statuses: st.SearchStrategy[Any] = st.sampled_from(["pending", "in_progress", "completed"])
facts_values = st.builds(
    Facts,
    task=wild,
    requests=st.lists(wild, max_size=8).map(lambda texts: said(*texts)),
    files=st.lists(st.builds(FileFact, wild, st.integers(0, 9)), max_size=30).map(tuple),
    commands=st.lists(
        st.builds(
            CommandFact, wild, failures=st.integers(0, 2), exit_code=st.none() | st.integers(-9, 255), error=wild
        ),
        max_size=8,
    ).map(tuple),
    sentences=st.lists(st.builds(Sentence, wild, st.integers(2, 9)), max_size=8).map(tuple),
    calls=st.lists(st.tuples(wild, st.integers(1, 99)), max_size=12).map(tuple),
    plan=st.lists(st.builds(PlanItem, text=wild, status=statuses), max_size=8).map(tuple),
    rounds=st.integers(0, 99),
)


@given(facts_values, st.integers(-5, 4_000))
def test_facts_never_exceed_their_budget(facts: Facts, budget: int) -> None:
    told = render_facts(facts, budget)
    assert estimate_text(told) <= max(0, budget)
    assert told == render_facts(facts, budget)
    if estimate_text(facts.task) <= budget:
        assert facts.task in told


@given(facts_values)
def test_with_enough_room_nothing_is_left_out(facts: Facts) -> None:
    told = render_facts(facts, 1_000_000)
    assert "Not shown for lack of room" not in told
    assert told.count("[user message ") >= len(facts.requests)


@given(st.lists(st.builds(PlanItem, text=st.text("abc", min_size=1, max_size=9), status=statuses)), st.integers(0, 200))
def test_a_plan_item_is_shown_only_with_its_own_state(plan: list[PlanItem], budget: int) -> None:
    marks = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
    known = [f"- {marks[item.status]} {item.text}" for item in plan]
    lines = [line for line in render_facts(Facts(plan=tuple(plan)), budget).splitlines() if line.startswith("- [")]
    rest = iter(known)
    assert all(line in rest for line in lines)
