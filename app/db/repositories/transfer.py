"""Bulk operations on histories: many rows in one statement, while a run writes them one by one."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, insert, select

from app.db.models import message_parts, messages
from app.db.repositories.parts import part_row
from app.messages import Message, Role


def add_all(connection: Connection, session_id: str, added: Sequence[Message]) -> None:
    """Adds messages with their parts, all closed."""
    rows = [{"session_id": session_id, **message.model_dump(exclude={"parts"})} for message in added]
    parts = [
        part_row(session_id, message.id, part, closed=True, output_ref=None)
        for message in added
        for part in message.parts
    ]
    if rows:
        connection.execute(insert(messages), rows)
    if parts:
        connection.execute(insert(message_parts), parts)


def last_answer(connection: Connection, session_id: str, before: int) -> int | None:
    """The seq of the last assistant message before another seq that is not void, None without one."""
    query = select(func.max(messages.c.seq)).where(
        messages.c.session_id == session_id,
        messages.c.seq < before,
        messages.c.role == Role.ASSISTANT,
        messages.c.voided_at.is_(None),
    )
    return connection.execute(query).scalar()
