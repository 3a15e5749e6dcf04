"""Full text in Postgres: how texts are divided, folded and shown, and what is found in large ones."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from app.db import fulltext
from app.db.engine import open_database
from app.db.fulltext import GAP, PIECE_CHARS, PIECE_WORDS, SNIPPET_TOKENS, fold, folded_words, pieces, snippet
from app.db.migrate import upgrade
from app.db.repositories import messages, search
from app.messages import Message, Role, TextPart, new_id, now
from tests.unit.db.rows import add_session


@given(text=st.text(st.sampled_from("ab -.é\x00数")), words=st.integers(1, 5), chars=st.integers(1, 9))
def test_pieces_are_the_whole_text(text: str, words: int, chars: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fulltext, "PIECE_WORDS", words)
        patch.setattr(fulltext, "PIECE_CHARS", chars)
        found = list(pieces(text))
    assert "".join(found) == text
    assert all(len(piece) <= chars and len(folded_words(piece)) <= words for piece in found)


def test_pieces_end_between_words() -> None:
    text = " ".join(f"word{n}" for n in range(2 * PIECE_WORDS + 10))
    assert [len(folded_words(piece)) for piece in pieces(text)] == [PIECE_WORDS, PIECE_WORDS, 10]
    assert [len(piece) for piece in pieces("x" * (PIECE_CHARS + 1))] == [PIECE_CHARS, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Überlauf in src/app.py:12", ["uberlauf", "in", "src", "app", "py", "12"]),
        ("foo_bar's İstanbul", ["foo", "bar", "s", "istanbul"]),
        ("数据库 … 한글", ["数据库", "한글"]),
        ("\x00 -- !", []),
    ],
)
def test_words_are_folded(text: str, words: list[str]) -> None:
    assert folded_words(text) == words
    assert fold(fold(text)) == fold(text)


def test_a_snippet_shows_the_words_that_were_searched() -> None:
    filler = [f"filler{n}" for n in range(500)]
    text = " ".join([*filler, "we", "DECIDED", "on", "Überlauf", *filler])
    shown = snippet(text, [["decide"], ["uberlauf"]])
    assert "we DECIDED on Überlauf" in shown
    assert shown.startswith(GAP)
    assert shown.endswith(GAP)
    assert len(folded_words(shown)) == SNIPPET_TOKENS
    assert snippet(" short text ", [["absent"]]) == "short text"
    assert snippet(text, [["absent"]]).startswith("filler0 ")


async def test_large_and_odd_texts_are_found(postgres_url: str) -> None:
    await asyncio.to_thread(upgrade, postgres_url)
    database = open_database(postgres_url)
    texts = [
        " ".join(f"unique{n}" for n in range(300_000)),
        "x" * 3_000_000,
        "½ ² Ⅷ ¼",
        "a\x00b nul",
        "数" * 100_000,
    ]

    def fill(connection: Connection) -> str:
        session_id = add_session(connection)
        for seq, text in enumerate(texts, 1):
            part = TextPart(id=new_id(), index=0, text=text)
            message = Message(id=new_id(), seq=seq, role=Role.USER, parts=(part,), created_at=now())
            messages.add(connection, session_id, message)
        search.index(connection, session_id, before=100)
        return session_id

    session_id = await database.writer.write(fill)

    async def seqs(query: str) -> list[int]:
        found = await database.read(lambda c: search.find(c, session_id, query, 10, before=100))
        return [place.seq for place in found]

    assert await seqs("unique7 unique9") == [1]
    assert await seqs("unique299999") == [1]
    assert await seqs('"unique150000 unique150001"') == [1]
    assert await seqs("unique1 unique299999") == [1], "in different pieces: any of the words"
    assert await seqs("xxxxxxxx") == [2]
    assert await seqs("½") == [3]
    assert await seqs("nul") == [4]
    assert await seqs("数数数") == [5]
    assert await seqs("b nul") == [4]
    assert await seqs("word " * 5_000) == []
    assert await seqs('"' + "word " * 5_000 + '"') == []
    await database.aclose()
