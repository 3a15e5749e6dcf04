"""Reads a stored history for a run: the messages that can be in its context, and the rest if a round needs it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from app.agent.record import Outline, Past
from app.context.checkpoints import Checkpoint, InForce, gaps, not_taken_up
from app.context.content import ReasoningRule, sendable
from app.context.turns import is_request
from app.db.repositories import messages, parts, queue
from app.messages import Message
from app.runtime import compactions as rounds

RECENT = 50
"""Messages at the end of a history that are read even if a summary covers them: the loop guard looks at the steps since
the user's last message, 18 with its defaults, however they are shown."""

PAGE = 500
"""Messages read at a time when all are read, to bound memory."""


def read_shown(
    connection: Connection,
    session_id: str,
    checkpoints: Sequence[Checkpoint],
    task_id: str | None,
    *,
    recent: int = RECENT,
) -> list[Message]:
    """The messages that contexts with these and later checkpoints can contain, and the newest, in order; what a summary
    replaces is not read. `checkpoints` are in the order of creation, and `task_id` is the message with the session's
    task.

    They are: messages outside the ranges in force; kept or partly shown ones inside them; the summaries; and the user's
    first and last messages, one of which a later round may keep.
    """
    if not checkpoints:
        return messages.history(connection, session_id)
    applied = not_taken_up(checkpoints)
    end = messages.newest_seq(connection, session_id, recent)
    ranges = [(c.first_seq, min(c.last_seq, end - 1)) for c in applied if c.first_seq < end]
    found = {
        message.id: message
        for after, before in gaps(ranges)
        for message in messages.history(connection, session_id, after=after, before=before)
    }
    wanted = {c.summary_message_id for c in applied}.union(*(c.kept for c in applied))
    clipped = {part_id for c in applied for part_id, _ in c.clips}
    if clipped:
        wanted |= parts.messages_with(connection, session_id, clipped)
    if task_id is not None:
        wanted.add(task_id)
    named = messages.named(connection, session_id, wanted - found.keys())
    found |= {message.id: message for message in (*named, *_ends_of_requests(connection, session_id))}
    return sorted(found.values(), key=lambda message: message.seq)


def _ends_of_requests(connection: Connection, session_id: str) -> list[Message]:
    """The user's first message and the last."""
    both = (messages.requests(connection, session_id, newest_first=newest_first) for newest_first in (False, True))
    return [message for found in both if (message := next(filter(_may_stay, found), None)) is not None]


def _may_stay(message: Message) -> bool:
    return is_request(message) and sendable(message, ReasoningRule("")) is not None


def in_force_of(history: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> InForce:
    """What is in force according to these checkpoints and the marks on the messages read."""
    results = (result for message in history for result in message.tool_results)
    return InForce(tuple(checkpoints), frozenset(r.call_id for r in results if r.compacted_at is not None))


def read_again(connection: Connection, session_id: str) -> tuple[InForce, list[Message]]:
    """What is in force now, and the messages of that context; called after a revert."""
    checkpoints = rounds.checkpoints(connection, session_id)
    found = read_shown(connection, session_id, checkpoints, queue.first_id(connection, session_id))
    return in_force_of(found, checkpoints), found


def read_outline(connection: Connection, session_id: str) -> Outline:
    """What is known of a history without reading its messages."""
    return Outline(messages.first_id(connection, session_id), messages.writers(connection, session_id))


def read_past(connection: Connection, session_id: str, last_seq: int) -> Past:
    """What only rounds need to know of the messages up to and including a seq; reads them all."""
    past = Past()
    after = 0
    while page := messages.history(connection, session_id, after=after, before=last_seq + 1, limit=PAGE):
        past.take(page)
        after = page[-1].seq
    return past
