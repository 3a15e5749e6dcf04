"""The transaction that makes a server the owner of a session."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from app.db.repositories import client_calls, sessions
from app.db.repositories.ownership import is_barred
from app.errors import StaleOwnerError
from app.eventlog.log import StreamItem
from app.messages import now
from app.runtime.transactions import compactions
from app.sessions import SessionKind, Status


def claim(
    connection: Connection, session_id: str, node: str | None = None, after: int | None = None
) -> tuple[Row[Any] | None, list[StreamItem]]:
    """Takes a session over from its previous owner, and closes its running automatic rounds; returns the new row, None
    if the session is gone, or barred in a cluster. `node` is this server's in a cluster. Raises `StaleOwnerError` if
    the session was claimed since its epoch was `after`."""
    if node is not None:
        found = sessions.find(connection, session_id)
        if found is None or is_barred(found, now()):
            return None, []
        if after is not None and found.epoch != after:
            raise StaleOwnerError(f"Another owner has already claimed session {session_id}.")
    row = sessions.claim(connection, session_id, node)
    items = [] if row is None else compactions.abandon(connection, session_id, row.epoch, manual_too=False)
    is_changed = row is not None and _cancel_unwanted(connection, row)
    return (sessions.row(connection, session_id) if items or is_changed else row), items


def _cancel_unwanted(connection: Connection, row: Row[Any]) -> bool:
    """Cancels the run of a sub-agent whose call no longer waits for it: a server may crash between the two."""
    if row.kind != SessionKind.SUBAGENT or row.status == Status.IDLE:
        return False
    if client_calls.is_awaited(connection, row.parent_id, row.id):
        return False
    sessions.change(connection, row.id, cancel_requested=True)
    return True
