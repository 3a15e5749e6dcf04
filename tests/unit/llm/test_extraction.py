"""What the scripted demo finds by searching its messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.policies import POLICIES
from app.context.summary import check_prose
from app.context.summary_request import PROFILES, in_conversation_request, text_request
from app.llm.demo import LABEL, LINE_CHARS, answer, prose_for, summary
from app.llm.scripted import DEMO_MODEL, ScriptedProvider
from app.messages import Message, Role
from evals.probing import question

from .values import (
    LIST,
    READ_FILE,
    assistant,
    call,
    calls,
    collect,
    finish,
    message,
    prose,
    request,
    result,
    results,
    text,
    user,
)


def control(words: str) -> Message:
    return message(Role.CONTROL, text(words))


TALK = [
    user("Write the harbour report. Never use Python."),
    assistant(text("I decided to keep tonnes, not kilograms."), call("c1", "write_file", '{"path":"docs/report.md"}')),
    results(result("c1", "Created docs/report.md\nerror: depot Emden not found")),
    assistant(text("Next I will write check.sh.")),
]


def test_an_answer_is_the_lines_that_share_words_with_the_question() -> None:
    found = answer("In which unit, tonnes or kilograms?", TALK)
    assert "I decided to keep tonnes, not kilograms." in found
    assert found.endswith(LABEL)


def test_calls_and_outputs_are_searched_too() -> None:
    assert "docs/report.md" in answer("Which report was created?", TALK)
    assert "depot Emden not found" in answer("Which depot was not found?", TALK)


def test_a_question_without_a_match_is_unknown() -> None:
    assert answer("Which aeroplane flew?", TALK) == f"unknown {LABEL}"
    assert answer("Which tonnes?", []) == f"unknown {LABEL}"


def test_scripts_without_spaces_are_searched_by_pairs_of_characters() -> None:
    talk = [user("値段は税込みです。"), user("柚子のタルトを入れてください。"), user("電話だけです。")]
    assert "柚子のタルト" in answer("どのタルトですか。", talk)


def test_a_summary_has_lines_about_decisions_errors_and_next_steps() -> None:
    lines = [line for told in TALK for line in told.text.splitlines()] + ["error: depot Emden not found", "plain words"]
    made = summary(lines)
    assert LABEL in made
    assert "### Decisions\n- Write the harbour report. Never use Python." in made
    assert "### Errors and Resolutions\n- error: depot Emden not found" in made
    assert "### Next Step\n- Next I will write check.sh." in made
    assert "Files named: check.sh" in made
    assert "plain words" not in made


@given(st.lists(st.text(max_size=2_000), max_size=30))
def test_a_summary_is_short_for_any_input(lines: list[str]) -> None:
    made = summary(lines)
    assert all(len(line) <= LINE_CHARS + 2 for line in made.splitlines() if not line.startswith("Files named"))
    assert "### Completed Work" in made


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("profile", PROFILES)
def test_requests_for_a_summary_are_recognized(policy: str, profile: str) -> None:
    inside = in_conversation_request(policy, profile, 0, None)  # type: ignore[arg-type]
    _, apart = text_request(policy, profile, "I decided to keep tonnes.", None, None, "task")  # type: ignore[arg-type]
    for found in (prose_for([*TALK, control(inside)]), prose_for([control(apart)])):
        assert found is not None
        assert "I decided to keep tonnes" in found
        assert check_prose(found, "stop", False, 10_000, 2_000) is None


def test_instructions_around_a_transcript_are_not_part_of_it() -> None:
    _, apart = text_request("threshold", "coding", "One plain line.", None, None, "task")
    found = prose_for([control(apart)])
    assert found is not None
    assert "Rules:" not in found
    assert found.count("None.") == 3


def test_questions_of_an_evaluation_are_recognized() -> None:
    found = prose_for([*TALK, question("In which unit, tonnes or kilograms?")])
    assert found is not None
    assert "tonnes, not kilograms" in found


@pytest.mark.parametrize(
    "last",
    [
        user("The text <transcript> is about to be replaced by a summary."),
        user("<question>\nWhat?\n</question>"),
        control("[The run was resumed.]"),
        control("<question>\nWhat?\n</question>\nand more"),
    ],
)
def test_other_messages_get_no_answer(last: Message) -> None:
    assert prose_for([*TALK, last]) is None
    assert prose_for([]) is None


async def test_the_demo_answers_a_question_without_calling_a_tool() -> None:
    asked = [*TALK, question("Which depot was not found?")]
    events = await collect(ScriptedProvider().stream(request(*asked, model=DEMO_MODEL, tools=(READ_FILE, LIST))))
    assert calls(events) == []
    assert "Emden" in prose(events)
    assert finish(events) == "stop"
