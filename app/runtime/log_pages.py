"""Pages of a session's log as data: optionally only of some types, and from either end."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from app.db.repositories import events, sessions
from app.runtime.values.events import LogPage, StreamItem

MAX_BYTES = 512 * 1024
"""Bytes of events after which a page is full: it stays in memory until it is sent."""

SCANNED = 50_000
"""Maximum events scanned for a page of some types, which takes 50 ms of a reading thread's time."""


def log_page(
    connection: Connection,
    session_id: str,
    *,
    after: int | None,
    limit: int,
    types: Collection[str] = (),
    newest_first: bool = False,
) -> LogPage:
    """Events after a seq in the order of reading, only of `types`, if any are given. Raises `NotFoundError`."""
    last_seq = sessions.row(connection, session_id).last_seq
    if newest_first:
        last = last_seq if after is None else min(after - 1, last_seq)
        first = max(last - SCANNED + 1, 1)
    else:
        first = (after or 0) + 1
        last = min(first + SCANNED - 1, last_seq)
    items, size = [], 0
    # How far the log was read, with or without results.
    reached = first if newest_first else last
    for event in events.between(connection, session_id, first, last, types, newest_first=newest_first):
        data = event.data.encode()
        items.append(StreamItem(event.type, event.seq, data))
        size += len(data)
        if len(items) == limit or size >= MAX_BYTES:
            reached = event.seq
            break
    at_end = reached <= 1 if newest_first else reached >= last_seq
    return LogPage(tuple(items), last_seq, None if at_end else str(reached))
