"""Searches of a session's history, which first index the messages since the last search."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from app.db.engine import Database
from app.db.ranking import highlights
from app.db.repositories import search, sessions
from app.db.repositories.search import Found
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

    def look(connection: Connection) -> list[Found] | int:
        before = end(connection)
        return find(connection, before) if search.is_indexed(connection, session_id, before=before) else before

    found = await database.read(look)
    if not isinstance(found, int):
        return found
    before, done = found, 0

    def index(connection: Connection) -> int | None:
        return search.index(connection, session_id, before=before, after=done)

    while (last := await database.writer.write(index, session_id=session_id)) is not None:
        done = last
    return await database.read(lambda c: find(c, before))


async def search_messages(database: Database, session_id: str, query: str, limit: int) -> SearchResult:
    """The best places of a history. Raises `NotFoundError`."""

    def end(connection: Connection) -> int:
        is_idle = sessions.row(connection, session_id).status == Status.IDLE
        return search.end_of_complete(connection, session_id, is_idle=is_idle)

    def find(connection: Connection, before: int) -> list[Found]:
        return search.find(connection, session_id, query, limit, before=before, chars=SNIPPET_CHARS)

    found = await search_history(database, session_id, end, find)
    return SearchResult(items=tuple(SearchHit.of(place, ranges=highlights(query, place.snippet)) for place in found))
