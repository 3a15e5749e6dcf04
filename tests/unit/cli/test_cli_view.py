"""The event stream as readable text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cli.events import (
    AT,
    LATER,
    USAGE,
    call,
    completed,
    delta,
    event,
    idle,
    output,
    result,
    shown,
)

COMMAND = "execute_command"


@given(st.text(alphabet="ab\n"), st.lists(st.integers(0, 10), max_size=4))
def test_text_is_shown_once_whatever_the_chunks(text: str, cuts: list[int]) -> None:
    places = sorted({min(cut, len(text)) for cut in [0, *cuts, len(text)]})
    pieces = [delta(text[a:b], a) for a, b in itertools.pairwise(places)]
    whole = text if not text or text.endswith("\n") else text + "\n"
    assert shown(*pieces, completed(text)) == whole


def test_after_a_reconnect_a_part_continues_where_it_was() -> None:
    assert shown(delta("Hell", 0), delta("Hello wo", 0), delta("rld", 8), completed("Hello world")) == "Hello world\n"


def test_text_after_the_end_of_its_part_is_not_shown() -> None:
    assert shown(delta("all", 0), completed("all"), delta("al", 0), delta("l", 2)) == "all\n"
    retrying = event("step.retrying", message_id="m", attempt=1, code="c", delay_ms=700, detail="Failed.")
    assert shown(delta("half", 0), retrying) == shown(delta("half", 0), retrying, delta("half of it", 0))
    assert shown(retrying) == shown(retrying, delta("the first of its attempt", 0))


def test_an_interrupted_part_says_so() -> None:
    assert shown(delta("half of it", 0), completed("half", interrupted=True)) == "half of it\n[interrupted]\n"


def test_reasoning_and_text_do_not_share_a_line() -> None:
    events = [delta("hm", 0, "r", "reasoning.delta"), delta("so", 0, "t"), completed("so", "t")]
    assert shown(*events) == "hm\nso\n"


def test_a_command_with_its_live_output_and_the_rest() -> None:
    assert shown(
        call("1", COMMAND, command="make\ntest"),
        output("1", 0, "one\n"),
        output("1", 4, "two"),
        result("1", COMMAND, "one\ntwo\nthree\n[exit code 2]", exit_code=2),
    ) == ("$ make\n  test\none\ntwo\nthree\nexit 2 · 40 ms\n")


def test_a_command_that_waits_for_approval_is_shown_once() -> None:
    fields = {"call_id": "1", "arguments": {"command": "ls"}, "expires_at": None}
    asked = event("approval.requested", name=COMMAND, **fields)
    other = event("approval.requested", name=COMMAND, **{**fields, "call_id": "2"})
    shown_once = "$ ls\ncall 1 waits for approval\ncall 2 waits for approval\n$ ls\n"
    assert shown(call("1", COMMAND, command="ls"), call("2", COMMAND, command="ls"), asked, other) == shown_once


def test_output_that_was_not_live_is_shown_at_the_end() -> None:
    assert shown(call("1", COMMAND, command="ls"), result("1", COMMAND, "a\n", exit_code=0)) == (
        "$ ls\na\nexit 0 · 40 ms\n"
    )


def test_a_gap_in_live_output_is_shown() -> None:
    text = shown(
        call("1", COMMAND, command="yes"),
        output("1", 0, "y\n"),
        output("1", 1000, "en"),
        output("1", 1002, "d\n"),
        result("1", COMMAND, "y\n[…]end\n", exit_code=1, truncated=True, bytes=1004),
    )
    assert text == ("$ yes\ny\n\n… 998 characters not shown …\nend\nexit 1 · 1,004 bytes of output · 40 ms\n")


def test_live_output_is_not_repeated() -> None:
    assert shown(call("1", COMMAND, command="x"), output("1", 0, "abc"), output("1", 0, "abcd")) == "$ x\nabcd"


def test_each_command_of_a_message_is_above_its_output() -> None:
    text = shown(
        call("1", COMMAND, command="a"),
        call("2", COMMAND, command="b"),
        output("1", 0, "of a\n"),
        result("1", COMMAND, "of a\n", exit_code=0),
        result("2", COMMAND, "of b\n", exit_code=0),
    )
    assert text == "$ a\nof a\nexit 0 · 40 ms\n$ b\nof b\nexit 0 · 40 ms\n"


def test_a_silent_command_shows_only_its_status() -> None:
    assert (
        shown(call("1", COMMAND, command="true"), result("1", COMMAND, "[no output]", exit_code=0))
        == "$ true\nexit 0 · 40 ms\n"
    )


@pytest.mark.parametrize("status", ["error", "cancelled", "denied", "interrupted"])
def test_a_command_that_was_ended_says_how(status: str) -> None:
    text = shown(call("1", COMMAND, command="x"), result("1", COMMAND, "part\n", status=status, exit_code=None))
    assert text == f"$ x\npart\n{status} · 40 ms\n"


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("write_file", {"path": "a.py", "content": "1\n2\n"}, "· wrote a.py (2 lines)"),
        ("write_file", {"path": "a.py", "content": "1"}, "· wrote a.py (1 line)"),
        ("edit_file", {"path": "b.py", "old": "x"}, "· edited b.py"),
        ("read_file", {"path": "c"}, "· read c"),
        ("list_directory", {}, "· listed"),
        ("search_files", {"pattern": "x y"}, "· searched for x y"),
        ("other", {"n": 1}, '· other {"n": 1}'),
    ],
)
def test_other_tools_take_a_line(name: str, arguments: dict[str, object], line: str) -> None:
    assert shown(call("1", name, **arguments), output("1", 0, "noise"), result("1", name, "long result")) == line + "\n"


def test_a_plan_call_is_shown_only_by_its_event() -> None:
    items = [{"text": "a", "status": "completed"}, {"text": "b", "status": "in_progress"}]
    text = shown(call("1", "update_plan"), event("plan.updated", items=items), result("1", "update_plan", "ok"))
    assert text == "plan\n  ✓ a\n  ▸ b\n"


def test_a_tool_that_failed_says_why() -> None:
    text = shown(call("1", "read_file", path="x"), result("1", "read_file", "Error:\nnot found", status="error"))
    assert text == "· read x: error: not found\n"


def test_arguments_that_are_not_an_object_are_shown_unchanged() -> None:
    broken = event("tool.call", 1, call_id="1", name=COMMAND, arguments="{broken")
    assert shown(broken) == "$ {broken\n"


def test_a_result_without_its_call_is_still_shown() -> None:
    assert shown(result("1", COMMAND, "late\n", exit_code=0)) == "$ \nlate\nexit 0 · 40 ms\n"


@pytest.mark.parametrize(
    ("partial", "delay_ms", "detail", "line"),
    [
        ("", 9_000, "Refused.", "Refused; retrying in 9 s"),
        ("", 12_000, "Refused. ", "Refused; retrying in 12 s"),
        ("", 700, "Refused", "Refused; retrying in 0.7 s"),
        ("", 0, "Refused. Trying again unchanged.", "Refused. Trying again unchanged; retrying now"),
        ("half\n", 1_500, "Overloaded…", "Overloaded…; partial reply discarded; retrying in 1.5 s"),
        ("half\n", 0, "Refused;", "Refused; partial reply discarded; retrying now"),
    ],
)
def test_a_retry_says_why_and_when_and_what_is_discarded(partial: str, delay_ms: int, detail: str, line: str) -> None:
    failed = {"message_id": "m", "attempt": 5, "code": "provider_unreachable", "detail": detail}
    text = shown(delta(partial, 0), event("step.retrying", 2, delay_ms=delay_ms, **failed))
    assert text == f"{partial}↻ attempt 5 failed (provider_unreachable): {line}\n"


def test_a_reply_of_another_message_is_not_discarded() -> None:
    failed = event("step.retrying", 2, message_id="n", attempt=1, delay_ms=0, code="c", detail="Failed.")
    assert shown(delta("whole", 0), completed("whole"), failed).endswith(
        "↻ attempt 1 failed (c): Failed; retrying now\n"
    )


def test_a_step_and_a_run_end_with_their_usage() -> None:
    text = shown(
        event("session.running", 1, trigger="message"),
        event("step.finished", 2, step=1, usage=USAGE, context={"tokens": 50, "usable": 200}),
        event("session.idle", 3, outcome="completed", usage=USAGE, steps=1, error=None, at=LATER),
    )
    assert text == (
        "step 1 · 1,500 in (500 cached) · 20 out · $0.0123 · context 25%\n"
        "✓ completed · 1 step · 1,500 in (500 cached) · 20 out · $0.0123 · 1 min 5 s\n"
    )


def test_a_failed_run_says_why() -> None:
    error = {"detail": "The key was refused.", "code": "provider_auth"}
    text = shown(idle("failed", error=error, steps=3))
    assert text.startswith("✗ failed · 3 steps · ")
    assert text.endswith("  The key was refused. (provider_auth)\n")


@pytest.mark.parametrize(("outcome", "words"), [("limit_reached", "■ limit reached"), ("cancelled", "■ cancelled")])
def test_other_outcomes_have_their_own_text(outcome: str, words: str) -> None:
    assert shown(idle(outcome)).startswith(words + " · ")


def _message(text: str, role: str = "user", **more: object) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "text": text}], **more}


def test_the_own_task_is_skipped_and_later_messages_are_shown() -> None:
    events = [event("message.created", message=_message(text)) for text in ("the task", "more\nof it")]
    assert shown(*events, own_task=True) == "> more\n> of it\n"
    assert shown(*events).startswith("> the task\n")


def test_control_messages_are_shown_as_notes() -> None:
    assert shown(event("message.created", message=_message("go on", "control"))) == "go on\n"


def test_a_summary_is_shown_by_its_round_alone() -> None:
    assert shown(event("message.created", message=_message("long", is_summary=True))) == ""


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("session.running", {"trigger": "resume"}, "running again (resume)\n"),
        ("session.recovered", {}, "the server was restarted; the run continues\n"),
        (
            "approval.requested",
            {"call_id": "c1", "name": COMMAND, "arguments": {"command": "rm x"}, "expires_at": AT},
            f"call c1 waits for approval until {AT}\n$ rm x\n",
        ),
        (
            "approval.resolved",
            {"call_id": "01a20436-270d-740d-8574-6f28e66251d8", "decision": "deny", "by": "timeout"},
            "call e66251d8 denied (timeout)\n",
        ),
        ("approval.resolved", {"call_id": "c1", "decision": "cancelled", "by": "limit"}, "call c1 cancelled (limit)\n"),
        ("something.new", {"x": 1}, ""),
    ],
)
def test_other_events_take_a_line_or_none(name: str, data: dict[str, object], expected: str) -> None:
    assert shown(event(name, **data)) == expected


def test_text_from_models_and_tools_cannot_control_the_terminal() -> None:
    hostile = "\x1b[2J\x9b1m\x07"
    text = shown(
        delta(hostile, 0),
        completed(hostile),
        call("1", COMMAND, command=hostile),
        output("1", 0, hostile),
        result("1", COMMAND, hostile, exit_code=0),
        call("2", "write_file", path=hostile, content=""),
        result("2", "write_file", hostile, status="error"),
        event("plan.updated", items=[{"text": hostile, "status": hostile}]),
        event("message.created", message=_message(hostile)),
        idle("failed", error={"detail": hostile, "code": hostile}),
    )
    assert not any(character in text for character in "\x1b\x9b\x07")
    assert text.count(r"\x1b[2J") >= 8
