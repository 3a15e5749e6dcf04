"""Full-text search over a session's own history, by passages. Messages are indexed by the first search that needs them,
so steps write nothing for it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select

from app.db.fulltext import NewPassage, Wanted, fulltext
from app.db.models import IN_MESSAGE, message_parts, messages, search_entries
from app.db.ranking import Query, best, one_each, pairs, passages, shown, terms_of
from app.db.repositories.messages import history
from app.messages import ImagePart, Message, Role, ToolCallPart

MESSAGES_PER_WRITE = 100
CHARS_PER_WRITE = 200_000
"""Messages and characters that one write indexes, at most about 50 ms of the writer's time; a long history takes
several."""

MOST = 300
"""Passages of a term that are looked at, the newest: one that more have says little."""
CANDIDATES = 40
"""Passages that are read and compared."""
SPOKEN_WEIGHT = 1.3

ABOUT_CHARS = 300
"""Characters of a call, and of what was said with it, by which its result is found."""

SPOKEN = frozenset({Role.USER, Role.ASSISTANT})
UNSEARCHED_TOOLS = frozenset({"history_search"})
"""Its queries and findings repeat other text, and would rank before it."""


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


def end_of_complete(connection: Connection, session_id: str, *, is_idle: bool) -> int:
    """The seq up to which all messages are complete: the end of an idle session, else its newest answer, which may not
    be complete yet."""
    seqs = select(func.max(messages.c.seq)).where(messages.c.session_id == session_id)
    if is_idle:
        return (connection.execute(seqs).scalar() or 0) + 1
    return connection.execute(seqs.where(messages.c.role == Role.ASSISTANT)).scalar() or 0


def is_indexed(connection: Connection, session_id: str, *, before: int) -> bool:
    """Whether all messages before a seq are indexed, as far as can be told without reading them: after a message
    without searchable text, it cannot."""
    last = select(func.max(search_entries.c.seq)).where(search_entries.c.session_id == session_id)
    newest = select(func.max(messages.c.seq)).where(messages.c.session_id == session_id, messages.c.seq < before)
    row = connection.execute(select(last.scalar_subquery(), newest.scalar_subquery())).one()
    return (row[0] or 0) >= (row[1] or 0)


def index(connection: Connection, session_id: str, *, before: int, after: int = 0) -> int | None:
    """Indexes the oldest messages between two seqs that are not indexed yet; they must be complete. Returns the seq of
    the last one, to continue after it, or None if nothing is left."""
    last = select(func.max(search_entries.c.seq)).where(search_entries.c.session_id == session_id)
    after = max(after, connection.execute(last).scalar() or 0)
    found = history(connection, session_id, after=after, before=before, limit=MESSAGES_PER_WRITE)
    more = len(found) == MESSAGES_PER_WRITE
    short = _short_enough(found)
    found, more = found[:short], more or short < len(found)
    if more and len(found) > 1 and found[-1].tool_calls:
        # Its results follow, and are found by its words.
        found = found[:-1]
    calls: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    made: list[NewPassage] = []
    for message in found:
        if message.voided_at is None:
            said = message.text[:ABOUT_CHARS]
            calls.update((call.call_id, f"{said}\n{_call_text(call)[:ABOUT_CHARS]}") for call in message.tool_calls)
            for call_id, passage in _passages(message, calls):
                rows.append({**_row(session_id, message), "call_id": call_id})
                made.append(passage)
    if rows:
        new = insert(search_entries).returning(search_entries.c.id, sort_by_parameter_order=True)
        ids = connection.execute(new, rows).scalars()
        fulltext(connection).add(connection, session_id, dict(zip(ids, made, strict=True)))
    return found[-1].seq if more else None


def _short_enough(found: Sequence[Message]) -> int:
    """How many of the first messages one write indexes."""
    chars = 0
    for number, message in enumerate(found):
        chars += sum(len(entry.text) for entry in entries(message))
        if chars > CHARS_PER_WRITE and number:
            return number
    return len(found)


def _row(session_id: str, message: Message) -> dict[str, Any]:
    role = "summary" if message.is_summary else str(message.role)
    return {"session_id": session_id, "seq": message.seq, "message_id": message.id, "role": role}


def _passages(message: Message, calls: Mapping[str, str]) -> Iterator[tuple[str | None, NewPassage]]:
    """The passages of a message with their calls."""
    for entry in entries(message):
        spoken = entry.call_id is None and message.role in SPOKEN and not message.is_summary
        about = calls.get(entry.call_id, "") if entry.call_id else ""
        for text in filter(str.strip, passages(entry.text)):
            yield entry.call_id, NewPassage(text, " ".join([about, *pairs(text)]), spoken)


def entries(message: Message) -> Iterator[Entry]:
    """The searchable texts of a message: its text with the names of its images, its calls, its results; no
    reasoning."""
    names = [f"image {part.path or part.media_type}" for part in message.parts if isinstance(part, ImagePart)]
    if (text := "\n".join([message.text, *names])).strip():
        yield Entry(None, text)
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


class Found(NamedTuple):
    """A place in the history; `role` is the message's, or `summary`."""

    message_id: str
    seq: int
    role: str
    call_id: str | None
    snippet: str


def find(
    connection: Connection, session_id: str, query: str, limit: int, *, before: int, chars: int | None = None
) -> list[Found]:
    """At most `limit` places older than `before` that match a query, best first, with snippets of `chars` characters or
    as short as a model needs them. Without any place that has one of its words, those that have the query as a
    substring, as in scripts without spaces."""
    terms, texts = terms_of(query), fulltext(connection)
    wanted = [Wanted((term.text,), MOST, spoken) for spoken in (True, False) for term in terms]
    hits = texts.matching(connection, session_id, wanted)
    spoken, by_anyone = hits[: len(terms)], hits[len(terms) :]
    together: set[int] = set()
    if len(terms) > 1 and all(len(found) == MOST for found in by_anyone):
        # All terms are common: places with all of them may be older than the newest of each.
        every = Wanted(tuple(term.text for term in terms), CANDIDATES)
        (together,) = texts.matching(connection, session_id, [every])
    of_term = [one | other | together for one, other in zip(spoken, by_anyone, strict=True)]
    asked = Query(terms, [len(found) for found in of_term])
    likely = _likely(asked, of_term, set().union(*spoken))
    read = texts.read(connection, session_id, likely, before=before)
    ranked = best(asked, [(passage, likely[passage.id]) for passage in read])
    if not ranked and query.strip():
        substrings = [term.text for term in terms] or [query.strip()]
        ranked = one_each(texts.containing(connection, session_id, substrings, CANDIDATES, before=before))
    return [Found(*passage[1:5], text) for passage, text in shown(asked, ranked, limit, chars)]


def _likely(query: Query, of_term: Sequence[set[int]], said: set[int]) -> dict[int, set[int]]:
    """The passages that are worth reading, with the numbers of their terms; `said` are those of user and agent."""
    masks: dict[int, int] = {}
    for number, ids in enumerate(of_term):
        for id in ids:
            masks[id] = masks.get(id, 0) | 1 << number
    terms = {mask: _numbers(mask) for mask in set(masks.values())}
    values = {mask: query.value(numbers) for mask, numbers in terms.items()}
    worth = {id: values[mask] * (SPOKEN_WEIGHT if id in said else 1.0) for id, mask in masks.items()}
    first = heapq.nlargest(CANDIDATES, worth.items(), key=lambda item: (item[1], item[0]))
    return {id: terms[masks[id]] for id, _ in first}


def _numbers(mask: int) -> set[int]:
    """The numbers of the bits that are set."""
    return {number for number in range(mask.bit_length()) if mask >> number & 1}
