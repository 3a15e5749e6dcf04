"""The background commands of sessions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from app.db.models import background_commands, message_parts

_ROW = background_commands.c


def add(connection: Connection, session_id: str, call_id: str, command: str, at: datetime) -> None:
    connection.execute(
        insert(background_commands).values(
            session_id=session_id, call_id=call_id, command=command, status="running", started_at=at
        )
    )


def get(connection: Connection, session_id: str, call_id: str) -> Row[Any] | None:
    query = select(background_commands).where(_ROW.session_id == session_id, _ROW.call_id == call_id)
    return connection.execute(query).first()


def newest(connection: Connection, session_id: str, limit: int) -> Sequence[Row[Any]]:
    """In the order in which they were started."""
    query = select(background_commands).where(_ROW.session_id == session_id)
    query = query.order_by(_ROW.started_at.desc(), _ROW.call_id.desc()).limit(limit)
    return connection.execute(query).all()[::-1]


def unreported(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """Those that run, or whose end the model does not know."""
    query = select(background_commands).where(_ROW.session_id == session_id, _ROW.is_told.is_(False))
    return connection.execute(query.order_by(_ROW.started_at, _ROW.call_id)).all()


def running(connection: Connection, session_id: str | None = None) -> Sequence[Row[Any]]:
    """Those of a session, or of all, that have not ended, as far as is stored."""
    query = select(background_commands).where(_ROW.ended_at.is_(None))
    if session_id is not None:
        query = query.where(_ROW.session_id == session_id)
    return connection.execute(query.order_by(_ROW.started_at)).all()


def change(connection: Connection, session_id: str, call_ids: Collection[str], **values: Any) -> None:
    where = (_ROW.session_id == session_id, _ROW.call_id.in_(call_ids))
    connection.execute(update(background_commands).where(*where).values(**values))


def asked_to_stop(connection: Connection, session_ids: Collection[str]) -> Sequence[Row[Any]]:
    """Those of these sessions that run, and that a request asks to stop."""
    query = select(background_commands).where(
        _ROW.session_id.in_(session_ids), _ROW.ended_at.is_(None), _ROW.stop_asked.is_(True)
    )
    return connection.execute(query).all()


def link_output(connection: Connection, session_id: str, call_id: str, ref: str) -> None:
    """Makes the output that of the call too, so that it is found, copied and removed like all raw outputs."""
    part = message_parts.c
    connection.execute(
        update(message_parts)
        .where(
            part.session_id == session_id,
            part.call_id == call_id,
            part.type == "tool_result",
            part.output_ref.is_(None),
        )
        .values(output_ref=ref)
    )
