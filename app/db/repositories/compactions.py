"""Rounds of compaction, the checkpoints that shape a context, and the marks on cleared outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, insert, or_, select, update

from app.db.models import compaction_events, generations, message_parts, messages
from app.db.prepared import Prepared
from app.messages import Usage
from app.sessions import CompactionEvent, WithoutModel

_C = compaction_events.c
_OURS = _C.session_id == bindparam("sid")
_IN_FORCE = Prepared(select(_C.round, _C.checkpoint).where(_OURS, _C.checkpoint.is_not(None), _C.status == "completed"))
_WITHOUT_MODEL = Prepared(
    select(_C.round, _C.rung, _C.error).where(
        _OURS, _C.checkpoint.is_not(None), _C.status == "completed", or_(_C.rung == "fold", _C.rung == "shrink")
    )
)
_REVERTED = Prepared(select(_C.round, _C.tokens_before, _C.tokens_after).where(_OURS, _C.status == "reverted"))
_LAST_COMPLETED = select(func.coalesce(func.max(_C.round), 0)).where(_OURS, _C.status == "completed")
_UNUSED = Prepared(
    select(_C.tokens_before)
    .where(_OURS, _C.background, _C.status != "running", _C.round > _LAST_COMPLETED.scalar_subquery())
    .order_by(_C.round.desc())
    .limit(1)
)
_CLEARED = Prepared(
    select(generations.c.pruned, generations.c.restored)
    .where(generations.c.session_id == bindparam("sid"), generations.c.number <= bindparam("newest"))
    .order_by(generations.c.number)
)


def _of(session_id: str) -> ColumnElement[bool]:
    return _C.session_id == session_id


def open_round(connection: Connection, session_id: str, **columns: Any) -> int:
    """Adds a running round with the next number; numbers are never reused."""
    newest = select(func.max(_C.round)).where(_of(session_id))
    number = (connection.execute(newest).scalar() or 0) + 1
    row = {"session_id": session_id, "round": number, "status": "running", "usage": Usage().model_dump()}
    connection.execute(insert(compaction_events), {**row, **columns})
    return number


def complete_round(
    connection: Connection, session_id: str, made: CompactionEvent, checkpoint: dict[str, Any], pruned: list[str]
) -> None:
    """Stores a completed round, with what shapes the context from now on."""
    fields = made.model_dump(exclude={"round", "created_at", "error", "usage"})
    change(connection, session_id, made.round, **fields, checkpoint=checkpoint, pruned=pruned, background=False)


def change(connection: Connection, session_id: str, round: int, **fields: Any) -> None:
    connection.execute(update(compaction_events).where(_of(session_id), _C.round == round).values(**fields))


def find(connection: Connection, session_id: str, round: int) -> Row[Any] | None:
    return connection.execute(select(compaction_events).where(_of(session_id), _C.round == round)).first()


def all_rounds(connection: Connection, session_id: str, *, status: str | None = None) -> Sequence[Row[Any]]:
    """The rounds of a session, or only those with a status, oldest first."""
    query = select(compaction_events).where(_of(session_id))
    if status is not None:
        query = query.where(_C.status == status)
    return connection.execute(query.order_by(_C.round)).all()


def sessions_with_running(connection: Connection) -> Sequence[str]:
    """The sessions with a running round."""
    query = select(_C.session_id).where(_C.status == "running").distinct()
    return connection.execute(query).scalars().all()


def is_running(connection: Connection, session_id: str) -> bool:
    """Whether a round other than a background one is running."""
    query = select(_C.round).where(_of(session_id), _C.status == "running", _C.background.is_(False))
    return connection.execute(query.limit(1)).first() is not None


def saved_by_reverted(connection: Connection, session_id: str) -> Mapping[int, int]:
    """The reverted rounds, each with the tokens that it had saved."""
    rows = _REVERTED.all(connection, {"sid": session_id})
    return {row.round: row.tokens_before - row.tokens_after for row in rows}


def unused_round_tokens(connection: Connection, session_id: str) -> int:
    """The context's tokens when the last background round since the last completed one started; 0 without one."""
    return int(_UNUSED.value(connection, {"sid": session_id}) or 0)


def view(row: Row[Any]) -> CompactionEvent:
    """A round as the API shows it."""
    return CompactionEvent.of(
        row,
        # Without a checkpoint no smaller context was measured, and the column has its default.
        tokens_after=row.tokens_after if row.checkpoint is not None else None,
        duration_ms=row.duration_ms or 0,
        # One that did not fail may have the error of its model.
        error=row.error if row.status == "failed" else None,
    )


def without_model(connection: Connection, session_id: str) -> WithoutModel | None:
    """The latest round in force if its summary was made without a model. Usually no round was, and this is one read of
    the session's few rounds."""
    rows = {row.round: row for row in _WITHOUT_MODEL.all(connection, {"sid": session_id})}
    latest = rows.get(checkpoints(connection, session_id)[-1][0]) if rows else None
    return None if latest is None else WithoutModel(round=latest.round, rung=latest.rung, **(latest.error or {}))


def checkpoints(
    connection: Connection, session_id: str, rounds: Collection[int] | None = None
) -> list[tuple[int, dict[str, Any]]]:
    """Number and checkpoint of the rounds in force, or of the named ones, whether in force or not; in the order of
    their summaries."""
    rows: Iterable[Row[Any]]
    if rounds is None:
        rows = _IN_FORCE.all(connection, {"sid": session_id})
    else:
        query = select(_C.round, _C.checkpoint).where(_OURS, _C.checkpoint.is_not(None), _C.round.in_(rounds))
        rows = connection.execute(query, {"sid": session_id})
    found = [(row.round, row.checkpoint) for row in rows]
    if len(found) < 2:
        return found
    made = _seqs(connection, session_id, [checkpoint["summary_message_id"] for _, checkpoint in found])
    return sorted(found, key=lambda stored: made[stored[1]["summary_message_id"]])


@dataclass(frozen=True, slots=True)
class Counted:
    """A context counted by its provider when a round completed: everything up to and including the summary's seq."""

    tokens: int
    summary_seq: int


def counted(connection: Connection, session_id: str, round: int) -> Counted | None:
    """The provider's count of the context after a round; None if it did not count it."""
    row = find(connection, session_id, round)
    if row is None or row.checkpoint is None or not row.checkpoint.get("counted"):
        return None
    summary_id = row.checkpoint["summary_message_id"]
    return Counted(row.tokens_after, _seqs(connection, session_id, [summary_id])[summary_id])


def _seqs(connection: Connection, session_id: str, message_ids: Collection[str]) -> dict[str, int]:
    query = select(messages.c.id, messages.c.seq).where(
        messages.c.session_id == session_id, messages.c.id.in_(message_ids)
    )
    return {row.id: row.seq for row in connection.execute(query)}


def mark_pruned(connection: Connection, session_id: str, call_ids: Collection[str], at: datetime | None) -> None:
    """Marks the results of calls as cleared from the context; None removes the marks."""
    part = message_parts.c
    for some in batched(call_ids):
        results = (part.session_id == session_id, part.type == "tool_result", part.call_id.in_(some))
        connection.execute(update(message_parts).where(*results).values(compacted_at=at))


def mark_images(connection: Connection, session_id: str, part_ids: Collection[str], at: datetime) -> None:
    """Marks images as cleared from the context."""
    part = message_parts.c
    for some in batched(part_ids):
        found = (part.session_id == session_id, part.type == "image", part.id.in_(some))
        connection.execute(update(message_parts).where(*found).values(compacted_at=at))


def batched(ids: Collection[str]) -> Iterator[list[str]]:
    """As many ids as a statement takes."""
    left = list(ids)
    return (left[start : start + 500] for start in range(0, len(left), 500))


def pruned_calls(connection: Connection, session_id: str) -> frozenset[str]:
    """The calls whose results are currently cleared."""
    query = select(message_parts.c.call_id).where(
        message_parts.c.session_id == session_id,
        message_parts.c.type == "tool_result",
        message_parts.c.compacted_at.is_not(None),
    )
    return frozenset(call_id for call_id in connection.execute(query).scalars() if call_id is not None)


def pruned_in(connection: Connection, session_id: str, generation: int) -> frozenset[str]:
    """The calls whose results were cleared in a generation."""
    cleared: set[str] = set()
    for row in _CLEARED.all(connection, {"sid": session_id, "newest": generation}):
        cleared.update(row.pruned or ())
        cleared.difference_update(row.restored or ())
    return frozenset(cleared)


def cover(
    connection: Connection, session_id: str, first_seq: int, last_seq: int, kept: Collection[str], round: int | None
) -> None:
    """Sets the round that covers the messages of a range, except those kept."""
    connection.execute(
        update(messages)
        .where(
            messages.c.session_id == session_id,
            messages.c.seq.between(first_seq, last_seq),
            messages.c.id.not_in(kept),
        )
        .values(round=round)
    )
