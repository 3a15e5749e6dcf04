"""Calls that wait for approval, and the decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from app.db.models import approvals, message_parts
from app.messages import ToolStatus
from app.sessions import ApprovalDecision, ApprovalEnd

_CALL = (
    (message_parts.c.session_id == approvals.c.session_id)
    & (message_parts.c.call_id == approvals.c.call_id)
    & (message_parts.c.type == "tool_call")
)
_WITH_CALLS = (
    select(approvals, message_parts.c.body, message_parts.c.status)
    .join(message_parts, _CALL)
    .where(approvals.c.session_id == bindparam("sid"))
    .order_by(approvals.c.requested_at, approvals.c.message_id, message_parts.c.index)
)
_OPEN = _WITH_CALLS.where(approvals.c.decision.is_(None))


def add(
    connection: Connection,
    session_id: str,
    message_id: str,
    call_ids: Iterable[str],
    *,
    at: datetime,
    expires_at: datetime | None,
) -> None:
    """Makes calls of a message wait for approval, without a timeout if `expires_at` is None."""
    row = {"session_id": session_id, "message_id": message_id, "requested_at": at, "expires_at": expires_at}
    connection.execute(insert(approvals), [{**row, "call_id": call_id} for call_id in call_ids])


def get(connection: Connection, session_id: str, call_id: str) -> Row[Any] | None:
    query = select(approvals).where(approvals.c.session_id == session_id, approvals.c.call_id == call_id)
    return connection.execute(query).first()


def open_ones(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """Pending approvals, each with its call's `body` and `status`, in the model's order."""
    return connection.execute(_OPEN, {"sid": session_id}).all()


def count_open(connection: Connection, session_id: str) -> int:
    query = select(func.count()).select_from(approvals)
    query = query.where(approvals.c.session_id == session_id, approvals.c.decision.is_(None))
    return connection.execute(query).scalar_one()


def of_message(connection: Connection, session_id: str, message_id: str) -> Sequence[Row[Any]]:
    """All approvals of a message, decided or not, in the form of `open_ones`."""
    query = _WITH_CALLS.where(approvals.c.message_id == bindparam("mid"))
    return connection.execute(query, {"sid": session_id, "mid": message_id}).all()


def are_held(connection: Connection, session_id: str, message_id: str) -> bool:
    """Whether a message's calls are on hold because of approvals and may still start."""
    rows = of_message(connection, session_id, message_id)
    return any(row.status == ToolStatus.PENDING for row in rows) and all(row.decision != "cancelled" for row in rows)


def resolve(
    connection: Connection,
    session_id: str,
    call_ids: Sequence[str],
    decision: ApprovalDecision,
    by: ApprovalEnd,
    at: datetime,
    reason: str | None = None,
) -> None:
    """Resolves pending approvals."""
    connection.execute(
        update(approvals)
        .where(approvals.c.session_id == session_id, approvals.c.call_id.in_(call_ids))
        .values(decision=decision, decided_by=by, decided_at=at, reason=reason)
    )
