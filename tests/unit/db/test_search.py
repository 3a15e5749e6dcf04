"""Full-text search: it finds texts of its own session for any query, and indexes each message once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, event, func, select, text

from app.db.engine import Database
from app.db.fulltext import fulltext
from app.db.models import search_entries
from app.db.repositories import messages, parts, search, sessions
from app.errors import ConflictError, NotFoundError
from app.messages import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    new_id,
    now,
)
from app.runtime.owner.notes import StoredHistory
from app.runtime.searching import search_history
from tests.databases import on_postgres
from tests.unit.db.rows import add_session, new_database

LAST = 10_000


def said(seq: int, role: Role, *parts: Part, **fields: Any) -> Message:
    return Message(id=new_id(), seq=seq, role=role, parts=parts, created_at=now(), **fields)


def words(text: str, index: int = 0) -> TextPart:
    return TextPart(id=new_id(), index=index, text=text)


def call(call_id: str, arguments: str, name: str = "execute_command") -> ToolCallPart:
    return ToolCallPart(id=new_id(), index=0, call_id=call_id, name=name, arguments_text=arguments)


def result(call_id: str, output: str, name: str = "execute_command", **fields: Any) -> ToolResultPart:
    values = {"status": ToolStatus.COMPLETED, "bytes": len(output.encode()), **fields}
    return ToolResultPart(id=new_id(), index=0, call_id=call_id, name=name, output=output, **values)


def store(connection: Connection, session_id: str, *history: Message) -> None:
    for message in history:
        messages.add(connection, session_id, message)


async def searched(
    database: Database, session_id: str, query: str, limit: int = 20, before: int = LAST
) -> list[search.Found]:
    return await search_history(
        database, session_id, lambda _: before, lambda c, end: search.find(c, session_id, query, limit, before=end)
    )


async def entry_count(database: Database) -> tuple[int, int]:
    """Rows of both tables."""

    def count(connection: Connection) -> tuple[int, int]:
        entries = connection.execute(select(func.count()).select_from(search_entries)).scalar_one()
        return entries, connection.execute(text("select count(*) from search_text")).scalar_one()

    return await database.read(count)


HISTORY = (
    said(1, Role.USER, words("Build a shop; never use MongoDB, we decided on SQLite.")),
    said(3, Role.ASSISTANT, words("I look at the files."), call("c1", '{"command": "grep -rn\\nfoo_bar src/"}')),
    said(5, Role.TOOL, result("c1", "src/app.py:12: def foo_bar(): raise ValueError('Überlauf')\n")),
    said(7, Role.ASSISTANT, ReasoningPart(id=new_id(), index=0, text="secretly thinking of zebras")),
    said(8, Role.ASSISTANT, words("zebra in a void attempt"), voided_at=now()),
    said(9, Role.CONTROL, words("[The run was resumed.]")),
    said(11, Role.USER, words("数据库使用连接池"), is_summary=True),
    said(13, Role.ASSISTANT, call("c2", '{"query": "needle zebra"}', "history_search")),
    said(15, Role.TOOL, result("c2", "needle zebra", "history_search")),
    said(17, Role.USER, words("ผู้ใช้ไม่มีสิทธิ์เข้าถึง ကို")),
)


@pytest.mark.parametrize(
    ("query", "seqs"),
    [
        ("mongodb", [1]),
        ("decide sqlite", [1]),
        ('"decided on SQLite"', [1]),
        ('"SQLite decided on"', []),
        ("foo_bar", [5]),
        ("uberlauf", [5]),
        ("grep src", [3]),
        ("resumed", [9]),
        ("连接池", [11]),
        ("which 连接池?", [11]),
        ("Which database was it that we decided on?", [1]),
        ("ongoD", [1]),
        ("mongodb elephants", [1]),
        ("สิทธิ์", [17]),
        ("ကို", [17]),
        ("auth-ation", []),
        ("   ", []),
        ("zebra", []),
        ("needle", []),
        ("nothing of the kind whatsoever xyz", [3, 1, 9, 5]),
    ],
)
async def test_a_query_finds_the_best_places(database: Database, query: str, seqs: list[int]) -> None:
    session_id = await database.writer.write(add_session)
    await database.writer.write(lambda c: store(c, session_id, *HISTORY))
    found = await searched(database, session_id, query)
    if "whatsoever" in query:
        assert {place.seq for place in found} <= set(seqs)
    else:
        assert sorted(place.seq for place in found) == sorted(seqs)


async def test_a_place_has_its_message_and_a_snippet(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    await database.writer.write(lambda c: store(c, session_id, *HISTORY))
    (place,) = await searched(database, session_id, "ValueError")
    assert place[:4] == (HISTORY[2].id, 5, "tool", "c1")
    assert "raise ValueError" in place.snippet
    (summary,) = await searched(database, session_id, "数据库")
    assert (summary.role, summary.call_id, summary.snippet) == ("summary", None, "数据库使用连接池")


async def test_the_best_match_comes_first_and_the_limit_applies(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    filler = "lorem ipsum dolor sit amet " * 30
    history = [said(n, Role.USER, words(f"{filler} port of ship{n} {filler}")) for n in range(1, 40)]
    history.append(said(40, Role.USER, words("The port is 8080, and the port stays.")))
    await database.writer.write(lambda c: store(c, session_id, *history))
    found = await searched(database, session_id, "port", limit=5)
    assert len(found) == 5
    assert found[0].seq == 40
    assert sum(len(place.snippet) for place in found) < 1_000


async def test_a_result_is_found_by_its_call_and_shows_its_telling_line(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    history = [said(1, Role.USER, words("check the banks"))]
    for n in range(100):
        lines = "".join(f"payment {i} booked in {i * 7 % 90} ms\n" for i in range(200))
        history.append(
            said(2 * n + 2, Role.ASSISTANT, words(f"bank{n} is next"), call(f"c{n}", f'{{"command": "pay {n}"}}'))
        )
        history.append(said(2 * n + 3, Role.TOOL, result(f"c{n}", f"{lines}AssertionError: fee of {n}.5\n{lines}")))
    await database.writer.write(lambda c: store(c, session_id, *history))
    for n in (3, 49, 50, 77):
        found = await searched(database, session_id, f"What did bank{n} fail with?", limit=8)
        (place,) = [place for place in found if place.role == "tool"]
        assert (place.call_id, f"AssertionError: fee of {n}.5" in place.snippet) == (f"c{n}", True)


async def test_a_result_is_found_by_a_call_that_was_read_before_it(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    last = search.MESSAGES_PER_QUERY
    history = [said(n, Role.USER, words("filler")) for n in range(1, last)]
    history.append(said(last, Role.ASSISTANT, words("bank7 is next"), call("c7", "{}")))
    history.append(said(last + 1, Role.TOOL, result("c7", "all paid")))
    await database.writer.write(lambda c: store(c, session_id, *history))
    assert {place.role for place in await searched(database, session_id, "bank7")} == {"assistant", "tool"}


async def test_a_path_comes_first_where_it_stands_as_asked(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    texts = [
        "The app is new, its core runs, py is py.",
        "src app core py, all of it: app, core, py",
        "See app/core.py.",
    ]
    history = [said(n, Role.USER, words(text)) for n, text in enumerate([*texts, *texts[:2]], 1)]
    await database.writer.write(lambda c: store(c, session_id, *history))
    assert (await searched(database, session_id, "what is in app/core.py"))[0].seq == 3


async def test_only_the_sessions_own_history_is_searched(database: Database) -> None:
    one, other = await database.writer.write(add_session), await database.writer.write(add_session)
    for session_id, place in ((one, "Lisbon"), (other, "Porto")):
        message = said(1, Role.USER, words(f"The secret meeting is in {place}."))
        await database.writer.write(lambda c, s=session_id, m=message: store(c, s, m))  # type: ignore[misc]
    for query in (
        "secret meeting",
        "Lisbon",
        "isbo",
        f'session : "{one}"',
        f"{one.replace('-', '')}",
        '" OR session : "',
    ):
        for session_id, own in ((one, "Lisbon"), (other, "Porto")):
            assert all(own in found.snippet for found in await searched(database, session_id, query))
    assert await searched(database, other, "Lisbon") == []
    assert len(await searched(database, one, "Lisbon")) == 1


async def test_a_message_is_indexed_once_and_new_ones_by_the_next_search(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    await database.writer.write(lambda c: store(c, session_id, *HISTORY))
    await searched(database, session_id, "shop", before=4)
    assert await entry_count(database) == (3, 3)
    for _ in range(2):
        await searched(database, session_id, "shop")
        assert await entry_count(database) == (7, 7)
    await database.writer.write(lambda c: store(c, session_id, said(99, Role.USER, words("late"))))
    assert [place.seq for place in await searched(database, session_id, "late")] == [99]
    assert await entry_count(database) == (8, 8)


async def test_a_long_history_takes_several_writes(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    # Half of the messages have nothing to index, which must not stop the indexing.
    count = search.MESSAGES_PER_QUERY * search.QUERIES_PER_READ + 50
    history = [said(n, Role.ASSISTANT, *([words(f"word{n}")] if n > 120 else [])) for n in range(1, count + 1)]
    await database.writer.write(lambda c: store(c, session_id, *history))
    commits = database.writer.commits
    assert [place.seq for place in await searched(database, session_id, f"word{count}")] == [count]
    assert database.writer.commits - commits == 2


@contextmanager
def watched() -> Iterator[tuple[list[int], list[list[Any]]]]:
    """The number of passages that each commit adds, and the values of each statement that reads parts of messages."""
    commits: list[int] = []
    reads: list[list[Any]] = []
    added = [0]

    def on_execute(_connection: Any, _cursor: Any, statement: str, values: Any, _context: Any, is_many: bool) -> None:
        if statement.startswith("INSERT INTO search_text"):
            added[0] += len(values) if is_many else len(values["ids"])
        elif statement.startswith("SELECT message_parts") and "message_id IN" in statement:
            reads.append(list(values.values() if isinstance(values, dict) else values))

    def on_commit(_connection: Any) -> None:
        if added[0]:
            commits.append(added[0])
            added[0] = 0

    event.listen(Engine, "before_cursor_execute", on_execute)
    event.listen(Engine, "commit", on_commit)
    try:
        yield commits, reads
    finally:
        event.remove(Engine, "before_cursor_execute", on_execute)
        event.remove(Engine, "commit", on_commit)


async def test_long_messages_take_several_writes_and_are_read_once(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    line = "every passage of a long message is found, also in the middle of it; "
    texts = [f"{line * 3_500} needle{n} {line * 3_500}" for n in range(6)]
    history = [said(n, Role.USER, words(text)) for n, text in enumerate(texts, 1)]
    await database.writer.write(lambda c: store(c, session_id, *history))
    with watched() as (commits, reads):
        both = await asyncio.gather(*(searched(database, session_id, f"needle{n}", limit=1) for n in (4, 4)))
        assert [[place.seq for place in found] for found in both] == [[5], [5]]
        assert len(commits) == 2 * len(history)
        assert max(commits) <= search.PASSAGES_PER_WRITE
    own = {message.id for message in history}
    times = Counter(value for values in reads for value in values if value in own)
    assert set(times) == own
    assert set(times.values()) <= {1, 2}, "at most once by each search"
    assert await entry_count(database) == (sum(commits), sum(commits))


async def test_a_search_continues_inside_a_message_that_was_indexed_in_part(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    long = said(5, Role.TOOL, result("c1", "\n".join(f"row{n} of the report" for n in range(1_000))))
    history = (
        said(3, Role.ASSISTANT, call("c1", "{}")),
        long,
        said(7, Role.USER, words("end")),
    )
    await database.writer.write(lambda c: store(c, session_id, *history))
    found = await database.read(lambda c: search.unindexed(c, session_id, before=LAST))
    assert found is not None
    for _ in range(2):
        # As a server that ended after its first write; the second time, another search was faster.
        await database.writer.write(lambda c: search.add(c, session_id, found.passages[:4], after=found.after))
        assert await entry_count(database) == (4, 4)
    for query, seq in (("row1", 5), ("row999", 5), ("end", 7)):
        assert [place.seq for place in await searched(database, session_id, query)] == [seq]
    assert await entry_count(database) == (len(found.passages), len(found.passages))
    stored = await database.read(lambda c: c.execute(select(search_entries.c.id).order_by(search_entries.c.id)).all())
    everything = await database.read(lambda c: fulltext(c).read(c, session_id, [row.id for row in stored], before=LAST))
    assert sorted(passage.text for passage in everything) == sorted(one.passage.text for one in found.passages)


async def test_entries_are_deleted_with_their_session(database: Database) -> None:
    one, other = await database.writer.write(add_session), await database.writer.write(add_session)
    for session_id in (one, other):
        history = [said(1, Role.USER, words("kept"))]
        await database.writer.write(lambda c, s=session_id, h=history: store(c, s, *h))  # type: ignore[misc]
        await searched(database, session_id, "kept")
    assert await entry_count(database) == (2, 2)
    await database.writer.write(lambda c: sessions.remove(c, one))
    assert await entry_count(database) == (1, 1)
    assert len(await searched(database, other, "kept")) == 1
    if not on_postgres():
        await database.writer.write(
            lambda c: c.execute(text("insert into search_text(search_text) values('integrity-check')"))
        )


@given(
    query=st.one_of(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=60),
        st.lists(
            st.sampled_from(
                ['"', "*", "(", ")", "AND", "OR", "NOT", "NEAR(", "^", ":", "-", "text", "%", "_", "\\", "a"]
            ),
            min_size=1,
            max_size=12,
        ).map(" ".join),
    )
)
async def test_any_text_is_a_valid_query(tmp_path_factory: pytest.TempPathFactory, query: str) -> None:
    async with new_database(tmp_path_factory.mktemp("db")) as database:
        session_id = await database.writer.write(add_session)
        exact = said(2, Role.USER, words(query))
        await database.writer.write(lambda c: store(c, session_id, *HISTORY[:1], exact))
        found = await searched(database, session_id, query)
        assert {place.seq for place in found} <= {1, 2}
        if any(map(str.isalnum, query)) and '"' not in query:
            assert 2 in {place.seq for place in found}, ascii(query)


class TestStoredHistory:
    async def test_a_search_sees_only_messages_before_its_own(self, database: Database) -> None:
        session_id = await database.writer.write(add_session)
        asking = said(4, Role.ASSISTANT, words("I ask for apples"), call("ask", "{}"))
        history = [said(1, Role.USER, words("apples")), asking, said(6, Role.USER, words("later apples"))]
        await database.writer.write(lambda c: store(c, session_id, *history))
        past = StoredHistory(database, session_id, None)
        assert [found.seq for found in await past.search("apples", asked_by="ask", limit=9)] == [1]
        assert await past.search("apples", asked_by="nobody", limit=9) == []
        commits = database.writer.commits
        await past.search("apples", asked_by="ask", limit=9)
        assert database.writer.commits == commits, "everything was indexed"

    async def test_stored_outputs_are_found(self, database: Database, tmp_path: Path) -> None:
        session_id = await database.writer.write(add_session)
        other = await database.writer.write(add_session)
        (tmp_path / "kept").write_bytes(b"raw")
        tool = said(2, Role.TOOL)
        calls = said(1, Role.ASSISTANT, *(call(name, "{}") for name in ("short", "long", "lost", "open")))

        def fill(connection: Connection) -> None:
            store(connection, session_id, calls, tool)
            short = result("short", "out\n[exit code 3]", bytes=4, exit_code=3)
            for part, ref in ((short, None), (result("long", "o"), "kept"), (result("lost", "o"), "removed")):
                parts.put(connection, session_id, tool.id, part, closed=True, output_ref=ref)

        await database.writer.write(fill)
        past = StoredHistory(database, session_id, lambda key: tmp_path / key)
        short = await past.output("short")
        assert (short.data, short.path, short.exit_code, short.size) == (b"out\n", None, 3, 4)
        assert (await past.output("long")).path == tmp_path / "kept"
        for call_id, error, code in (
            ("lost", NotFoundError, "output_not_found"),
            ("open", ConflictError, "call_open"),
            ("none", NotFoundError, "call_not_found"),
        ):
            with pytest.raises(error) as caught:
                await past.output(call_id)
            assert caught.value.code == code
        with pytest.raises(NotFoundError):
            await StoredHistory(database, other, None).output("short")
        with pytest.raises(NotFoundError, match="no longer stored"):
            await StoredHistory(database, session_id, None).output("long")


def test_images_are_found_by_their_names() -> None:
    fields = {"id": new_id(), "index": 1, "media_type": "image/png", "digest": "d"}
    picture = ImagePart(**fields, path="docs/login.png")
    (entry,) = search.entries(said(1, Role.USER, words("See"), picture, ImagePart(**fields)))
    assert entry.text == "See\nimage docs/login.png\nimage image/png"


async def test_a_session_that_is_deleted_while_it_is_searched_is_not_found(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    await database.writer.write(lambda c: store(c, session_id, *HISTORY))
    found = await database.read(lambda c: search.unindexed(c, session_id, before=LAST, after=0))
    assert found is not None
    await database.writer.write(lambda c: sessions.remove(c, session_id))
    with pytest.raises(NotFoundError):
        await database.writer.write(lambda c: search.add(c, session_id, found.passages, after=found.after))
