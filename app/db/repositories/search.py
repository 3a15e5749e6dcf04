"""Full-text search over a session's own history, by passages. Messages are indexed by the first search that needs them,
so steps write nothing for it."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, insert, select, true

from app.db.fulltext import NewPassage, Wanted, fulltext
from app.db.models import IN_MESSAGE, message_parts, messages, search_entries
from app.db.ranking import Query, best, one_each, pairs, passages, shown, terms_of
from app.db.repositories import sessions
from app.db.repositories.messages import history, named
from app.messages import ImagePart, Message, Role, ToolCallPart

MESSAGES_PER_QUERY = 20
QUERIES_PER_READ = 10
PASSAGES_PER_READ = 400
"""What is read at once to be indexed: a few messages at a time, until there are enough passages for some writes."""

PASSAGES_PER_WRITE = 200
"""Passages that one write adds: about 20 ms of the writer's time. A long history takes several writes, and so does a
long message."""

MOST = 300
"""The newest passages of a term that are checked; a more frequent term carries little information."""
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


_SEQ_OF_CALL = (
    select(messages.c.seq)
    .join(message_parts, IN_MESSAGE)
    .where(
        message_parts.c.session_id == bindparam("sid"),
        message_parts.c.call_id == bindparam("call"),
        message_parts.c.type == "tool_call",
    )
)


def seq_of_call(connection: Connection, session_id: str, call_id: str) -> int:
    """The seq of the message that holds a call; 0 without one."""
    return connection.execute(_SEQ_OF_CALL, {"sid": session_id, "call": call_id}).scalar() or 0


def end_of_complete(connection: Connection, session_id: str, *, is_idle: bool) -> int:
    """The seq up to which all messages are complete: the end of an idle session, else its newest answer, which may not
    be complete yet."""
    seqs = select(func.max(messages.c.seq)).where(messages.c.session_id == session_id)
    if is_idle:
        return (connection.execute(seqs).scalar() or 0) + 1
    return connection.execute(seqs.where(messages.c.role == Role.ASSISTANT)).scalar() or 0


class Position(NamedTuple):
    """Up to where a session is indexed: all messages before a seq, and the first `passages` of its own message."""

    seq: int
    passages: float = inf


class Unindexed(NamedTuple):
    """The next passages to index, for `add`, after a position; `last` is the seq of the last message that was read."""

    after: Position
    last: int
    passages: list[Located]


class Located(NamedTuple):
    """A passage and where it is: the row of its entry, and the next position."""

    row: dict[str, Any]
    passage: NewPassage
    end: Position


_ENTRY = search_entries.c
_LAST = (
    select(_ENTRY.seq, _ENTRY.passages_done)
    .where(_ENTRY.session_id == bindparam("sid"))
    .order_by(_ENTRY.seq.desc(), _ENTRY.id.desc())
    .limit(1)
)
_NEWEST = select(func.max(messages.c.seq).label("newest")).where(
    messages.c.session_id == bindparam("sid"), messages.c.seq < bindparam("end")
)
_BOTH = select(_NEWEST.subquery().outerjoin(_LAST.subquery("last"), true()))


def unindexed(connection: Connection, session_id: str, *, before: int, after: int = 0) -> Unindexed | None:
    """The passages of the oldest messages between two seqs that are not indexed yet, which must be complete; None if
    all are."""
    newest, *last = connection.execute(_BOTH, {"sid": session_id, "end": before}).one()
    position = _position(last)
    is_within = position.passages < inf
    start = max(after, position.seq - is_within)
    if start >= (newest or 0):
        return None
    passages: list[Located] = []
    for _ in range(QUERIES_PER_READ):
        found = history(connection, session_id, after=start, before=before, limit=MESSAGES_PER_QUERY)
        located = _located(session_id, found, _calling(connection, session_id, found[0]))
        passages += [one for one in located if one.end > position]
        start = found[-1].seq
        if start == newest or len(passages) >= PASSAGES_PER_READ:
            break
    return Unindexed(position, start, passages)


def add(connection: Connection, session_id: str, found: Sequence[Located], *, after: Position) -> Position:
    """Adds the next passages after a position. Returns up to where the session is indexed now; adds nothing if that was
    not `after`, since another search has gone further meanwhile. Raises `NotFoundError`."""
    sessions.row(connection, session_id)
    position = _position(connection.execute(_LAST, {"sid": session_id}).first() or (0, None))
    if position != after:
        return position
    rows = [located.row for located in found]
    end = found[-1].end
    rows[-1] = {**rows[-1], "passages_done": end.passages if end.passages < inf else None}
    new = insert(search_entries).returning(search_entries.c.id, sort_by_parameter_order=True)
    ids = connection.execute(new, rows).scalars()
    made = [located.passage for located in found]
    fulltext(connection).add(connection, session_id, dict(zip(ids, made, strict=True)))
    return end


def _position(last: Sequence[int | None]) -> Position:
    """The position of a session from its last entry."""
    seq, passages = last
    return Position(seq or 0, inf if passages is None else passages)


def _calling(connection: Connection, session_id: str, message: Message) -> list[Message]:
    """The messages with the calls whose results a message has."""
    part = message_parts.c
    calls = [result.call_id for result in message.tool_results]
    query = select(part.message_id).where(
        part.session_id == session_id, part.call_id.in_(calls), part.type == "tool_call"
    )
    return named(connection, session_id, connection.execute(query).scalars().all()) if calls else []


def _located(session_id: str, found: Sequence[Message], calling: Sequence[Message]) -> Iterator[Located]:
    """The passages of messages; `calling` are earlier ones with calls of which these have the results."""
    calls: dict[str, str] = {}
    for message in calling:
        calls.update(_about_calls(message))
    for message in found:
        if message.voided_at is not None:
            continue
        calls.update(_about_calls(message))
        role = "summary" if message.is_summary else str(message.role)
        row = {"session_id": session_id, "seq": message.seq, "message_id": message.id, "role": role}
        of_message = list(_passages(message, calls))
        for number, (call_id, passage) in enumerate(of_message, 1):
            end = Position(message.seq, number if number < len(of_message) else inf)
            yield Located({**row, "call_id": call_id, "passages_done": None}, passage, end)


def _about_calls(message: Message) -> dict[str, str]:
    """Words by which the results of a message's calls are found."""
    said = message.text[:ABOUT_CHARS]
    return {call.call_id: f"{said}\n{_call_text(call)[:ABOUT_CHARS]}" for call in message.tool_calls}


def _passages(message: Message, calls: Mapping[str, str]) -> Iterator[tuple[str | None, NewPassage]]:
    """The passages of a message with their calls."""
    for entry in entries(message):
        spoken = entry.call_id is None and message.role in SPOKEN and not message.is_summary
        about = calls.get(entry.call_id, "") if entry.call_id else ""
        for text in filter(str.strip, passages(entry.text)):
            yield entry.call_id, NewPassage(message.seq, text, " ".join([about, *pairs(text)]), spoken)


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
    hits = texts.matching(connection, session_id, wanted, before=before)
    spoken, by_anyone = hits[: len(terms)], hits[len(terms) :]
    together: set[int] = set()
    if len(terms) > 1 and all(len(found) == MOST for found in by_anyone):
        # All terms are common: places with all of them may be older than the newest of each.
        every = Wanted(tuple(term.text for term in terms), CANDIDATES)
        (together,) = texts.matching(connection, session_id, [every], before=before)
    of_term = [one | other | together for one, other in zip(spoken, by_anyone, strict=True)]
    asked = Query(terms, [len(found) for found in of_term])
    likely = _likely(asked, of_term, set().union(*spoken))
    read = texts.read(connection, session_id, likely, before=before)
    ranked = best(asked, [(passage, likely[passage.id]) for passage in read])
    if not ranked and query.strip():
        substrings = [term.text for term in terms] or [query.strip()]
        ranked = one_each(texts.containing(connection, session_id, substrings, CANDIDATES, before=before))
    return [Found(*passage[1:5], text) for passage, text in shown(asked, ranked, limit, chars)]


def _likely(query: Query, of_term: Sequence[set[int]], said: set[int]) -> dict[int, int]:
    """The passages that are worth reading, with their terms; `said` are those of user and agent."""
    spoken = 1 << len(of_term)
    terms = dict.fromkeys(said, spoken)
    for number, ids in enumerate(of_term):
        bit = 1 << number
        for id in ids:
            terms[id] = terms.get(id, 0) | bit
    by_terms: dict[int, list[int]] = defaultdict(list)
    for id, mask in terms.items():
        by_terms[mask].append(id)
    alike: dict[float, list[int]] = defaultdict(list)
    for mask, same in by_terms.items():
        alike[query.value(mask & ~spoken) * (SPOKEN_WEIGHT if mask & spoken else 1.0)] += same
    chosen: list[int] = []
    for worth in sorted(alike, reverse=True):
        chosen += heapq.nlargest(CANDIDATES - len(chosen), alike[worth])
        if len(chosen) == CANDIDATES:
            break
    return {id: terms[id] & ~spoken for id in chosen}
