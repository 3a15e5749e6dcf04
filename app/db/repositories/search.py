"""Full-text search over a session's own history. Messages are indexed by the first search that needs them, so steps
write nothing for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select

from app.db.fulltext import Found, fulltext
from app.db.models import IN_MESSAGE, message_parts, messages, search_entries
from app.db.repositories.messages import history
from app.messages import Message, ToolCallPart

MESSAGES_PER_WRITE = 100
"""Messages that one write indexes, about 20 ms of the writer's time; a long history takes several."""

MAX_TERMS = 20
UNSEARCHED_TOOLS = frozenset({"history_search"})
"""Its queries and findings repeat other text, and would rank before it."""

_TERM = re.compile(r'"([^"]*)"|([^\s"]+)')


class Entry(NamedTuple):
    """A separately searchable text of a message."""

    call_id: str | None
    text: str


# Indexing


def seq_of_call(connection: Connection, session_id: str, call_id: str) -> int:
    """The seq of the message that holds a call; 0 without one."""
    part = message_parts.c
    query = select(messages.c.seq).join(message_parts, IN_MESSAGE)
    query = query.where(part.session_id == session_id, part.call_id == call_id, part.type == "tool_call")
    return connection.execute(query).scalar() or 0


def index(connection: Connection, session_id: str, *, before: int, after: int = 0) -> int | None:
    """Indexes the oldest messages between two seqs that are not indexed yet; they must be complete. Returns the seq of
    the last one, to continue after it, or None if nothing is left."""
    last = select(func.max(search_entries.c.seq)).where(search_entries.c.session_id == session_id)
    after = max(after, connection.execute(last).scalar() or 0)
    found = history(connection, session_id, after=after, before=before, limit=MESSAGES_PER_WRITE)
    for message in found:
        if message.voided_at is None:
            _add(connection, session_id, message)
    return found[-1].seq if len(found) == MESSAGES_PER_WRITE else None


def _add(connection: Connection, session_id: str, message: Message) -> None:
    row = {
        "session_id": session_id,
        "seq": message.seq,
        "message_id": message.id,
        "role": "summary" if message.is_summary else str(message.role),
    }
    for entry in entries(message):
        new = insert(search_entries).values(**row, call_id=entry.call_id).returning(search_entries.c.id)
        fulltext(connection).add(connection, session_id, connection.execute(new).scalar_one(), entry.text)


def entries(message: Message) -> Iterator[Entry]:
    """The searchable texts of a message: its text, its calls, its results; no reasoning."""
    if message.text.strip():
        yield Entry(None, message.text)
    for call in message.tool_calls:
        if call.name not in UNSEARCHED_TOOLS:
            yield Entry(call.call_id, _call_text(call))
    for result in message.tool_results:
        if result.name not in UNSEARCHED_TOOLS and result.output.strip():
            yield Entry(result.call_id, result.output)


def _call_text(call: ToolCallPart) -> str:
    """A call's name and the values in its arguments, without JSON escapes, which would merge with the words."""
    return "\n".join([call.name, *_values(call.arguments)])


def _values(value: Any) -> Iterator[str]:
    inner: Iterable[Any]
    match value:
        case dict():
            inner = value.values()
        case list():
            inner = value
        case None | bool():
            return
        case _:
            yield str(value)
            return
    for item in inner:
        yield from _values(item)


# Searching


def find(connection: Connection, session_id: str, query: str, limit: int, *, before: int) -> list[Found]:
    """Places older than `before` that match a query, best first: all its words; if no place has all, any of them; if
    none has any, the query as a substring, as in other words or scripts without spaces."""
    terms, texts = query_terms(query), fulltext(connection)
    for needs_all in (True, False):
        if found := texts.matching(connection, session_id, terms, limit, before=before, needs_all=needs_all):
            return found
    return texts.containing(connection, session_id, terms, limit, before=before)


def query_terms(query: str) -> list[str]:
    """The words and quoted phrases of a query, without repeats."""
    found = (phrase.strip() or word for phrase, word in _TERM.findall(query))
    return list(dict.fromkeys(term for term in found if term))[:MAX_TERMS] or [query]
