"""What clients and owners do with calls that wait for a client: post results, list them, and find a step that was left
while it waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from app.db.repositories import client_calls, parts, sessions, steps
from app.errors import ConflictError, NotFoundError
from app.eventlog.log import Appender, StreamItem
from app.messages import ToolStatus, now, rfc3339
from app.runtime.transactions.runs import end_client_calls, has_expired
from app.runtime.values.queue import PendingToolCall, PendingToolCalls, ToolCallAnswer

_KEPT = (None, "client", "subagent", "timeout")
"""How a wait may end so that its step continues; None while it lasts."""


def answer(
    connection: Connection, session_id: str, call_id: str, posted: ToolCallAnswer
) -> tuple[None, list[StreamItem]]:
    """Stores a result. Raises `NotFoundError` for an unknown call, and `ConflictError` for one that has a result or
    does not wait for a client."""
    # First, since it locks the session: of two results at once, one is refused.
    appender = Appender(connection, session_id)
    row = client_calls.get(connection, session_id, call_id)
    if row is None or row.child_id is not None:
        raise _not_waiting(connection, session_id, call_id)
    if row.ended_by is not None:
        detail = f"The call no longer waits: ended by {row.ended_by} at {rfc3339(row.ended_at)}."
        raise ConflictError(detail, code="call_resolved")
    if has_expired(row, appender.at):
        raise ConflictError("The time limit of the call has passed; it has failed.", code="call_resolved")
    is_error = posted.error is not None
    output = posted.error if is_error else posted.output
    end_client_calls(connection, appender, [call_id], "client", output, is_error=is_error)
    return None, appender.flush()


def _not_waiting(connection: Connection, session_id: str, call_id: str) -> NotFoundError | ConflictError:
    by_type = {row.type: row for row in parts.of_call(connection, session_id, call_id)}
    if "tool_call" not in by_type:
        return NotFoundError(f"There is no tool call {call_id[:100]}.", code="call_not_found")
    if "tool_result" in by_type:
        return ConflictError("The call has a result already.", code="call_resolved")
    return ConflictError("The call does not wait for a client, or not yet.", code="call_not_waiting")


def pending(connection: Connection, session_id: str) -> PendingToolCalls:
    """The calls that wait for a client."""
    row = sessions.row(connection, session_id)
    waiting = [each for each in client_calls.open_ones(connection, session_id) if each.child_id is None]
    items = tuple(PendingToolCall.of_row(each, each.body) for each in waiting)
    return PendingToolCalls(items=items, last_seq=row.last_seq)


def is_left_waiting(connection: Connection, session_id: str, message_id: str) -> bool:
    """Whether calls of a message wait, for a person or a client, or come after one that did: they have not started."""
    rows = client_calls.of_message(connection, session_id, message_id)
    if not rows:
        return steps.are_held(connection, session_id, message_id)
    calls = parts.calls(connection, session_id, message_id)
    return any(call.status is ToolStatus.PENDING for call in calls) and all(row.ended_by in _KEPT for row in rows)


def would_continue(connection: Connection, session_id: str) -> bool:
    """Whether a run whose calls waited has nothing left to wait for: all are decided or answered, or it is too late.
    Sub-agents do not count: after a restart their runs continue, or are parked, like their parent's."""
    waiting: Sequence[Row[Any]] = [
        *steps.open_approvals(connection, session_id),
        *client_calls.open_ones(connection, session_id),
    ]
    return all(has_expired(row, now()) or getattr(row, "child_id", None) is not None for row in waiting)
