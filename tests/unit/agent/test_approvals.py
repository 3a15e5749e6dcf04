"""Which calls wait, and what the model reads about a denied one."""

from __future__ import annotations

import pytest

from app.agent.approvals import denial, denials, which_wait
from app.agent.changes import CallsHeld
from app.agent.protocols import Decision
from app.messages import ToolCallPart, ToolStatus, new_id
from app.sessions import Approval, ApprovalRules

LS = ("execute_command", {"command": "ls -l", "timeout_s": None})
RM = ("execute_command", {"command": "cd x\nrm -rf y", "timeout_s": None})
READ = ("read_file", {"path": "rm"})


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        ("never", [False, False, False]),
        ("always", [True, True, True]),
        (ApprovalRules(), [False, False, False]),
        (ApprovalRules(tools=("read_file",)), [False, False, True]),
        (ApprovalRules(tools=("execute_command",), commands=("rm",)), [True, True, False]),
        (ApprovalRules(commands=("^rm",)), [False, False, False]),
        (ApprovalRules(commands=("(?m)^rm", "never")), [False, True, False]),
        (ApprovalRules(commands=("never", "-l$")), [True, False, False]),
    ],
)
def test_which_calls_wait(policy: object, waits: list[bool]) -> None:
    assert which_wait([LS, RM, READ], Approval.model_validate({"policy": policy})) == waits


def test_calls_wait_if_a_pattern_is_no_longer_valid() -> None:
    assert which_wait([LS, READ], Approval(policy=ApprovalRules(commands=("a(?=b)",)))) == [True, False]


def test_a_denial_says_what_to_do() -> None:
    assert "Use git." in denial(Decision("deny", "user", "Use git."), 300)
    assert "continue without it" in denial(Decision("deny", "user"), 300)
    assert "within 90 s" in denial(Decision("deny", "timeout"), 90)


def test_a_waiting_call_runs_only_if_approved() -> None:
    names = ("approved", "denied", "cancelled", "unknown", "not held")
    calls = [ToolCallPart(id=new_id(), index=i, call_id=n, name="x", arguments_text="{}") for i, n in enumerate(names)]
    decisions = {
        "approved": Decision("approve", "user"),
        "denied": Decision("deny", "user"),
        "cancelled": Decision("cancelled", "interrupt"),
    }
    held = CallsHeld("m", tuple(calls[:4]), 90)
    results = {result.call_id: result for result in denials(calls, held, decisions)}
    assert list(results) == ["denied", "cancelled", "unknown"]
    assert {result.status for result in results.values()} == {ToolStatus.DENIED}
    assert "within 90 s" in results["unknown"].output, "a call without a decision was not answered in time"
