"""Calls that wait, or waited, for their result from a client of the API or from a sub-agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from app.db.models import client_calls
from app.db.repositories import parts

_WITH_CALLS = parts.with_calls(client_calls)
_OPEN = _WITH_CALLS.where(client_calls.c.ended_by.is_(None))
_COUNT_OPEN = (
    select(func.count())
    .select_from(client_calls)
    .where(client_calls.c.session_id == bindparam("sid"), client_calls.c.ended_by.is_(None))
)
_OF_MESSAGE = _WITH_CALLS.where(client_calls.c.message_id == bindparam("mid"))


class Wait(NamedTuple):
    """A call that starts to wait, with its timeout in seconds, None for none. `child_id` is the sub-agent that will
    carry it out, None for a client's call."""

    call_id: str
    timeout_s: float | None
    child_id: str | None


def add(connection: Connection, session_id: str, message_id: str, waits: Iterable[Wait], at: datetime) -> None:
    """Makes calls of a message wait."""
    connection.execute(
        insert(client_calls),
        [
            {
                "session_id": session_id,
                "call_id": wait.call_id,
                "message_id": message_id,
                "requested_at": at,
                "expires_at": None if wait.timeout_s is None else at + timedelta(seconds=wait.timeout_s),
                "child_id": wait.child_id,
            }
            for wait in waits
        ],
    )


def get(connection: Connection, session_id: str, call_id: str) -> Row[Any] | None:
    query = select(client_calls).where(client_calls.c.session_id == session_id, client_calls.c.call_id == call_id)
    return connection.execute(query).first()


def open_ones(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """Waiting calls, each with its call's `body` and `status`, in the model's order."""
    return connection.execute(_OPEN, {"sid": session_id}).all()


def count_open(connection: Connection, session_id: str) -> int:
    return connection.execute(_COUNT_OPEN, {"sid": session_id}).scalar_one()


def is_awaited(connection: Connection, session_id: str, child_id: str) -> bool:
    """Whether a call of the session still waits for this sub-agent."""
    query = select(client_calls.c.call_id).where(
        client_calls.c.session_id == session_id,
        client_calls.c.child_id == child_id,
        client_calls.c.ended_by.is_(None),
    )
    return connection.execute(query).first() is not None


def of_message(connection: Connection, session_id: str, message_id: str) -> Sequence[Row[Any]]:
    """All calls of a message that wait or waited, in the form of `open_ones`."""
    return connection.execute(_OF_MESSAGE, {"sid": session_id, "mid": message_id}).all()


def end(
    connection: Connection,
    session_id: str,
    call_ids: Sequence[str],
    ended_by: str,
    at: datetime,
    output: str | None = None,
    *,
    is_error: bool = False,
) -> None:
    """Ends the wait of calls."""
    connection.execute(
        update(client_calls)
        .where(client_calls.c.session_id == session_id, client_calls.c.call_id.in_(call_ids))
        .values(ended_by=ended_by, ended_at=at, output=output, is_error=is_error)
    )


def forget_output(connection: Connection, session_id: str, call_id: str) -> None:
    """Drops what a client has posted: the call's result has it now."""
    connection.execute(
        update(client_calls)
        .where(client_calls.c.session_id == session_id, client_calls.c.call_id == call_id)
        .values(output=None)
    )
