"""Full text: how texts are folded, and what Postgres finds in large ones."""

from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy import Connection, insert

from app.db.engine import Database, open_database
from app.db.fulltext import BLOCKS, RARE, NewPassage, Wanted, blocks, fold, folded_words, fulltext
from app.db.models import search_entries
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


@pytest.mark.parametrize("before", [1, 2, 1_024, 1_025, 4_096, 10_001, 16_385, 70_000, 1_234_567])
def test_blocks_are_everything_before_a_seq_newest_first(before: int) -> None:
    end = -(-before // BLOCKS[0]) * BLOCKS[0]
    sizes = []
    for word in blocks("a-b", before):
        size, number = map(int, word.removeprefix("sabx").split("x"))
        assert (number + 1) * size == end
        sizes.append(size)
        end = number * size
    assert end == 0
    assert sizes == sorted(sizes)
    assert len(sizes) <= 3 * len(BLOCKS) + 3 + before // BLOCKS[-1]


async def test_the_newest_passages_of_all_blocks_are_found(postgres_url: str) -> None:
    database = open_database(postgres_url)
    seqs = [1, 1_023, 1_024, 5_000, 6_000, 9_000, 20_000, 20_001, 90_000]

    def fill(connection: Connection) -> str:
        session_id = add_session(connection)
        for seq in seqs:
            part = TextPart(id=new_id(), index=0, text=f"common word{seq}")
            role = Role.USER if seq % 2 else Role.ASSISTANT
            message = Message(id=new_id(), seq=seq, role=role, parts=(part,), created_at=now())
            messages.add(connection, session_id, message)
        return session_id

    session_id = await database.writer.write(fill)
    await search_messages(database, session_id, "common", 1)

    def newest(connection: Connection, most: int) -> list[list[int]]:
        texts = fulltext(connection)
        wanted = [Wanted(("common",), most, spoken) for spoken in (False, True)]
        found = texts.matching(connection, session_id, wanted, before=90_001)
        return [sorted(place.seq for place in texts.read(connection, session_id, ids, before=90_001)) for ids in found]

    for most in range(1, len(seqs) + 2):
        assert await database.read(partial(newest, most=most)) == [seqs[-most:]] * 2
    await database.aclose()


async def test_rare_and_common_words_are_found_within_their_session(database: Database) -> None:
    def fill(connection: Connection, uncommon: int, common: int) -> tuple[str, list[int]]:
        """A session whose first passage with each word was said by the user; the ids of its passages."""
        session_id = add_session(connection)
        words = ["uncommon"] * uncommon + ["common"] * common
        own = {"session_id": session_id, "message_id": "m"}
        said = [number in (0, uncommon) for number in range(len(words))]
        rows = [{**own, "seq": seq, "role": "user" if by_user else "tool"} for seq, by_user in enumerate(said, 1)]
        new = insert(search_entries).returning(search_entries.c.id, sort_by_parameter_order=True)
        ids = list(connection.execute(new, rows).scalars())
        made = [
            NewPassage(seq, word, "", spoken) for seq, (word, spoken) in enumerate(zip(words, said, strict=True), 1)
        ]
        fulltext(connection).add(connection, session_id, dict(zip(ids, made, strict=True)))
        return session_id, ids

    sizes = {3: RARE - 2, 4: 5}
    filled = [
        await database.writer.write(partial(fill, uncommon=uncommon, common=common))
        for uncommon, common in sizes.items()
    ]
    wanted = [Wanted((word,), 2, spoken) for word in ("uncommon", "common") for spoken in (False, True)]
    for uncommon, (session_id, ids) in zip(sizes, filled, strict=True):
        find = partial(_matching, session_id=session_id, wanted=wanted)
        newest = {ids[uncommon - 2], ids[uncommon - 1]}
        assert await database.read(find) == [newest, {ids[0]}, {ids[-2], ids[-1]}, {ids[uncommon]}]


def _matching(connection: Connection, session_id: str, wanted: list[Wanted]) -> list[set[int]]:
    return fulltext(connection).matching(connection, session_id, wanted, before=2 * RARE)


@pytest.mark.slow
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
