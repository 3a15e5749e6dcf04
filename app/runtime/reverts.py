"""The transaction that reverts a round of compaction."""

from __future__ import annotations

from sqlalchemy import Connection

from app.db.repositories import compactions, sessions
from app.errors import ConflictError, NotFoundError
from app.eventlog.log import Appender, StreamItem
from app.events import CompactionReverted
from app.runtime.compactions import checkpoints, cover, in_force
from app.runtime.context_size import note_size
from app.sessions import ContextState


def revert(connection: Connection, session_id: str, round: int) -> tuple[None, list[StreamItem]]:
    """Reverts the latest round. Raises `NotFoundError` for an unknown round, and `ConflictError` for an earlier round,
    one that did not complete, and while another one is running."""
    size = ContextState(**sessions.row(connection, session_id).context).tokens
    row = compactions.find(connection, session_id, round)
    if row is None:
        raise NotFoundError(f"The session has no round {round}.", code="round_not_found")
    if compactions.is_running(connection, session_id):
        raise ConflictError("A compaction of this session is already running.", code="compaction_in_progress")
    # Not the one with the highest number: a manual round gets its number before it is made.
    latest_made = in_force(connection, session_id).latest
    if round != latest_made:
        latest = f"only round {latest_made} can be" if latest_made else "no round can be"
        raise ConflictError(f"Round {round} cannot be reverted; {latest}.", code="not_the_latest_round")
    appender = Appender(connection, session_id)
    seq = appender.take()
    compactions.change(connection, session_id, round, status="reverted")
    compactions.mark_pruned(connection, session_id, row.pruned or (), None)
    note_size(connection, session_id, size + row.tokens_before - row.tokens_after)
    for checkpoint in checkpoints(connection, session_id, [round]):
        cover(connection, session_id, checkpoint, None)
    for checkpoint in checkpoints(connection, session_id):
        cover(connection, session_id, checkpoint, checkpoint.round)
    appender.add(seq, CompactionReverted(session_id=session_id, at=appender.at, round=round))
    return None, appender.flush()
