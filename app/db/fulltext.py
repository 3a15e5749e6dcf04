"""Full-text search: the texts of entries, and the places that match a query. SQLite's FTS5 and Postgres' text search
both reduce words to their stems, ignore case and diacritics, and have no stop words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    Text,
    and_,
    column,
    func,
    insert,
    literal,
    literal_column,
    select,
    table,
)

from app.db.dialects import is_postgres
from app.db.models import search_entries

SNIPPET_TOKENS = 48
"""Words of a snippet; FTS5 takes 64 at most."""

SNIPPET_CHARS = 400

GAP = " … "
"""Stands for what a snippet leaves out."""


class Found(NamedTuple):
    """A place in the history; `role` is the message's, or `summary`."""

    message_id: str
    seq: int
    role: str
    call_id: str | None
    snippet: str


class FullText(Protocol):
    """The texts of the entries in one kind of database."""

    def add(self, connection: Connection, session_id: str, entry_id: int, text: str) -> None:
        """Stores an entry's text."""

    def matching(
        self, connection: Connection, session_id: str, terms: Sequence[str], limit: int, *, before: int, needs_all: bool
    ) -> list[Found]:
        """The best places before a seq with all terms, or with any of them. A term of several words is a phrase."""

    def containing(
        self, connection: Connection, session_id: str, terms: Sequence[str], limit: int, *, before: int
    ) -> list[Found]:
        """The newest places before a seq that contain all terms as substrings."""


def fulltext(connection: Connection) -> FullText:
    """The full text of a connection's database."""
    return _POSTGRES if is_postgres(connection) else _SQLITE


def _places(session_id: str, before: int, texts: Any, *more: ColumnElement[Any]) -> Select[Any]:
    entry = search_entries.c
    return (
        select(entry.message_id, entry.seq, entry.role, entry.call_id, *more)
        .select_from(search_entries.join(texts, entry.id == texts.c.rowid))
        .where(entry.session_id == session_id, entry.seq < before)
    )


def _has_all(text: ColumnElement[str], terms: Sequence[str]) -> ColumnElement[bool]:
    return and_(*(text.icontains(term, autoescape=True) for term in terms))


def _word(session_id: str) -> str:
    """A session's id as one word, which keeps a search within its session."""
    return session_id.replace("-", "")


def _run(connection: Connection, query: Select[Any]) -> list[Found]:
    return [Found(*row) for row in connection.execute(query)]


# SQLite

_fts5 = table("search_text", column("rowid", Integer), column("session", Text), column("text", Text))
"""A virtual FTS5 table, so only the migrations define it. A trigger deletes its rows with their entries."""


class _Fts5:
    def add(self, connection: Connection, session_id: str, entry_id: int, text: str) -> None:
        words = {"rowid": entry_id, "session": _word(session_id), "text": text}
        connection.execute(insert(_fts5).values(**words))

    def matching(
        self, connection: Connection, session_id: str, terms: Sequence[str], limit: int, *, before: int, needs_all: bool
    ) -> list[Found]:
        match = (" AND " if needs_all else " OR ").join(map(_quoted, terms))
        snippet = func.snippet(literal_column("search_text"), 1, "", "", GAP, SNIPPET_TOKENS)
        within = f'session : "{_word(session_id)}" AND text : ({match})'
        query = _places(session_id, before, _fts5, snippet).where(literal_column("search_text").op("MATCH")(within))
        rank = func.bm25(literal_column("search_text"), 0.0, 1.0)
        return _run(connection, query.order_by(rank, search_entries.c.seq.desc()).limit(limit))

    def containing(
        self, connection: Connection, session_id: str, terms: Sequence[str], limit: int, *, before: int
    ) -> list[Found]:
        place = func.instr(func.lower(_fts5.c.text), func.lower(terms[0]))
        snippet = func.substr(_fts5.c.text, func.max(1, place - SNIPPET_CHARS // 3), SNIPPET_CHARS)
        query = _places(session_id, before, _fts5, snippet).where(_has_all(_fts5.c.text, terms))
        return _run(connection, query.order_by(search_entries.c.seq.desc()).limit(limit))


def _quoted(term: str) -> str:
    """A term as an FTS5 string, which contains no operators."""
    return '"{}"'.format(term.replace('"', '""'))


# Postgres

_pieces = table(
    "search_text", column("rowid", Integer), column("piece", Integer), column("text", Text), column("words")
)
"""The texts in pieces, since Postgres knows the places of the first 16,383 words only. `words` is a `tsvector`: the
stems, and the word of the session with the weight A, which does not count in the rank."""

PIECE_WORDS = 10_000
PIECE_CHARS = 200_000
"""The stems of a piece must stay below 1 MiB."""

_CONFIGURATION: ColumnElement[Any] = literal_column("'palimpsest'::regconfig")
_WEIGHTS: ColumnElement[Any] = literal_column("'{1, 1, 1, 0}'::real[]")
_LENGTH_COUNTS = 1
"""Divides the rank by 1 + the logarithm of the text's length."""

_WORD = re.compile(r"[^\W_]+")


class _Tsvector:
    def add(self, connection: Connection, session_id: str, entry_id: int, text: str) -> None:
        session = func.setweight(func.to_tsvector(_CONFIGURATION, _marker(session_id)), literal_column("'A'"))
        for number, piece in enumerate(pieces(text)):
            words = func.to_tsvector(_CONFIGURATION, " ".join(folded_words(piece))).op("||")(session)
            connection.execute(insert(_pieces).values(rowid=entry_id, piece=number, text=piece, words=words))

    def matching(
        self, connection: Connection, session_id: str, terms: Sequence[str], limit: int, *, before: int, needs_all: bool
    ) -> list[Found]:
        phrases = [words for words in map(folded_words, terms) if words]
        if not phrases:
            return []
        match = (" & " if needs_all else " | ").join(f"({' <-> '.join(words)})" for words in phrases)
        of_terms = func.to_tsquery(_CONFIGURATION, match)
        wanted = func.to_tsquery(_CONFIGURATION, f"{_marker(session_id)}:A").op("&&")(of_terms)
        rank = func.ts_rank(_WEIGHTS, _pieces.c.words, wanted, _LENGTH_COUNTS)
        query = _places(session_id, before, _pieces, _pieces.c.text, rank.label("rank"), _pieces.c.rowid)
        # Without a word that Postgres knows as one, the session's marker alone would match everything.
        query = query.where(_pieces.c.words.op("@@")(wanted), func.numnode(of_terms) > 0)
        best = _best_pieces(query)
        rows = connection.execute(best.order_by(best.selected_columns.rank.desc(), _newest_first(best)).limit(limit))
        return [_found(row, snippet(row.text, phrases)) for row in rows]

    def containing(
        self, connection: Connection, session_id: str, terms: Sequence[str], limit: int, *, before: int
    ) -> list[Found]:
        place = func.strpos(func.lower(_pieces.c.text), func.lower(literal(terms[0], Text)))
        part = func.substr(_pieces.c.text, func.greatest(1, place - SNIPPET_CHARS // 3), SNIPPET_CHARS)
        query = _places(session_id, before, _pieces, part.label("text"), literal(0).label("rank"), _pieces.c.rowid)
        best = _best_pieces(query.where(_has_all(_pieces.c.text, terms)))
        rows = connection.execute(best.order_by(_newest_first(best)).limit(limit))
        return [_found(row, row.text) for row in rows]


def _best_pieces(query: Select[Any]) -> Select[Any]:
    """Of each entry the piece with the highest rank."""
    found = query.add_columns(
        func.row_number()
        .over(partition_by=query.selected_columns.rowid, order_by=query.selected_columns.rank.desc())
        .label("number")
    ).subquery()
    return select(found).where(found.c.number == 1)


def _newest_first(query: Select[Any]) -> ColumnElement[Any]:
    return query.selected_columns.seq.desc()


def _found(row: Row[Any], shown: str) -> Found:
    return Found(row.message_id, row.seq, row.role, row.call_id, shown)


def _marker(session_id: str) -> str:
    return f"s{_word(session_id)}"


def pieces(text: str) -> Iterator[str]:
    """A text in parts of at most `PIECE_WORDS` words and `PIECE_CHARS` characters, cut between words where possible."""
    start = 0
    while True:
        end = _end_of_piece(text, start)
        yield text[start:end]
        if end >= len(text):
            return
        start = end


def _end_of_piece(text: str, start: int) -> int:
    limit = start + PIECE_CHARS
    words = list(islice(_WORD.finditer(text, start, limit), PIECE_WORDS + 1))
    if len(words) <= PIECE_WORDS and limit >= len(text):
        return len(text)
    # The last word is one too many, or the limit may be inside it.
    return words[-1].start() if words and words[-1].start() > start else limit


def folded_words(text: str) -> list[str]:
    """The words of a text, letters and digits only, in lower case and without diacritics."""
    return _WORD.findall(fold(text))


def fold(text: str) -> str:
    """A text in lower case and without diacritics."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFD", text.lower())
    return unicodedata.normalize("NFC", "".join(char for char in parts if not unicodedata.combining(char)))


def snippet(text: str, phrases: Sequence[Sequence[str]]) -> str:
    """The `SNIPPET_TOKENS` words of a text with the most different words of the phrases, in other forms too."""
    words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    if len(words) <= SNIPPET_TOKENS:
        return text.strip()
    stems = {_rough_stem(word) for phrase in phrases for word in phrase}
    hits = [
        (place, stem)
        for place, (start, end) in enumerate(words)
        if (stem := _rough_stem(fold(text[start:end]))) in stems
    ]
    first = min(max(0, _densest(hits) - SNIPPET_TOKENS // 8), len(words) - SNIPPET_TOKENS)
    last = first + SNIPPET_TOKENS - 1
    shown = text[words[first][0] : words[last][1]]
    return f"{GAP if first else ''}{shown}{GAP if last < len(words) - 1 else ''}"


def _densest(hits: Sequence[tuple[int, str]]) -> int:
    """The place from which on a snippet has the most different stems; 0 without any."""
    best, most = 0, 0
    for number, (place, _) in enumerate(hits):
        within = {stem for later, stem in hits[number : number + SNIPPET_TOKENS] if later < place + SNIPPET_TOKENS // 2}
        if len(within) > most:
            best, most = place, len(within)
    return best


def _rough_stem(word: str) -> str:
    """About what Postgres reduces a word to; only the choice of a snippet depends on it."""
    return re.sub(r"(ing|ed|es|e|s|ly)$", "", word) if len(word) > 4 else word


_SQLITE, _POSTGRES = _Fts5(), _Tsvector()
