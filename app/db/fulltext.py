"""Full-text search: the passages of entries, and which of them have a term. SQLite's FTS5 and Postgres' text search
both reduce words to their stems, ignore case and diacritics, and have no stop words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Integer,
    Select,
    String,
    Text,
    and_,
    bindparam,
    collate,
    column,
    func,
    insert,
    select,
    table,
    text,
)

from app.db.dialects import is_postgres
from app.db.models import search_entries

MOST_READ = 1_500
"""Passages in which parts of words are looked for, since no index knows them: about 15 ms in Postgres."""


RARE = 1_000
"""Number of passages in all sessions from which on a term counts as common, in SQLite."""

BLOCKS = (1_024, 4_096, 16_384, 65_536)
"""Seqs of a block of a session's passages, in Postgres, which looks for a term block by block, the newest first."""
LEAST_BLOCKS = 2
"""Blocks of one size that are searched before larger ones."""


class NewPassage(NamedTuple):
    """A passage to store; `seq` is its message's. `about` has words by which it is found too, such as those of the call
    that an output is of; `spoken` is what user and agent said."""

    seq: int
    text: str
    about: str
    spoken: bool


class Wanted(NamedTuple):
    """Passages to look for: with all of `terms`, of which one of several words is a phrase; only in what user and agent
    said if `spoken`. The newest `most` are found."""

    terms: tuple[str, ...]
    most: int
    spoken: bool = False


class Passage(NamedTuple):
    """A stored passage; `role` is its message's, or `summary`."""

    id: int
    message_id: str
    seq: int
    role: str
    call_id: str | None
    text: str


class FullText(Protocol):
    """The passages of the entries in one kind of database."""

    def add(self, connection: Connection, session_id: str, passages: Mapping[int, NewPassage]) -> None:
        """Stores passages under the ids of their entries."""

    def matching(
        self, connection: Connection, session_id: str, wanted: Sequence[Wanted], *, before: int
    ) -> list[set[int]]:
        """For each of `wanted` the ids of its passages before a seq; some may be after it."""

    def read(self, connection: Connection, session_id: str, ids: Iterable[int], *, before: int) -> list[Passage]:
        """The passages with these ids in messages before a seq."""

    def containing(
        self, connection: Connection, session_id: str, terms: Sequence[str], limit: int, *, before: int
    ) -> list[Passage]:
        """The newest passages before a seq that contain all terms as substrings, among the newest `MOST_READ`."""


def fulltext(connection: Connection) -> FullText:
    """The full text of a connection's database."""
    return _POSTGRES if is_postgres(connection) else _SQLITE


class _Stored:
    """What both databases share: `search_text` has the text of each entry under its id as `rowid`."""

    def __init__(self, texts: Any, searched: ColumnElement[str], is_read: ColumnElement[bool]) -> None:
        """`searched` is the text in which substrings are searched for, `is_read` whether an entry is one of `ids`."""
        self._texts = texts
        self._searched = searched
        entry = search_entries.c
        passage = (entry.id, entry.message_id, entry.seq, entry.role, entry.call_id, texts.c.text, entry.session_id)
        self._passages = select(*passage).join(texts, entry.id == texts.c.rowid).where(is_read)

    def read(self, connection: Connection, session_id: str, ids: Iterable[int], *, before: int) -> list[Passage]:
        # The database must not be led to read all entries of the session instead of these.
        rows = connection.execute(self._passages, {"ids": list(ids)}).all()
        return [Passage(*row[:-1]) for row in rows if row.session_id == session_id and row.seq < before]

    def containing(
        self, connection: Connection, session_id: str, terms: Sequence[str], limit: int, *, before: int
    ) -> list[Passage]:
        entry = search_entries.c
        newest = select(entry.id).where(entry.session_id == session_id, entry.seq < before)
        newest = newest.order_by(entry.session_id.desc(), entry.seq.desc()).limit(MOST_READ)
        rowid = self._texts.c.rowid
        within = select(rowid).where(self._within(newest))
        has_all = and_(*(self._searched.icontains(term, autoescape=True) for term in terms))
        found = connection.execute(within.where(has_all).order_by(rowid.desc()).limit(limit)).scalars().all()
        return sorted(self.read(connection, session_id, found, before=before), reverse=True)

    def _within(self, newest: Select[Any]) -> ColumnElement[bool]:
        """Whether a text is one of those that a query has the ids of."""
        rowid: ColumnElement[int] = self._texts.c.rowid
        return rowid.in_(newest)


def _marker(session_id: str, *, spoken: bool) -> str:
    """A word that keeps a search within its session, and one for what user and agent said in it."""
    return f"{'v' if spoken else 's'}{session_id.replace('-', '')}"


def _ids(joined: str | None) -> list[int]:
    return list(map(int, joined.split(","))) if joined else []


# SQLite

_fts5 = table("search_text", column("rowid", Integer), column("about", Text), column("text", Text))
"""A virtual FTS5 table, so only the migrations define it; `about` begins with the markers. A trigger deletes its rows
with their entries."""


class _Rare(NamedTuple):
    """All passages of a session that have a rare term, and those of user and agent, newest first."""

    ids: Sequence[int]
    spoken: Sequence[int]

    @classmethod
    def of(cls, marked: Iterable[int]) -> _Rare:
        """The passages of these ids; those of user and agent are negative."""
        newest = sorted(marked, key=abs, reverse=True)
        return cls([abs(id) for id in newest], [-id for id in newest if id < 0])

    def newest(self, asked: Wanted) -> set[int]:
        return set((self.spoken if asked.spoken else self.ids)[: asked.most])


_HAVING = (
    "SELECT rowid FROM search_text WHERE search_text MATCH :t{number}"
    # A session's passages are indexed in order.
    " AND rowid >= (SELECT id FROM search_entries WHERE session_id = :own ORDER BY seq LIMIT 1)"
)
# With a simple JOIN, SQLite would search the full text for each entry of the session.
_RARE_IDS = f"""
    SELECT {{number}}, CASE WHEN NOT EXISTS ({_HAVING} LIMIT 1 OFFSET {RARE - 1}) THEN coalesce((
        SELECT group_concat(CASE WHEN call_id IS NULL AND role IN ('user', 'assistant') THEN -id ELSE id END)
        FROM ({_HAVING}) AS found CROSS JOIN search_entries ON id = found.rowid WHERE session_id = :own
    ), '') END
"""  # noqa: S608 - constants; numbers are added, and texts are parameters
"""The ids of a session's passages with a term, or NULL if it is common; those of user and agent are negative."""


class _Fts5(_Stored):
    def __init__(self) -> None:
        super().__init__(_fts5, _fts5.c.text, search_entries.c.id.in_(bindparam("ids", expanding=True)))

    def add(self, connection: Connection, session_id: str, passages: Mapping[int, NewPassage]) -> None:
        rows = [
            {"rowid": id, "about": f"{self._markers(session_id, new)} {new.about}", "text": new.text}
            for id, new in passages.items()
        ]
        connection.execute(insert(_fts5), rows)

    @staticmethod
    def _markers(session_id: str, passage: NewPassage) -> str:
        own = _marker(session_id, spoken=False)
        return f"{own} {_marker(session_id, spoken=True)}" if passage.spoken else own

    def matching(
        self, connection: Connection, session_id: str, wanted: Sequence[Wanted], *, before: int
    ) -> list[set[int]]:
        # For a rare term, FTS5 would walk through the whole list of its session's passages.
        known = self._rare(connection, session_id, {asked.terms[0] for asked in wanted if len(asked.terms) == 1})
        left = [asked for asked in wanted if asked.terms[0] not in known or len(asked.terms) > 1]
        found = iter(self._newest(connection, session_id, left))
        return [next(found) if asked in left else known[asked.terms[0]].newest(asked) for asked in wanted]

    def _newest(self, connection: Connection, session_id: str, wanted: Sequence[Wanted]) -> list[set[int]]:
        """For each of `wanted` the ids of its passages, found by the list of the session's."""
        if not wanted:
            return []
        # One row for each of `wanted`: thousands of rows would take longer than the search.
        each = " UNION ALL ".join(
            f"SELECT {number}, group_concat(rowid) FROM"  # noqa: S608 - numbers and constants; texts are parameters
            f" (SELECT rowid FROM search_text WHERE search_text MATCH :w{number}"
            f" ORDER BY rowid DESC LIMIT {asked.most}) AS found"
            for number, asked in enumerate(wanted)
        )
        values = {f"w{number}": self._pattern(session_id, asked) for number, asked in enumerate(wanted)}
        found = {number: set(_ids(joined)) for number, joined in connection.execute(text(each), values)}
        return [found[number] for number in range(len(wanted))]

    def _rare(self, connection: Connection, session_id: str, terms: Collection[str]) -> dict[str, _Rare]:
        """The passages of the terms that are in few passages of all sessions."""
        if not terms:
            return {}
        named = dict(enumerate(terms))
        each = " UNION ALL ".join(_RARE_IDS.format(number=number) for number in named)
        values = {"own": session_id, **{f"t{number}": _quoted(term) for number, term in named.items()}}
        rows = connection.execute(text(each), values)
        return {named[number]: _Rare.of(_ids(joined)) for number, joined in rows if joined is not None}

    def _pattern(self, session_id: str, asked: Wanted) -> str:
        marker = _marker(session_id, spoken=asked.spoken)
        return f'about : "{marker}" AND {" AND ".join(map(_quoted, asked.terms))}'


def _quoted(term: str) -> str:
    """A term as an FTS5 string, which contains no operators."""
    return '"{}"'.format(term.replace('"', '""'))


# Postgres

_vectors = table("search_text", column("rowid", Integer), column("text", Text), column("words"))
"""`words` is a `tsvector` of the text's stems and the words that mark the passage."""

# One statement for any number of rows, so that each connection plans it once.
_ADD = text(
    "INSERT INTO search_text (rowid, text, words) SELECT id, text, to_tsvector('palimpsest', words)"
    " FROM unnest(:ids, :texts, :words) AS new (id, text, words)"
).bindparams(
    bindparam("ids", type_=ARRAY(Integer)),
    bindparam("texts", type_=ARRAY(String)),
    bindparam("words", type_=ARRAY(String)),
)

_WORD = re.compile(r"[^\W_]+")

# Block after block until enough are found. One statement for any number of terms is planned once for each connection,
# and as if few passages had a term; otherwise Postgres would read all passages for a common one. It does not know how
# rare a term is among what was said: `+ 0` keeps it from reading all passages in their order. `OFFSET 0` lets it make a
# query once for each block, not again for each passage whose phrase it checks.
_MATCHING = text(
    """
    WITH asked AS MATERIALIZED (
        SELECT number, spoken, most, to_tsquery('palimpsest', pattern) AS query
        FROM unnest(CAST(:patterns AS TEXT[]), CAST(:spoken AS BOOLEAN[]), CAST(:most AS INTEGER[]))
            WITH ORDINALITY AS given(pattern, spoken, most, number)
    )
    SELECT number, (
        SELECT array_agg(rowid) FROM (
            SELECT rowid FROM (
                SELECT CAST(word AS TSQUERY) && asked.query AS query FROM unnest(
                    CASE WHEN spoken THEN CAST(:said AS TEXT[]) ELSE CAST(:blocks AS TEXT[]) END
                ) AS marker(word) OFFSET 0
            ) AS within CROSS JOIN LATERAL (
                SELECT rowid FROM search_text WHERE words @@ within.query
                ORDER BY rowid + 0 DESC LIMIT asked.most
            ) AS block LIMIT asked.most
        ) AS newest
    ) FROM asked WHERE numnode(query) > 0
    """
)
"""A term without anything that Postgres knows as a word has no row: the marker alone would match everything."""


class _Tsvector(_Stored):
    def __init__(self) -> None:
        # As in SQLite, only ASCII letters are compared case-insensitively; a language's rules take longer.
        is_read = search_entries.c.id == func.any(bindparam("ids", type_=ARRAY(Integer)))
        super().__init__(_vectors, collate(_vectors.c.text, "C"), is_read)

    def matching(
        self, connection: Connection, session_id: str, wanted: Sequence[Wanted], *, before: int
    ) -> list[set[int]]:
        values = {
            "patterns": [" & ".join(map(_phrase, asked.terms)) for asked in wanted],
            "spoken": [asked.spoken for asked in wanted],
            "most": [asked.most for asked in wanted],
            "said": [_marker(session_id, spoken=True)],
            "blocks": blocks(session_id, before),
        }
        found = {number: set(ids or ()) for number, ids in connection.execute(_MATCHING, values)}
        return [found.get(number, set()) for number in range(1, len(wanted) + 1)]

    def add(self, connection: Connection, session_id: str, passages: Mapping[int, NewPassage]) -> None:
        values = {
            "ids": list(passages),
            "texts": [passage.text for passage in passages.values()],
            "words": [_all_words(session_id, passage) for passage in passages.values()],
        }
        connection.execute(_ADD, values)

    def _within(self, newest: Select[Any]) -> ColumnElement[bool]:
        # By their ids, so that Postgres reads no other texts.
        return _vectors.c.rowid == func.any(func.array(newest.scalar_subquery()))


def _phrase(term: str) -> str:
    return f"({' <-> '.join(folded_words(term))})"


def _all_words(session_id: str, passage: NewPassage) -> str:
    words = [*folded_words(passage.text), *folded_words(passage.about)]
    said = [_marker(session_id, spoken=True)] if passage.spoken else []
    return " ".join([*words, *said, *(_block(session_id, size, passage.seq) for size in BLOCKS)])


def _block(session_id: str, size: int, seq: int) -> str:
    """A word that marks the passages of a block of a session."""
    return f"{_marker(session_id, spoken=False)}x{size}x{seq // size}"


def blocks(session_id: str, before: int) -> list[str]:
    """The words that mark the blocks of a session before a seq, newest first: first small blocks, then larger ones."""
    words, end = [], before
    for size, larger in zip(BLOCKS, (*BLOCKS[1:], None), strict=True):
        count = 0
        while end > 0 and (larger is None or count < LEAST_BLOCKS or end % larger):
            words.append(_block(session_id, size, end - 1))
            end = (end - 1) // size * size
            count += 1
    return words


def folded_words(text: str) -> list[str]:
    """The words of a text, letters and digits only, in lower case and without diacritics."""
    return _WORD.findall(fold(text))


def fold(text: str) -> str:
    """A text in lower case and without diacritics."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFD", text.lower())
    marks = {ord(char): None for char in set(parts) if unicodedata.combining(char)}
    return unicodedata.normalize("NFC", parts.translate(marks) if marks else parts)


_SQLITE, _POSTGRES = _Fts5(), _Tsvector()
