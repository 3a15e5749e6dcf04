"""Searches of a session's history, which first index the messages since the last search."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from app.db.engine import Database
from app.db.ranking import highlights
from app.db.repositories import search, sessions
from app.db.repositories.search import PASSAGES_PER_WRITE, Found, Unindexed
from app.runtime.values.history import SearchHit, SearchResult
from app.sessions import Status

SNIPPET_CHARS = 240
"""Characters of a place that a reader gets: about three lines."""


async def search_history(
    database: Database,
    session_id: str,
    end: Callable[[Connection], int],
    find: Callable[[Connection, int], list[Found]],
) -> list[Found]:
    """What `find` returns for the seq of `end`, up to which all messages are complete. What is not indexed yet is
    indexed in short writes, so that no other session waits long for the writer."""
    done = 0

    def look(connection: Connection) -> list[Found] | Unindexed:
        before = end(connection)
        return search.unindexed(connection, session_id, before=before, after=done) or find(connection, before)

    while isinstance(found := await database.read(look), Unindexed):
        await _index(database, session_id, found)
        done = found.last
    return found


async def _index(database: Database, session_id: str, found: Unindexed) -> None:
    """Adds the passages to the index that no other search of the session adds at the same time."""
    start, position = 0, found.after
    while start < len(found.passages):
        next_ones = found.passages[start : start + PASSAGES_PER_WRITE]
        add = partial(search.add, session_id=session_id, found=next_ones, after=position)
        position = await database.writer.write(add, session_id=session_id)
        start = bisect_right(found.passages, position, key=lambda located: located.end)


async def search_messages(database: Database, session_id: str, query: str, limit: int) -> SearchResult:
    """The best places of a history. Raises `NotFoundError`."""

    def end(connection: Connection) -> int:
        is_idle = sessions.row(connection, session_id).status == Status.IDLE
        return search.end_of_complete(connection, session_id, is_idle=is_idle)

    def find(connection: Connection, before: int) -> list[Found]:
        return search.find(connection, session_id, query, limit, before=before, chars=SNIPPET_CHARS)

    found = await search_history(database, session_id, end, find)
    return SearchResult(items=tuple(SearchHit.of(place, ranges=highlights(query, place.snippet)) for place in found))
