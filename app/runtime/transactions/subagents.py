"""Sub-agents in the transactions of their parent's owner: which calls of `delegate` have their answer, and which
sub-agents start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row

from app.db.repositories import messages, sessions, steps
from app.errors import PalimpsestError
from app.eventlog.log import Appender, StreamItem
from app.events import ApprovalRequested, ApprovalResolved, SubagentStarted
from app.messages import parse_arguments
from app.runtime.admission import Draft
from app.runtime.transactions import lifecycle, runs
from app.sessions import Outcome, Status

MAX_RUNNING = 4
"""Sub-agents of a session that work at the same time; other calls of the message wait for their turn."""
MAX_CHILDREN = 500
"""Sub-agents that a session may have in all."""


Drafting = Callable[[Row[Any]], Draft]
"""Makes the session that carries out a call, given its row. Raises `PalimpsestError` if it cannot be created."""


@dataclass(slots=True)
class Known:
    """What the owner of a session knows of its sub-agents: those that have just started, with the events to publish
    after the commit; those that worked before; and the calls that wait for approval according to the session's log,
    with the sub-agent of each, None until the log is read."""

    started: dict[str, list[StreamItem]] = field(default_factory=dict)
    working: list[str] = field(default_factory=list)
    held: dict[str, str] | None = None


def settle(
    connection: Connection, appender: Appender, waits: Sequence[Row[Any]], draft: Drafting, known: Known
) -> None:
    """Ends the waits whose sub-agents have ended, starts sub-agents for others while fewer than `MAX_RUNNING` work, and
    shows what those wait for. `waits` are the calls of one message, in the form of `client_calls.open_ones`."""
    if known.held is None:
        known.held = runs.shown_approvals(connection, appender.session_id)
    working = known.working = []
    fresh: list[Row[Any]] = []
    for wait in waits:
        if wait.child_id is None or wait.ended_by is not None:
            continue
        child = sessions.find(connection, wait.child_id)
        if child is None:
            fresh.append(wait)
        elif child.status == Status.IDLE:
            _finish(connection, appender, wait, child)
        else:
            working.append(child.id)
    for wait in fresh[: max(0, MAX_RUNNING - len(working))]:
        _start(connection, appender, wait, draft, known)
    _show_approvals(connection, appender, working, known.held)
    runs.show_waits(connection, appender)


def _show_approvals(connection: Connection, appender: Appender, working: Sequence[str], held: dict[str, str]) -> None:
    """Repeats the approvals of sub-agents in the session's log, for clients that follow only that."""
    waiting = {row.call_id: row for child_id in working for row in steps.open_approvals(connection, child_id)}
    for call_id, row in waiting.items():
        if call_id not in held:
            call = {"name": row.body["name"], "arguments": parse_arguments(row.body["arguments_text"])}
            expires_at, child_id = row.expires_at, row.session_id
            appender.emit(ApprovalRequested, call_id=call_id, expires_at=expires_at, subagent_id=child_id, **call)
            held[call_id] = child_id
    for call_id in [each for each in held if each not in waiting]:
        child_id = held.pop(call_id)
        decided = steps.get_approval(connection, child_id, call_id)
        if decided is not None:
            end = {"decision": decided.decision, "by": decided.decided_by}
            appender.emit(ApprovalResolved, call_id=call_id, subagent_id=child_id, **end)


def _start(connection: Connection, appender: Appender, wait: Row[Any], draft: Drafting, known: Known) -> None:
    parent = sessions.row(connection, appender.session_id)
    if sessions.count_children(connection, parent.id) >= MAX_CHILDREN:
        return _refuse(connection, appender, wait, f"a session may have at most {MAX_CHILDREN} sub-agents.")
    try:
        drafted = draft(wait)
    except PalimpsestError as error:
        # The session or the server was changed after the call was checked.
        return _refuse(connection, appender, wait, error.detail)
    (child, _), items = lifecycle.create(connection, drafted, runs.Starter(parent.run_key, parent.run_traceparent))
    known.started[child.id] = items
    appender.emit(SubagentStarted, call_id=wait.call_id, subagent_id=child.id, title=child.title, model=child.model)


def _refuse(connection: Connection, appender: Appender, wait: Row[Any], why: str) -> None:
    runs.end_client_calls(connection, appender, [wait.call_id], "subagent", why, is_error=True)


def _finish(connection: Connection, appender: Appender, wait: Row[Any], child: Row[Any]) -> None:
    runs.end_subagent(appender, wait.call_id, child)
    is_error = child.outcome != Outcome.COMPLETED
    text = _failure(connection, child) if is_error else _answer(child)
    runs.end_client_calls(connection, appender, [wait.call_id], "subagent", text, is_error=is_error)


def _answer(child: Row[Any]) -> str:
    steps = "1 step" if child.steps == 1 else f"{child.steps:,} steps"
    return f"[sub-agent {child.id} completed the task in {steps}]\n{child.answer or '[no answer]'}"


_ENDS = {
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "was cancelled",
    Outcome.INTERRUPTED: "was interrupted",
    Outcome.LIMIT_REACHED: "has reached a limit",
}


def _failure(connection: Connection, child: Row[Any]) -> str:
    """Why there is no answer, and what the sub-agent wrote last."""
    detail = (child.error or {}).get("detail")
    text = f"sub-agent {child.id} {_ENDS[Outcome(child.outcome)]}" + (f": {detail}" if detail else ".")
    last = messages.last_of_model(connection, child.id)
    return text if last is None or not last.text.strip() else f"{text}\nIts last message:\n{last.text}"
