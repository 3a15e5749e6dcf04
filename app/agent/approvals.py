"""Which calls wait for approval, and what the model is told about a denied one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.agent.batch import result_without_run
from app.agent.changes import CallsHeld
from app.agent.ports import Decision
from app.messages import ToolCallPart, ToolResultPart, ToolStatus
from app.sessions import Approval, ApprovalEnd, ApprovalRules
from app.tools.patterns import Pattern, PatternError
from app.tools.shell import ExecuteCommand

MATCH_S = 0.5
"""Seconds in total for matching the commands of one message. Commands not checked by then wait for approval, like
those that match."""

Checked = tuple[str, Mapping[str, Any]]
"""A call that can run: the tool's name, and the arguments as the tool gets them."""


def which_wait(calls: Sequence[Checked], approval: Approval) -> list[bool]:
    """For each call of a message, whether it waits. Takes up to `MATCH_S`, without holding the GIL."""
    if not isinstance(approval.policy, ApprovalRules):
        return [approval.policy == "always"] * len(calls)
    rules = approval.policy
    deadline = time.monotonic() + MATCH_S
    return [name in rules.tools or _is_matched(name, arguments, rules.commands, deadline) for name, arguments in calls]


def _is_matched(name: str, arguments: Mapping[str, Any], patterns: Sequence[str], deadline: float) -> bool:
    """Whether the call is a command that matches a pattern, or that there was no time to check."""
    if name != ExecuteCommand.name:
        return False
    for pattern in patterns:
        try:
            if time.monotonic() >= deadline or Pattern(pattern).search(str(arguments["command"])) is not None:
                return True
        except (PatternError, UnicodeEncodeError):
            # A pattern accepted by an earlier version, or a text that cannot be searched.
            return True
    return False


_UNANSWERED = Decision("deny", "timeout")
"""Used for a waiting call without a known decision: it never runs."""


def denials(
    calls: Sequence[ToolCallPart], held: CallsHeld, decisions: Mapping[str, Decision]
) -> Iterator[ToolResultPart]:
    """The results of the calls that waited and were not approved."""
    waited = {call.call_id for call in held.calls}
    for index, call in enumerate(calls):
        decision = decisions.get(call.call_id, _UNANSWERED)
        if call.call_id in waited and decision.decision != "approve":
            yield result_without_run(index, call, ToolStatus.DENIED, denial(decision, held.timeout_s))


def denial(decision: Decision, timeout_s: float | None) -> str:
    """What the model reads instead of the result of a denied call."""
    if decision.by == "timeout":
        within = "in time" if timeout_s is None else f"within {timeout_s:g} s"
        return (
            f"[denied: nobody answered {within}, so the call did not run. Do not ask for it again; go on"
            " with what needs no approval, and say at the end what is left to do.]"
        )
    if decision.reason:
        return (
            f"[denied by the user, the call did not run. The reason given: {decision.reason}\nGo by it; do not reach"
            " for the same thing in another way.]"
        )
    return (
        "[denied by the user, the call did not run. Do not reach for the same thing in another way: go on without it,"
        " or end and say what it is needed for.]"
    )


class NoDesk:
    """Used when nobody can approve: waiting calls are denied at once."""

    async def decisions(self, message_id: str) -> Mapping[str, Decision]:
        """No decisions."""
        return {}

    def withdraw(self, by: ApprovalEnd) -> None:
        """Do nothing: no call waits."""
