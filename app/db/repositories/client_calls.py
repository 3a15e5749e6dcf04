"""Calls that wait, or waited, for their result from a client of the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from app.db.models import client_calls
from app.db.repositories import parts

_WITH_CALLS = parts.with_calls(client_calls)
_OPEN = _WITH_CALLS.where(client_calls.c.ended_by.is_(None))
_OF_MESSAGE = _WITH_CALLS.where(client_calls.c.message_id == bindparam("mid"))


def add(
    connection: Connection, session_id: str, message_id: str, calls: Iterable[tuple[str, float | None]], at: datetime
) -> None:
    """Makes calls of a message wait, each with its timeout in seconds, None for none."""
    connection.execute(
        insert(client_calls),
        [
            {
                "session_id": session_id,
                "call_id": call_id,
                "message_id": message_id,
                "requested_at": at,
                "expires_at": None if timeout_s is None else at + timedelta(seconds=timeout_s),
            }
            for call_id, timeout_s in calls
        ],
    )


def get(connection: Connection, session_id: str, call_id: str) -> Row[Any] | None:
    query = select(client_calls).where(client_calls.c.session_id == session_id, client_calls.c.call_id == call_id)
    return connection.execute(query).first()


def open_ones(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """Waiting calls, each with its call's `body` and `status`, in the model's order."""
    return connection.execute(_OPEN, {"sid": session_id}).all()


def count_open(connection: Connection, session_id: str) -> int:
    query = select(func.count()).select_from(client_calls)
    query = query.where(client_calls.c.session_id == session_id, client_calls.c.ended_by.is_(None))
    return connection.execute(query).scalar_one()


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
