"""Calls that need approval: the transactions that hold, decide and release them.

A session is `awaiting_approval` exactly while one of its approvals is pending; both change in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.changes import CallsHeld, CallsReleased
from app.db.engine import Database
from app.db.repositories import approvals, parts, sessions
from app.errors import ConflictError, NotFoundError
from app.eventlog.log import Appender, StreamItem
from app.events import ApprovalRequested, ApprovalResolved, SessionUpdated
from app.messages import parse_arguments, rfc3339
from app.runtime.values.approvals import ApprovalAnswer, ApprovalList, PendingApproval
from app.sessions import ApprovalDecision, ApprovalEnd, Status


def events_of(change: CallsHeld) -> int:
    """The number of events: one per call, and the session's."""
    return len(change.calls) + 1


def hold(connection: Connection, appender: Appender, seq: int, change: CallsHeld) -> None:
    """Puts calls on hold, in the transaction that would have started them."""
    session_id, at = appender.session_id, appender.at
    expires_at = None if change.timeout_s is None else at + timedelta(seconds=change.timeout_s)
    ids = [call.call_id for call in change.calls]
    approvals.add(connection, session_id, change.message_id, ids, at=at, expires_at=expires_at)
    parts.hold_calls(connection, session_id, change.message_id)
    for place, call in enumerate(change.calls):
        event = ApprovalRequested(
            session_id=session_id,
            at=at,
            call_id=call.call_id,
            name=call.name,
            arguments=call.arguments,
            expires_at=expires_at,
        )
        appender.add(seq + place, event)
    _set_status(connection, appender, seq + len(ids), Status.AWAITING_APPROVAL)


def release(connection: Connection, appender: Appender, change: CallsReleased) -> None:
    """Marks the calls of a message that were not denied as started; they have no event until their results."""
    parts.start_calls(connection, appender.session_id, change.message_id)


def decide(
    connection: Connection, session_id: str, call_id: str, answer: ApprovalAnswer
) -> tuple[None, list[StreamItem]]:
    """Stores a decision. Raises `NotFoundError` for a call that never needed approval, and `ConflictError` for one that
    is already decided or has expired."""
    sessions.row(connection, session_id)
    row = approvals.get(connection, session_id, call_id)
    if row is None:
        raise NotFoundError(f"No call {call_id} of this session waits for approval.", code="approval_not_found")
    if row.decision is not None:
        raise ConflictError(f"The call no longer waits: {_ending(row)}.", code="approval_resolved")
    appender = Appender(connection, session_id)
    if is_over(row, appender.at):
        raise ConflictError("The approval has expired: the call is denied.", code="approval_resolved")
    resolve(connection, appender, [row], answer.decision, "user", answer.reason)
    return None, appender.flush()


def is_over(row: Row[Any], at: datetime) -> bool:
    """Whether the approval has expired."""
    return row.expires_at is not None and row.expires_at <= at


def _ending(row: Row[Any]) -> str:
    """`denied by timeout at 2026-11-22T10:11:12.345Z`."""
    decided = {"approve": "approved", "deny": "denied"}.get(row.decision, row.decision)
    return f"{decided} by {row.decided_by} at {rfc3339(row.decided_at)}"


def resolve(
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
    approvals.resolve(connection, session_id, ids, decision, by, appender.at, reason)
    for call_id in ids:
        event = ApprovalResolved(session_id=session_id, at=appender.at, call_id=call_id, decision=decision, by=by)
        appender.add(appender.take(), event)
    if approvals.count_open(connection, session_id) == 0:
        _set_status(connection, appender, appender.take(), Status.RUNNING)


def withdraw(connection: Connection, appender: Appender, by: ApprovalEnd) -> None:
    """Cancels all pending approvals of a session."""
    resolve(connection, appender, approvals.open_ones(connection, appender.session_id), "cancelled", by)


def _set_status(connection: Connection, appender: Appender, seq: int, status: Status) -> None:
    """Also notifies readers of all sessions, who get no approval events."""
    sessions.change(connection, appender.session_id, status=status)
    session = sessions.snapshot(connection, appender.session_id)
    appender.add(seq, SessionUpdated(session_id=appender.session_id, at=appender.at, session=session))


async def read_pending(database: Database, session_id: str) -> ApprovalList:
    """The pending approvals of a session, and its last seq, from one transaction."""

    def query(connection: Connection) -> ApprovalList:
        row = sessions.row(connection, session_id)
        items = tuple(_view(each) for each in approvals.open_ones(connection, session_id))
        return ApprovalList(items=items, last_seq=row.last_seq)

    return await database.read(query)


def _view(row: Row[Any]) -> PendingApproval:
    return PendingApproval(
        call_id=row.call_id,
        message_id=row.message_id,
        name=row.body["name"],
        arguments=parse_arguments(row.body["arguments_text"]),
        requested_at=row.requested_at,
        expires_at=row.expires_at,
    )
