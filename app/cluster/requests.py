"""What others have asked of a session's owner, as its row and its other tables say: the owner acts on it once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from app.db.repositories import compactions as rounds
from app.db.repositories import queue, sessions
from app.runtime.owner.session import SessionOwner
from app.runtime.transactions import compactions
from app.sessions import QueueMode


@dataclass(frozen=True, slots=True)
class Look:
    """A session as others have left it: its row, pending messages that interrupt, the manual compaction that is
    requested or being made, and all that were reverted."""

    row: Row[Any]
    interrupting: tuple[str, ...]
    requested: int | None
    reverted: frozenset[int]


def look(connection: Connection, session_id: str) -> Look | None:
    """None for a session that is gone."""
    row = sessions.find(connection, session_id)
    if row is None:
        return None
    requested = compactions.requested(connection, session_id) if row.compaction_in_progress else None
    return Look(
        row,
        tuple(each.id for each in queue.pending(connection, session_id) if each.mode == QueueMode.INTERRUPT),
        None if requested is None else requested.round,
        frozenset(each.round for each in rounds.all_rounds(connection, session_id, status="reverted")),
    )


class Requests:
    """What one owner has acted on."""

    def __init__(self, owner: SessionOwner) -> None:
        self._owner = owner
        self._asked: int | None = None
        self._knows_asked = not owner.claimed.compaction_in_progress
        self._reverted: frozenset[int] | None = None

    def answer(self, found: Look) -> None:
        """Has the owner act on what is new. It reads messages and decisions itself, from the database."""
        owner = self._owner
        same_run = found.row.run_started_at == owner.run_started_at
        owner.reconfigure(found.row)
        owner.ring()
        owner.take_decision()
        owner.take_secrets()
        self._answer_rounds(found)
        if not same_run:
            # The owner is between two runs and will read the row itself.
            return
        for message_id in found.interrupting:
            owner.interrupt("interrupt", message_id)
        if found.row.cancel_requested:
            owner.interrupt("cancel")

    def _answer_rounds(self, found: Look) -> None:
        if self._reverted is None or found.reverted - self._reverted:
            # The first time, one may have been reverted since the owner has read the conversation.
            owner_may_lack = bool(found.reverted)
            self._reverted = found.reverted
            if owner_may_lack:
                self._owner.take_revert()
        if found.requested is not None and found.requested != self._asked:
            if self._knows_asked:
                self._owner.ask_round()
            self._asked = found.requested
        self._knows_asked = True
