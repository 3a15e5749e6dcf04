"""Steps with the calls that wait for a person, and context generations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, literal_column, or_, select, type_coerce, update

from app.db.dialects import JsonText, json_number
from app.db.models import approvals, client_calls, generations, sessions, steps
from app.db.prepared import Prepared
from app.db.repositories import parts
from app.messages import FinishReason, ToolStatus, Usage
from app.sessions import ApprovalDecision, ApprovalEnd, ContextState, SessionKind

Period = tuple[datetime, datetime]
"""From when to when."""

_WITH_CALLS = parts.with_calls(approvals)
_APPROVALS_OPEN = _WITH_CALLS.where(approvals.c.decision.is_(None))


_OF_SESSION = generations.c.session_id == bindparam("sid")
_NEWEST_GENERATION = select(generations).where(_OF_SESSION).order_by(generations.c.number.desc()).limit(1)
_LAST_GENERATION = Prepared(_NEWEST_GENERATION)
_REPAIRS = Prepared(select(generations.c.repairs).where(_OF_SESSION).order_by(generations.c.number))


def add_generation(connection: Connection, session_id: str, columns: Mapping[str, Any]) -> None:
    """Adds a generation; `pruned`, `restored` and `repairs` are its differences from the one before."""
    connection.execute(insert(generations).values({**columns, "session_id": session_id}))


def generation(connection: Connection, session_id: str, number: int | None = None) -> Row[Any] | None:
    """A generation by its number, or the newest."""
    if number is None:
        return _LAST_GENERATION.first(connection, {"sid": session_id})
    query = _NEWEST_GENERATION.where(generations.c.number == number)
    return connection.execute(query, {"sid": session_id}).first()


def repairs(connection: Connection, session_id: str) -> list[dict[str, Any]]:
    """All repairs ever made in the session's contexts, oldest first."""
    found = _REPAIRS.all(connection, {"sid": session_id})
    return [repair for row in found for repair in row.repairs or ()]


_OPEN = Prepared(insert(steps))


def open_attempt(connection: Connection, session_id: str, *, context: ContextState, **columns: Any) -> None:
    """Adds an attempt at a step as it starts; `opened_seq` is the seq of its event."""
    fields = {"context": context.model_dump(), "usage": Usage().model_dump(), **columns}
    _OPEN.run(connection, {"session_id": session_id, **fields})


_CHANGE = Prepared(
    update(steps).where(
        steps.c.session_id == bindparam("sid"), steps.c.step == bindparam("number"), steps.c.attempt == bindparam("try")
    )
)


def close_step(
    connection: Connection,
    session_id: str,
    step: int,
    attempt: int,
    finish_reason: FinishReason,
    context: ContextState | None = None,
    duration_ms: int | None = None,
) -> None:
    """Records how an attempt ended; without a context the one of its start stays."""
    values: dict[str, Any] = {"finish_reason": finish_reason, "duration_ms": duration_ms}
    if context is not None:
        values["context"] = context.model_dump()
    _CHANGE.run(connection, {"sid": session_id, "number": step, "try": attempt, **values})


def end_answer(connection: Connection, session_id: str, *, step: int, attempt: int, usage: Usage, at: datetime) -> None:
    """Records the usage of an attempt and the end of its answer."""
    key = {"sid": session_id, "number": step, "try": attempt}
    _CHANGE.run(connection, {**key, "usage": usage.model_dump(), "answered_at": at})


def waits(connection: Connection, session_id: str, message_ids: Collection[str]) -> Iterator[tuple[str, Period]]:
    """When calls of these messages have waited for a person or a client, with the ids of their messages."""
    decisions = select(approvals.c.message_id, approvals.c.requested_at, approvals.c.decided_at)
    results = select(client_calls.c.message_id, client_calls.c.requested_at, client_calls.c.ended_at)
    for calls, query in ((approvals, decisions), (client_calls, results.where(client_calls.c.child_id.is_(None)))):
        found = query.where(calls.c.session_id == session_id, calls.c.message_id.in_(message_ids))
        for message_id, begun, ended in connection.execute(found):
            if ended is not None:
                yield message_id, (begun, ended)


def usage_of(connection: Connection, session_id: str, step: int) -> Usage:
    """The total usage of all attempts at a step."""
    query = select(steps.c.usage).where(steps.c.session_id == session_id, steps.c.step == step)
    return sum((Usage(**usage) for usage in connection.execute(query).scalars()), Usage())


_SUBAGENTS = select(sessions.c.id).where(
    sessions.c.parent_id == bindparam("sid"), sessions.c.kind == SessionKind.SUBAGENT
)
_KNOWN_COST = Prepared(
    select(
        func.coalesce(func.sum(json_number(type_coerce(steps.c.usage, JsonText), literal_column("'cost_usd'"))), 0.0)
    ).where(or_(steps.c.session_id == bindparam("sid"), steps.c.session_id.in_(_SUBAGENTS)))
)


def known_cost_usd(connection: Connection, session_id: str) -> float:
    """The total cost of the attempts with a known price, in US dollars, including those of sub-agents."""
    return float(_KNOWN_COST.value(connection, {"sid": session_id}))


def last_attempt(connection: Connection, session_id: str, step: int) -> Row[Any] | None:
    query = select(steps).where(steps.c.session_id == session_id, steps.c.step == step)
    return connection.execute(query.order_by(steps.c.attempt.desc()).limit(1)).first()


def page(connection: Connection, session_id: str, *, after_seq: int, limit: int) -> Sequence[Row[Any]]:
    """Attempts in the order of their start."""
    query = select(steps).where(steps.c.session_id == session_id, steps.c.opened_seq > after_seq)
    return connection.execute(query.order_by(steps.c.opened_seq).limit(limit)).all()


_NEWEST = (
    select(steps)
    .where(steps.c.session_id == bindparam("sid"))
    .order_by(steps.c.step.desc(), steps.c.attempt.desc())
    .limit(1)
)
_NEWEST_OF_ALL = Prepared(_NEWEST)


def newest(connection: Connection, session_id: str) -> Row[Any] | None:
    """The newest attempt."""
    return _NEWEST_OF_ALL.first(connection, {"sid": session_id})


def last_closed(connection: Connection, session_id: str) -> Row[Any] | None:
    """The newest attempt that has ended."""
    return connection.execute(_NEWEST.where(steps.c.finish_reason.is_not(None)), {"sid": session_id}).first()


def count(connection: Connection, session_id: str) -> int:
    query = select(func.count()).select_from(steps).where(steps.c.session_id == session_id)
    return connection.execute(query).scalar_one()


def add_approval(
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


def get_approval(connection: Connection, session_id: str, call_id: str) -> Row[Any] | None:
    query = select(approvals).where(approvals.c.session_id == session_id, approvals.c.call_id == call_id)
    return connection.execute(query).first()


def open_approvals(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """Pending approvals, each with its call's `body` and `status`, in the model's order."""
    return connection.execute(_APPROVALS_OPEN, {"sid": session_id}).all()


def count_open_approvals(connection: Connection, session_id: str) -> int:
    query = select(func.count()).select_from(approvals)
    query = query.where(approvals.c.session_id == session_id, approvals.c.decision.is_(None))
    return connection.execute(query).scalar_one()


def approvals_of_message(connection: Connection, session_id: str, message_id: str) -> Sequence[Row[Any]]:
    """All approvals of a message, decided or not, in the form of `open_approvals`."""
    query = _WITH_CALLS.where(approvals.c.message_id == bindparam("mid"))
    return connection.execute(query, {"sid": session_id, "mid": message_id}).all()


def are_held(connection: Connection, session_id: str, message_id: str) -> bool:
    """Whether a message's calls are on hold because of approvals and may still start."""
    rows = approvals_of_message(connection, session_id, message_id)
    return any(row.status == ToolStatus.PENDING for row in rows) and all(row.decision != "cancelled" for row in rows)


def resolve_approval(
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
