"""Which calls wait, and what the model is told of a denied one."""

from __future__ import annotations

import time

import pytest

from app.agent.approvals import MATCH_S, compile_command, denial, which_wait
from app.agent.ports import Decision
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


def test_a_pattern_that_takes_too_long_has_its_calls_wait() -> None:
    endless = ("execute_command", {"command": "a" * 5_000})
    started = time.monotonic()
    found = which_wait([endless, LS, READ], Approval(policy=ApprovalRules(commands=(r"(a|aa)+b(?<=x)$",))))
    assert found == [True, True, False], "what was not looked at in time waits too"
    assert time.monotonic() - started < MATCH_S + 5


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[", "(?R)", "(a)(?1)", "*", r"(?P<x>a)(?P=y)", r"\L<names>"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_command(pattern)


def test_a_denial_says_what_to_do() -> None:
    assert "Use git." in denial(Decision("deny", "user", "Use git."), 300)
    assert "go on without it" in denial(Decision("deny", "user"), 300)
    assert "within 90 s" in denial(Decision("deny", "timeout"), 90)
