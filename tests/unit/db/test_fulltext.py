"""Full text: how texts are folded, and what Postgres finds in large ones."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

from app.db.engine import open_database
from app.db.fulltext import fold, folded_words
from app.db.repositories import messages
from app.messages import Message, Role, TextPart, new_id, now
from app.runtime.searching import search_messages
from tests.unit.db.rows import add_session


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


async def test_large_and_odd_texts_are_found(postgres_url: str) -> None:
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
        return session_id

    session_id = await database.writer.write(fill)

    async def seqs(query: str) -> list[int]:
        return [place.seq for place in (await search_messages(database, session_id, query, 10)).items]

    assert await seqs("unique7 unique9") == [1]
    assert await seqs("unique299999") == [1]
    assert await seqs('"unique150000 unique150001"') == [1]
    assert await seqs("unique1 unique299999") == [1], "in different passages: any of the words"
    assert await seqs("xxxxxxxx") == [2]
    assert await seqs("½") == [3]
    assert await seqs("nul") == [4]
    assert await seqs("数数数") == [5]
    assert await seqs("b nul") == [4]
    assert await seqs("word " * 5_000) == []
    assert await seqs('"' + "word " * 5_000 + '"') == []
    await database.aclose()
