"""The transactions of compaction: how a round is requested, begins, ends and is reverted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.changes import ModelUsed, OutputsPruned, RoundCompleted, RoundEnded, RoundOpening, RungFailed
from app.context.checkpoints import Checkpoint, InForce
from app.context.policies import CompactionSettings
from app.db.dialects import lock_session
from app.db.repositories import compactions, messages, sessions
from app.errors import ConflictError, NotFoundError
from app.eventlog.log import Appender, StreamItem
from app.events import (
    CompactionCancelled,
    CompactionCompleted,
    CompactionDiscarded,
    CompactionFailed,
    CompactionReverted,
    CompactionStarted,
    MessageCreated,
    PruneCompleted,
)
from app.messages import Usage
from app.runtime.transactions.steps import add_to_session, note_owners_size, note_size
from app.sessions import CompactionEvent, ContextState, Status


def open_round(
    connection: Connection, session_id: str, epoch: int, opening: RoundOpening
) -> tuple[int, list[StreamItem]]:
    """Starts an automatic round; returns its number."""
    appender = Appender(connection, session_id, epoch=epoch)
    number = _open(connection, appender, opening)
    return number, appender.flush()


def _open(
    connection: Connection,
    appender: Appender,
    opening: RoundOpening,
    instructions: str | None = None,
    settings: dict[str, Any] | None = None,
) -> int:
    columns = asdict(opening) | {"instructions": instructions, "settings": settings, "created_at": appender.at}
    del columns["limit"]  # only the event has it
    number = compactions.open_round(connection, appender.session_id, **columns)
    _note_progress(connection, appender.session_id)
    appender.emit(CompactionStarted, opening, round=number)
    return number


def _note_progress(connection: Connection, session_id: str) -> None:
    fields: dict[str, Any] = {"compaction_in_progress": compactions.is_running(connection, session_id)}
    if not fields["compaction_in_progress"] and sessions.row(connection, session_id).status == Status.IDLE:
        # A cancel of the round has had its effect.
        fields["cancel_requested"] = False
    sessions.change(connection, session_id, **fields)


def request(
    connection: Connection,
    session_id: str,
    opening: RoundOpening,
    settings: CompactionSettings,
    instructions: str | None,
) -> tuple[CompactionEvent, list[StreamItem]]:
    """Accepts a manual round. Raises `ConflictError` while another one is running."""
    row = sessions.row(connection, session_id)
    if compactions.is_running(connection, session_id):
        raise ConflictError("A compaction of this session is already running.", code="compaction_in_progress")
    if row.status == Status.IDLE:
        # A cancel of an earlier compaction.
        sessions.change(connection, session_id, cancel_requested=False)
    appender = Appender(connection, session_id)
    number = _open(connection, appender, opening, instructions, settings.model_dump())
    made = compactions.find(connection, session_id, number)
    assert made is not None
    return compactions.view(made), appender.flush()


def abandon(connection: Connection, session_id: str, epoch: int | None, *, manual_too: bool) -> list[StreamItem]:
    """Closes the running rounds of a previous owner; manual ones only if `manual_too`."""
    running = compactions.all_rounds(connection, session_id, status="running")
    closed = [row.round for row in running if manual_too or row.reason != "manual"]
    if not closed:
        return []
    appender = Appender(connection, session_id, epoch=epoch)
    for round in closed:
        end_round(connection, appender, RoundEnded(round, "cancelled"))
    return appender.flush()


def abandon_all(connection: Connection) -> None:
    """Closes all rounds that were running before a restart, including manual ones; called at the start, before there
    are any readers."""
    for session_id in sorted(compactions.sessions_with_running(connection)):
        lock_session(connection, session_id)
        abandon(connection, session_id, None, manual_too=True)


def requested(connection: Connection, session_id: str) -> Row[Any] | None:
    """The manual round that is requested but not made yet."""
    rows = compactions.all_rounds(connection, session_id, status="running")
    return next((row for row in rows if row.reason == "manual"), None)


def add_usage(connection: Connection, appender: Appender, change: ModelUsed) -> None:
    """Adds the usage of a round's model call to the session, the day, and the round, which may continue after a
    restart."""
    add_to_session(connection, appender, change.model, change.usage)
    row = compactions.find(connection, appender.session_id, change.round)
    assert row is not None
    usage = Usage(**row.usage) + change.usage
    compactions.change(connection, appender.session_id, change.round, usage=usage.model_dump())


def fail_rung(connection: Connection, appender: Appender, change: RungFailed) -> None:
    """Records that a rung failed; without a next one the round has failed. The error of a model's summary is kept also
    if the round does not fail: a session shows it."""
    error = {"code": change.code, "detail": change.detail}
    if change.next is not None and change.rung == "summary":
        compactions.change(connection, appender.session_id, change.round, error=error)
    if change.next is None:
        compactions.change(connection, appender.session_id, change.round, status="failed", error=error)
        _note_progress(connection, appender.session_id)
    appender.emit(CompactionFailed, change)


def complete_round(connection: Connection, appender: Appender, change: RoundCompleted) -> None:
    """Stores a summary with its checkpoint and marks."""
    session_id, at = appender.session_id, appender.at
    checkpoint = change.checkpoint
    summary = change.summary.model_copy(update={"seq": appender.next_seq, "created_at": at})
    messages.add(connection, session_id, summary)
    appender.emit(MessageCreated, message=summary)
    compactions.mark_pruned(connection, session_id, change.pruned, at)
    cover(connection, session_id, checkpoint, checkpoint.round)
    made = _completed(connection, session_id, change)
    stored = _stored(checkpoint) | {"counted": change.counted}
    compactions.complete_round(connection, session_id, made, stored, list(change.pruned))
    row = sessions.row(connection, session_id)
    sessions.change(connection, session_id, compaction_count=row.compaction_count + 1, compaction_last_at=at)
    _note_progress(connection, session_id)
    note_size(connection, session_id, change.tokens_after, counted=change.counted)
    is_summary = change.rung == "summary"
    appender.emit(CompactionCompleted, made, was_pruned=bool(change.pruned), was_summarized=is_summary)


def _completed(connection: Connection, session_id: str, change: RoundCompleted) -> CompactionEvent:
    row = compactions.find(connection, session_id, change.checkpoint.round)
    assert row is not None
    made = {
        "status": "completed",
        "rung": change.rung,
        "first_message_id": change.first_message_id,
        "last_message_id": change.last_message_id,
        "messages_compacted": change.messages_compacted,
        "outputs_pruned": len(change.pruned),
        "tokens_before": change.tokens_before,
        "tokens_after": change.tokens_after,
        "summary": change.prose,
        "duration_ms": change.duration_ms,
    }
    return compactions.view(row).model_copy(update=made)


def end_round(connection: Connection, appender: Appender, change: RoundEnded) -> None:
    """Closes a round that was cancelled or discarded."""
    session_id = appender.session_id
    compactions.change(connection, session_id, change.round, status=change.status)
    _note_progress(connection, session_id)
    row = compactions.find(connection, session_id, change.round)
    assert row is not None
    event = CompactionDiscarded if change.status == "discarded" else CompactionCancelled
    appender.emit(event, row)


def in_force(connection: Connection, session_id: str) -> InForce:
    """What determines the session's context now."""
    pruned = compactions.pruned_calls(connection, session_id)
    return InForce(tuple(checkpoints(connection, session_id)), pruned)


def checkpoints(connection: Connection, session_id: str, rounds: Collection[int] | None = None) -> list[Checkpoint]:
    """The checkpoints in force, or those of the named rounds, whether in force or not; in the order of creation."""
    found = compactions.checkpoints(connection, session_id, rounds)
    return [
        Checkpoint(
            round=round,
            summary_message_id=stored["summary_message_id"],
            first_seq=stored["first_seq"],
            last_seq=stored["last_seq"],
            kept=tuple(stored["kept"]),
            clips=tuple((part_id, chars) for part_id, chars in stored["clips"]),
        )
        for round, stored in found
    ]


def _stored(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "summary_message_id": checkpoint.summary_message_id,
        "first_seq": checkpoint.first_seq,
        "last_seq": checkpoint.last_seq,
        "kept": list(checkpoint.kept),
        "clips": [list(clip) for clip in checkpoint.clips],
    }


def cover(connection: Connection, session_id: str, checkpoint: Checkpoint, round: int | None) -> None:
    """Sets the round that covers the messages of a checkpoint."""
    compactions.cover(connection, session_id, checkpoint.first_seq, checkpoint.last_seq, checkpoint.kept, round)


def prune(connection: Connection, appender: Appender, change: OutputsPruned) -> None:
    """Marks outputs as cleared."""
    compactions.mark_pruned(connection, appender.session_id, change.call_ids, appender.at)
    compactions.mark_images(connection, appender.session_id, change.image_ids, appender.at)
    if not change.with_round:
        note_owners_size(connection, appender.session_id, change.tokens_after)
    appender.emit(
        PruneCompleted,
        change,
        outputs_pruned=len(change.call_ids),
        tokens_saved=max(0, change.tokens_before - change.tokens_after),
        image_ids=change.image_ids or None,
    )


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
    compactions.change(connection, session_id, round, status="reverted")
    compactions.mark_pruned(connection, session_id, row.pruned or (), None)
    note_size(connection, session_id, size + row.tokens_before - row.tokens_after)
    for checkpoint in checkpoints(connection, session_id, [round]):
        cover(connection, session_id, checkpoint, None)
    for checkpoint in checkpoints(connection, session_id):
        cover(connection, session_id, checkpoint, checkpoint.round)
    appender.emit(CompactionReverted, round=round)
    return None, appender.flush()


def revert_own(connection: Connection, session_id: str, round: int) -> tuple[None, list[StreamItem]]:
    """Reverts a round that its owner made for nothing, unless a user was first."""
    try:
        return revert(connection, session_id, round)
    except ConflictError:
        return None, []
