"""The start, the waiting for people and clients, and the end of a run: the only places that change a session's
status."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import orjson
from sqlalchemy import Connection, Row

from app.agent.changes import CallsAwaited, CallsHeld, CallsReleased
from app.agent.limits import SESSION_LIMITS
from app.agent.loop import RunResult
from app.db.engine import Database
from app.db.repositories import client_calls, events, messages, parts, queue, sessions, steps
from app.errors import ConflictError, NotFoundError
from app.eventlog.log import Appender, StreamItem
from app.events import (
    ApprovalRequested,
    ApprovalResolved,
    SessionIdle,
    SessionRunning,
    SessionUpdated,
    SubagentFinished,
    ToolCalled,
)
from app.messages import Usage, new_id, rfc3339
from app.runtime.values.queue import ApprovalAnswer, ApprovalList, PendingApproval
from app.sessions import ApprovalDecision, ApprovalEnd, ClientWaitEnd, Outcome, QueueMode, SessionKind, Status
from app.tools.delegate import NAME as DELEGATE
from app.tools.submit import OutputFormat

Trigger = Literal["message", "resume", "recovery"]


@dataclass(frozen=True, slots=True)
class Starter:
    """Whose request may start a run: an id of its API key (None without keys), and the request's trace. `check` raises
    for a run that may not start; it is called in the transaction that would start it, after all other checks."""

    key: str | None = None
    traceparent: str | None = None
    check: Callable[[Connection], None] = lambda _: None


ANYONE = Starter()
"""Starts runs without limits."""


def hold_calls(connection: Connection, appender: Appender, change: CallsHeld) -> None:
    """Puts calls on hold, in the transaction that would have started them."""
    session_id, at = appender.session_id, appender.at
    expires_at = None if change.timeout_s is None else at + timedelta(seconds=change.timeout_s)
    ids = [call.call_id for call in change.calls]
    steps.add_approval(connection, session_id, change.message_id, ids, at=at, expires_at=expires_at)
    parts.hold_calls(connection, session_id, change.message_id)
    for call in change.calls:
        appender.emit(ApprovalRequested, call, expires_at=expires_at)
    _set_status(connection, appender, Status.AWAITING_APPROVAL)


def await_client(connection: Connection, appender: Appender, change: CallsAwaited) -> None:
    """Has calls wait for a client or a sub-agent; all calls of the message without a result are pending meanwhile.
    Sub-agents are started by `subagents.settle`."""
    session_id = appender.session_id
    waits = [
        client_calls.Wait(call.call_id, timeout_s, new_id() if call.name == DELEGATE else None)
        for call, timeout_s in change.calls
    ]
    client_calls.add(connection, session_id, change.message_id, waits, appender.at)
    parts.hold_calls(connection, session_id, change.message_id)
    for call, wait in zip((call for call, _ in change.calls), waits, strict=True):
        if wait.child_id is None:
            appender.emit(
                ToolCalled, call, closes=call.id, message_id=change.message_id, part_id=call.id, waits_for_client=True
            )
    show_waits(connection, appender)


def show_waits(connection: Connection, appender: Appender) -> None:
    """Sets the status to what the session waits for: an approval of a sub-agent's call, or a client; while only
    sub-agents work, it is running."""
    session_id = appender.session_id
    workers = {row.child_id for row in client_calls.open_ones(connection, session_id)}
    children = sessions.working_children(connection, session_id) if workers - {None} else ()
    if any(child.status == Status.AWAITING_APPROVAL and child.id in workers for child in children):
        status = Status.AWAITING_APPROVAL
    else:
        status = Status.AWAITING_CLIENT if None in workers else Status.RUNNING
    if sessions.row(connection, session_id).status != status:
        _set_status(connection, appender, status)


def end_client_calls(
    connection: Connection,
    appender: Appender,
    call_ids: Sequence[str],
    by: ClientWaitEnd,
    output: str | None = None,
    *,
    is_error: bool = False,
) -> None:
    """Ends the wait of calls. After the last of them the session is running again."""
    if not call_ids:
        return
    session_id = appender.session_id
    client_calls.end(connection, session_id, call_ids, by, appender.at, output, is_error=is_error)
    show_waits(connection, appender)


def release_calls(connection: Connection, appender: Appender, change: CallsReleased) -> None:
    """Marks the calls of a message without a result as started; they have no event until their results."""
    parts.start_calls(connection, appender.session_id, change.message_id)


def asker(connection: Connection, session_id: str, call_id: str) -> str:
    """The session whose call it is, of a session and its sub-agents; the session itself if none of them has it."""
    if steps.get_approval(connection, session_id, call_id) is None:
        for child_id in sessions.child_ids(connection, session_id):
            if steps.get_approval(connection, child_id, call_id) is not None:
                return child_id
    return session_id


def decide_approval(
    connection: Connection, session_id: str, call_id: str, answer: ApprovalAnswer
) -> tuple[None, list[StreamItem]]:
    """Stores a decision. Raises `NotFoundError` for a call that never needed approval, and `ConflictError` for one that
    is already decided or has expired."""
    sessions.row(connection, session_id)
    row = steps.get_approval(connection, session_id, call_id)
    if row is None:
        raise NotFoundError(f"No call {call_id} of this session waits for approval.", code="approval_not_found")
    if row.decision is not None:
        raise ConflictError(f"The call no longer waits: {_ending(row)}.", code="approval_resolved")
    appender = Appender(connection, session_id)
    if has_expired(row, appender.at):
        raise ConflictError("The approval has expired: the call is denied.", code="approval_resolved")
    resolve_approvals(connection, appender, [row], answer.decision, "user", answer.reason)
    return None, appender.flush()


def has_expired(row: Row[Any], at: datetime) -> bool:
    """Whether the call with this row has waited as long as it could."""
    return row.expires_at is not None and row.expires_at <= at


def _ending(row: Row[Any]) -> str:
    """`denied by timeout at 2026-11-22T10:11:12.345Z`."""
    decided = {"approve": "approved", "deny": "denied"}.get(row.decision, row.decision)
    return f"{decided} by {row.decided_by} at {rfc3339(row.decided_at)}"


def resolve_approvals(
    connection: Connection,
    appender: Appender,
    rows: Sequence[Row[Any]],
    decision: ApprovalDecision,
    by: ApprovalEnd,
    reason: str | None = None,
) -> None:
    """Resolves pending approvals. After the last of them the session is running again."""
    if not rows:
        return
    session_id = appender.session_id
    ids = [row.call_id for row in rows]
    steps.resolve_approval(connection, session_id, ids, decision, by, appender.at, reason)
    for call_id in ids:
        appender.emit(ApprovalResolved, call_id=call_id, decision=decision, by=by)
    if steps.count_open_approvals(connection, session_id) == 0:
        _set_status(connection, appender, Status.RUNNING)


def withdraw_waits(connection: Connection, appender: Appender, by: ApprovalEnd) -> None:
    """Cancels all pending approvals of a session, and ends the waits for clients and sub-agents."""
    session_id = appender.session_id
    resolve_approvals(connection, appender, steps.open_approvals(connection, session_id), "cancelled", by)
    end_waits(connection, appender, by)


def shown_approvals(connection: Connection, session_id: str) -> dict[str, str]:
    """The calls of sub-agents that wait for approval according to the session's log, with the sub-agent of each."""
    waits = [row for row in client_calls.open_ones(connection, session_id) if row.child_id is not None]
    if not waits:
        return {}
    (asked,) = messages.named(connection, session_id, [waits[0].message_id])
    last = sessions.row(connection, session_id).last_seq
    types = (ApprovalRequested.type, ApprovalResolved.type)
    held: dict[str, str] = {}
    for event in events.between(connection, session_id, asked.seq, last, types, newest_first=False):
        data = orjson.loads(event.data)
        if event.type == ApprovalResolved.type:
            held.pop(data["call_id"], None)
        elif data.get("subagent_id") is not None:
            held[data["call_id"]] = data["subagent_id"]
    return held


def end_waits(connection: Connection, appender: Appender, by: ApprovalEnd) -> None:
    """Ends all waits of a session for clients and sub-agents, with the approvals of those."""
    for call_id, child_id in shown_approvals(connection, appender.session_id).items():
        appender.emit(ApprovalResolved, call_id=call_id, subagent_id=child_id, decision="cancelled", by=by)
    waiting = client_calls.open_ones(connection, appender.session_id)
    for row in waiting:
        child = None if row.child_id is None else sessions.find(connection, row.child_id)
        if child is not None:
            end_subagent(appender, row.call_id, child)
    end_client_calls(connection, appender, [row.call_id for row in waiting], "error" if by == "user" else by)


def end_subagent(appender: Appender, call_id: str, child: Row[Any]) -> None:
    """Notes in its session's log that a sub-agent has ended, or will be cancelled, since its call no longer waits."""
    appender.emit(
        SubagentFinished,
        call_id=call_id,
        subagent_id=child.id,
        outcome=Outcome.CANCELLED if child.outcome is None else Outcome(child.outcome),
        error=child.error,
        usage=Usage(**child.usage),
        steps=child.steps,
    )


def _set_status(connection: Connection, appender: Appender, status: Status) -> None:
    """Also notifies readers of all sessions, who get no approval events."""
    sessions.change(connection, appender.session_id, status=status)
    appender.emit(SessionUpdated, session=appender.session())


async def read_pending(database: Database, session_id: str) -> ApprovalList:
    """The pending approvals of a session and its sub-agents, and its last seq, from one transaction."""

    def query(connection: Connection) -> ApprovalList:
        row = sessions.row(connection, session_id)
        items = [PendingApproval.of_row(each, each.body) for each in steps.open_approvals(connection, session_id)]
        for child in sessions.working_children(connection, session_id):
            theirs = steps.open_approvals(connection, child.id)
            items += [PendingApproval.of_row(each, each.body, subagent_id=child.id) for each in theirs]
        return ApprovalList(items=tuple(items), last_seq=row.last_seq)

    return await database.read(query)


def begin(
    connection: Connection,
    appender: Appender,
    trigger: Trigger,
    key: str | None = None,
    traceparent: str | None = None,
) -> None:
    """Starts a run, in the transaction that accepted its work; `key` and `traceparent` as in `Starter`."""
    appender.traceparent = traceparent
    sessions.change(
        connection,
        appender.session_id,
        status=Status.RUNNING,
        outcome=None,
        error=None,
        answer=None,
        output=None,
        unseen=False,
        # A resume continues the same work.
        **({} if trigger == "resume" else {"run_output_format": None}),
        queue_held=False,
        # One for a compaction before the run.
        cancel_requested=False,
        run_trigger=trigger,
        run_key=key,
        run_traceparent=traceparent,
        run_started_at=appender.at,
        run_steps=0,
        run_usage=Usage().model_dump(),
        recoveries=0,
    )
    appender.emit(SessionRunning, trigger=trigger)


def finish(
    connection: Connection,
    session_id: str,
    epoch: int,
    result: RunResult,
    note: Callable[[Connection, Appender], None] = lambda _, __: None,
) -> tuple[bool, list[StreamItem]]:
    """Ends a run. If a deliverable message is pending, the next run starts in the same transaction and True is
    returned, so that the session is never idle with work to do. `note` adds what else belongs to the end."""
    row = sessions.row(connection, session_id)
    result, final = _as_recorded(connection, row, result)
    pending = queue.pending(connection, session_id)
    modes = {QueueMode(waiting.mode) for waiting in pending}
    # A sub-agent has one run.
    held = row.queue_held or row.kind == SessionKind.SUBAGENT or _holds(result, modes)
    continues = not held and bool(modes)
    appender = Appender(connection, session_id, epoch=epoch)
    if row.status != Status.RUNNING or client_calls.count_open(connection, session_id):
        # A run that crashed: its waiting calls will not run.
        withdraw_waits(connection, appender, "error")
    note(connection, appender)
    _end(connection, appender, row, result, final, held=held)
    if continues:
        begin(connection, appender, "message", row.run_key, queue.trace_of(queue.due(pending, first=True)))
    return continues, appender.flush()


class _Final(NamedTuple):
    """What a completed run ended with."""

    answer: str | None = None
    output: Any = None


def _as_recorded(connection: Connection, row: Row[Any], result: RunResult) -> tuple[RunResult, _Final]:
    """The result to record for the session, and what it ended with. A run that did nothing keeps those of the previous
    run; one that had its answer when a cancel held the queue counts as cancelled, so that a resume can deliver pending
    messages."""
    if result.void:
        before = events.last_of_type(connection, row.id, "session.idle")
        if before is None:
            return result, _Final()
        ended = orjson.loads(before.data)
        final = _Final(ended.get("answer"), ended.get("output"))
        return RunResult(Outcome(ended["outcome"]), ended["error"]), final
    if result.outcome is not Outcome.COMPLETED:
        return result, _Final()
    if row.cancel_requested and queue.count(connection, row.id) > 0:
        return RunResult(Outcome.CANCELLED), _Final()
    message = messages.last_of_model(connection, row.id)
    if message is None:
        return result, _Final()
    format = OutputFormat.of_session(row)
    return result, _Final(message.text, format.submitted(message) if format is not None else None)


def _holds(result: RunResult, modes: Set[QueueMode]) -> bool:
    """Whether pending messages are held until a resume: a parked run must not start by itself, and a run that can make
    no step would use them up. Follow-ups are meant for the end of a successful run, so they are held after a failed
    one; the same failure would likely repeat for each of them."""
    code = (result.error or {}).get("code")
    if result.holds:
        return True
    if result.outcome is Outcome.FAILED and modes == {QueueMode.FOLLOW_UP}:
        return True
    return result.outcome is Outcome.INTERRUPTED or code in SESSION_LIMITS


def _end(
    connection: Connection, appender: Appender, row: Row[Any], result: RunResult, final: _Final, *, held: bool
) -> None:
    sessions.change(
        connection,
        appender.session_id,
        status=Status.IDLE,
        outcome=result.outcome,
        error=result.error,
        answer=final.answer,
        output=final.output,
        unseen=True,
        cancel_requested=False,
        queue_held=held,
    )
    appender.emit(SessionIdle, result, **final._asdict(), usage=Usage(**row.run_usage), steps=row.run_steps)
