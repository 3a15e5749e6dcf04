from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.facts import MAX_COMMANDS, CommandFact, FileFact, ended_calls
from app.messages import Message, Role, ToolStatus
from app.sessions import PlanItem
from tests.unit.context.builders import (
    AT,
    any_history,
    assistant,
    call,
    compute_facts,
    control,
    image,
    message,
    result,
    text,
    tool,
    user,
)


def ran(seq: int, name: str, arguments: Any, **outcome: Any) -> list[Message]:
    """A step of one call and its result; arguments are an object or the text as the model wrote it."""
    written = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    call_id = f"call-{seq}"
    return [assistant(seq, call(call_id, name, written)), tool(seq + 1, result(call_id, name=name, **outcome))]


def command(seq: int, line: str, **outcome: Any) -> list[Message]:
    return ran(seq, "execute_command", {"command": line}, **outcome)


def touched(seq: int, name: str, path: str, **outcome: Any) -> list[Message]:
    return ran(seq, name, {"path": path}, **outcome)


def test_the_task_is_the_first_user_message_and_requests_follow_newest_last() -> None:
    history = [user(1, "build it"), control(2), user(3, "use Rust"), user(4, " \n"), user(5, "no, Go")]
    facts = compute_facts(history, (), 0)
    assert facts.task == "build it"
    assert facts.requests == (("m3", "use Rust"), ("m5", "no, Go"))
    assert facts.without({"m3", "m9"}).requests == (("m5", "no, Go"),)


def test_the_message_with_the_task_is_the_task_wherever_it_is() -> None:
    history = [user(1, "hi, what can you do?"), assistant(2, text("Much.")), user(3, "build it"), user(4, "in Go")]
    facts = compute_facts(history, (), 0, "m3")
    assert (facts.task, [request.text for request in facts.requests]) == (
        "build it",
        ["hi, what can you do?", "in Go"],
    )
    assert compute_facts(history, (), 0, "withdrawn").task == "hi, what can you do?"


def test_images_in_a_request_are_named() -> None:
    facts = compute_facts([message(Role.USER, 1, image(800, 600))], (), 0)
    assert facts.task == "[image image/png 800×600]"


def test_a_summary_in_the_users_role_is_no_request() -> None:
    summary = user(2, "## Session Summary").model_copy(update={"is_summary": True})
    assert compute_facts([user(1, "task"), summary], (), 1).requests == ()


def test_an_empty_history_has_no_facts_but_plan_and_rounds() -> None:
    item = PlanItem(text="test")
    facts = compute_facts([], [item], 3)
    assert (facts.task, facts.requests, facts.files, facts.plan, facts.rounds) == ("", (), (), (item,), 3)


def test_changed_files_are_counted_and_the_last_used_comes_first() -> None:
    history = [
        *touched(1, "read_file", "a.py"),
        *touched(3, "write_file", "b.py"),
        *touched(5, "edit_file", "c.py"),
        *touched(7, "edit_file", "./a.py"),
        *touched(9, "edit_file", "/workspace/a.py"),
        *touched(11, "read_file", "d.py"),
    ]
    assert compute_facts(history, (), 0).files == (
        FileFact("a.py", read=1, edited=2),
        FileFact("c.py", edited=1),
        FileFact("b.py", written=1),
    )


@pytest.mark.parametrize("status", [s for s in ToolStatus if s is not ToolStatus.COMPLETED])
def test_a_call_that_did_not_complete_touched_no_file(status: ToolStatus) -> None:
    facts = compute_facts(touched(1, "write_file", "a.py", status=status), (), 0)
    assert facts.files == ()
    assert facts.calls == ()


@pytest.mark.parametrize("arguments", ["", "not json", '["a.py"]', '{"path": 3}', '{"file": "a.py"}'])
def test_arguments_without_a_path_are_no_file(arguments: str) -> None:
    assert compute_facts(ran(1, "read_file", arguments), (), 0).files == ()


def test_listing_and_searching_count_only_as_calls() -> None:
    history = [
        *touched(1, "list_directory", "src"),
        *touched(3, "search_files", "src"),
        *touched(5, "list_directory", "."),
    ]
    facts = compute_facts(history, (), 0)
    assert facts.files == ()
    assert facts.calls == (("list_directory", 2), ("search_files", 1))


@pytest.mark.parametrize(
    "outcome",
    [
        {"exit_code": 2},
        {"exit_code": -9},
        {"status": ToolStatus.ERROR, "exit_code": None},
        {"status": ToolStatus.CANCELLED},
        {"status": ToolStatus.INTERRUPTED},
    ],
)
def test_commands(outcome: dict[str, Any]) -> None:
    (failure,) = compute_facts(command(1, "make", **outcome), (), 0).commands
    assert (failure.command, failure.failures, failure.passes) == ("make", 1, False)
    assert failure.exit_code == outcome.get("exit_code")
    assert failure.status == outcome.get("status", ToolStatus.COMPLETED)


@pytest.mark.parametrize("outcome", [{"exit_code": 0}, {"exit_code": None}, {"status": ToolStatus.DENIED}])
def test_commands_that_did_not_fail(outcome: dict[str, Any]) -> None:
    assert compute_facts(command(1, "make", **outcome), (), 0).commands == ()


def test_failures_of_one_command_are_one_entry_with_the_last_error() -> None:
    history = [
        *command(1, "make", exit_code=1, output="main.c:3: error: no x"),
        *command(3, "npm test", exit_code=4, output=""),
        *command(5, "make", exit_code=2, output="main.c:3: error: no y\nmake: *** [all] Error 1"),
    ]
    completed = ToolStatus.COMPLETED
    assert compute_facts(history, (), 0).commands == (
        CommandFact("make", 2, 2, completed, 2, "main.c:3: error: no y", passes=False),
        CommandFact("npm test", 1, 1, completed, 4, passes=False),
    )


def test_a_command_that_passes_now_keeps_its_last_error_and_has_its_outcome() -> None:
    failed = command(1, "make test", exit_code=1, output="AssertionError: 3 != 4\n1 failed")
    passed = command(3, "make test", exit_code=0, output="collected 12\n12 passed in 0.2s\n")
    (known,) = compute_facts([*failed, *passed], (), 0).commands
    assert (known.passes, known.error, known.outcome) == (True, "AssertionError: 3 != 4", "12 passed in 0.2s")
    (known,) = compute_facts([*failed, *passed, *command(5, "make test", exit_code=1)], (), 0).commands
    assert (known.passes, known.outcome, known.failures, known.runs) == (False, "", 2, 3)


def test_a_command_that_never_failed_counts_if_it_ran_again() -> None:
    once, twice = command(1, "ls", exit_code=0), command(3, "make", exit_code=0, output="built 1")
    again = command(5, "make", exit_code=0, output="built 2")
    assert compute_facts([*once, *twice, *again], (), 0).commands == (CommandFact("make", 2, outcome="built 2"),)


def test_commands_are_bounded_and_failures_are_kept_longest() -> None:
    history = [*command(1, "make", exit_code=1), *command(3, "make it", exit_code=1)]
    for number in range(MAX_COMMANDS):
        history += [*command(4 * number + 5, f"run {number}"), *command(4 * number + 7, f"run {number}")]
    commands = compute_facts(history, (), 0).commands
    assert len(commands) == MAX_COMMANDS
    assert [known.command for known in commands[-2:]] == ["make it", "make"]


def test_a_denied_run_is_no_later_success() -> None:
    history = [*command(1, "make", exit_code=1), *command(3, "make", status=ToolStatus.DENIED)]
    (known,) = compute_facts(history, (), 0).commands
    assert (known.passes, known.runs) == (False, 1)


def test_a_file_has_its_last_change() -> None:
    edits = [{"path": "a.py", "old_text": "x = 1\ny = 2", "new_text": f"x = 1\ny = {n}"} for n in (3, 4)]
    history = [m for n, edit in enumerate(edits) for m in ran(2 * n, "edit_file", edit)]
    assert compute_facts(history, (), 0).files == (FileFact("a.py", edited=2, change="y = 2 → y = 4"),)


def test_the_agents_sentences_that_tell_something_are_kept_in_order() -> None:
    said = ["I will look at it.", "The cause is `cache.py`: it keeps 3 entries. Fine.", "We use port 8443 instead."]
    history = [assistant(n, text(line)) for n, line in enumerate(said)]
    told = [sentence.text for sentence in compute_facts(history, (), 0).sentences]
    assert told == ["The cause is `cache.py`: it keeps 3 entries.", "We use port 8443 instead."]


def test_voided_attempts_do_not_count() -> None:
    history = [m.model_copy(update={"voided_at": AT}) for m in (user(1), *touched(2, "write_file", "a"))]
    facts = compute_facts([*history, user(9, "the task")], (), 0)
    assert (facts.task, facts.files, facts.calls) == ("the task", (), ())


def test_a_result_without_its_call_does_not_count() -> None:
    assert compute_facts([tool(1, result("lost", exit_code=1))], (), 0).calls == ()


def test_a_second_result_of_a_call_does_not_count() -> None:
    history = [*command(1, "make", exit_code=1), tool(4, result("call-1", exit_code=0))]
    assert [given.exit_code for _, given in ended_calls(history)] == [1]


@given(any_history)
def test_any_history_has_facts_and_equal_ones_each_time(history: list[Message]) -> None:
    facts = compute_facts(history, (), 1)
    assert facts == compute_facts(list(history), (), 1)
    results = sum(len(m.tool_results) for m in history)
    assert sum(count for _, count in facts.calls) <= results
    assert all(file.read + file.written + file.edited > 0 for file in facts.files)


@given(st.lists(st.tuples(st.sampled_from(["read_file", "write_file", "edit_file"]), st.sampled_from("abc"))))
def test_file_counts_add_up_to_the_calls(uses: list[tuple[str, str]]) -> None:
    history = [m for index, (name, path) in enumerate(uses) for m in touched(2 * index, name, path)]
    files = compute_facts(history, (), 0).files
    changed = {path for name, path in uses if name != "read_file"}
    counts = {f.path: f.read + f.written + f.edited for f in files}
    assert counts == {path: sum(1 for _, p in uses if p == path) for path in changed}
    last_used = dict.fromkeys(path for _, path in reversed(uses))
    assert [f.path for f in files] == [path for path in last_used if path in changed]
