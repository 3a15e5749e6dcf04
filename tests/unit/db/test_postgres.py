"""What is particular to Postgres: lanes, locks, text that it does not store, errors, and a server that restarts."""

from __future__ import annotations

import asyncio
import builtins
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import IntegrityError

from app.bootstrap import secrets_of
from app.db import postgres as postgres_module
from app.db.backends import backend_of, password_of
from app.db.engine import Database, open_database
from app.db.lanes import LANE_PER_SESSION
from app.db.migrate import connect, revisions, upgrade
from app.db.models import is_managed, metadata
from app.db.postgres import PostgresServer, error_kind, escape, unescape
from app.db.repositories import server_wide, sessions
from app.errors import StorageBusyError, StorageError, StorageFullError
from app.messages import new_id
from app.settings import Settings
from scripts.servers.postgres import cluster
from tests.passing_on import PassedOn
from tests.unit.db.rows import add_session
from tests.unit.db.test_migrations import downgrade
from tests.unit.db.test_writer import failing, put


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    database = open_database(postgres_url)
    yield database
    await database.aclose()


class Gate:
    """A write that waits in its transaction until it is opened."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def work(self, _: Connection) -> str:
        self.reached.set()
        self._open.wait(30)
        return "held"

    async def held(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 30)

    def open(self) -> None:
        self._open.set()


async def test_sessions_write_in_parallel_and_each_in_order(database: Database) -> None:
    gate = Gate()
    held = database.writer.submit(gate.work, session_id="a")
    await gate.held()
    done: list[str] = []
    behind = [database.writer.submit(put(f"a{n}"), done.append, session_id="a") for n in range(3)]
    await database.writer.write(put("b"), done.append, session_id="b")
    await database.writer.write(put("c"), done.append)
    assert done == ["b", "c"], "other lanes do not wait"
    assert database.writer.waiting == 3
    gate.open()
    await asyncio.gather(held, *behind)
    assert done == ["b", "c", "a0", "a1", "a2"]
    assert (database.writer.commits, database.writer.writes) == (4, 6), "writes that wait share a commit"


async def test_lanes_that_wait_for_a_connection_share_their_next_commit(database: Database) -> None:
    gates = [Gate() for _ in range(LANE_PER_SESSION.connections)]
    held = [database.writer.submit(gate.work, session_id=f"held{n}") for n, gate in enumerate(gates)]
    for gate in gates:
        await gate.held()
    first = database.writer.submit(put("first"), session_id="a")
    await asyncio.sleep(0)
    second = database.writer.submit(put("second"), session_id="a")
    assert database.writer.waiting == 2
    for gate in gates:
        gate.open()
    await asyncio.gather(first, second, *held)
    assert database.writer.commits == len(gates) + 1


async def test_another_process_waits_for_the_sessions_lock(
    postgres_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "LOCK_TIMEOUT_MS", 100)
    other, gate = open_database(postgres_url), Gate()
    held = database.writer.submit(gate.work, session_id="a")
    await gate.held()
    with pytest.raises(StorageBusyError, match="lock timeout"):
        await other.writer.write(put("x"), session_id="a")
    assert await other.writer.write(put("x"), session_id="b") == "x"
    gate.open()
    await held
    assert await other.writer.write(put("y"), session_id="a") == "y"
    await other.aclose()


async def test_a_frozen_transaction_loses_its_locks(
    postgres_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "IDLE_WRITE_MS", 100)
    frozen, gate = open_database(postgres_url), Gate()
    held = frozen.writer.submit(gate.work, session_id="a")
    await gate.held()
    assert await database.writer.write(put("x"), session_id="a") == "x"
    gate.open()
    with pytest.raises(StorageError, match="idle-in-transaction"):
        await held
    assert await frozen.writer.write(put("y"), session_id="a") == "y"
    await frozen.aclose()


async def test_a_write_that_fails_rolls_back_alone(database: Database) -> None:
    gate = Gate()
    held = database.writer.submit(gate.work, session_id="a")
    await gate.held()
    writes = [
        database.writer.submit(work, session_id="a")
        for work in (put("same"), put("same"), failing("gone", ValueError("own")), put("kept"))
    ]
    gate.open()
    results = await asyncio.gather(held, *writes, return_exceptions=True)
    assert [type(result) for result in results] == [str, str, IntegrityError, ValueError, str]
    assert set(await database.read(lambda c: c.execute(text("select key from server")).scalars().all())) == {
        "same",
        "kept",
    }


async def test_a_server_that_was_restarted_is_used_again(postgres_url: str, database: Database) -> None:
    await asyncio.gather(*(database.writer.write(put(f"k{n}"), session_id=str(n)) for n in range(4)))
    await database.read(sessions.ids)
    others = (
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{make_url(postgres_url).database}'"
    )
    await asyncio.to_thread(cluster().run, others)
    assert await database.writer.write(put("after"), session_id="0") == "after"
    await asyncio.to_thread(cluster().run, others)
    assert await database.read(sessions.ids) == []
    assert await database.writer.write(put("last")) == "last"


async def test_a_server_that_takes_the_database_waits_for_writes_that_have_checked(database: Database) -> None:
    await database.writer.write(lambda c: server_wide.take_hold(c, "old"))
    gate = Gate()

    def checked(connection: Connection) -> str | None:
        holder = server_wide.current_holder(connection)
        gate.work(connection)
        return holder

    first = database.writer.submit(checked, session_id="a")
    await gate.held()
    taken = database.writer.submit(lambda c: server_wide.take_hold(c, "new"))
    await asyncio.sleep(0.1)
    assert not taken.done()
    gate.open()
    assert await first == "old"
    await taken
    assert await database.read(server_wide.current_holder) == "new"


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("a\x00\ue00001"))
def test_any_text_can_be_escaped(value: str) -> None:
    assert unescape(escape(value)) == value
    assert "\x00" not in escape(value)


async def test_text_comes_back_as_it_was(database: Database) -> None:
    title = "a\x00b \ue000 \ue0000 \ue0001 é"
    session_id = await database.writer.write(
        lambda c: add_session(c, title=title, metadata={"nul": "\x00", "private": "\ue000"})
    )
    row = await database.read(lambda c: sessions.row(c, session_id))
    assert (row.title, row.metadata) == (title, {"nul": "\x00", "private": "\ue000"})

    def found(connection: Connection) -> list[str]:
        page, _ = sessions.page(connection, status=None, q="a\x00b", before=None, limit=10)
        return [session.id for session in page]

    assert await database.read(found) == [session_id]
    assert await database.read(lambda c: sessions.find(c, "a\x00b")) is None


async def test_errors_show_no_values(database: Database) -> None:
    await database.writer.write(put("a person's text"))
    with pytest.raises(IntegrityError) as refused:
        await database.writer.write(put("a person's text"))
    assert "duplicate key" in str(refused.value)
    assert "person" not in f"{refused.value} {refused.value.orig}"
    with pytest.raises(StorageError) as failed:
        await database.read(lambda c: c.execute(text("select cast(:text as int)"), {"text": "a person's text"}))
    assert "a person" not in str(failed.value.__cause__)


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("40001", StorageBusyError),
        ("40P01", StorageBusyError),
        ("55P03", StorageBusyError),
        ("53100", StorageFullError),
        ("57P01", StorageError),
        (None, StorageError),
    ],
)
def test_refusals_are_translated_by_their_state(sqlstate: str | None, kind: type[StorageError]) -> None:
    assert error_kind(sqlstate) is kind


def test_an_unreachable_server_is_named_without_its_password() -> None:
    url = "postgresql://someone:secret@127.0.0.1:1/there"
    for call in (upgrade, revisions):
        with pytest.raises(StorageError, match=r"there at 127\.0\.0\.1:1 cannot be used: .*refused") as refused:
            call(url)
        assert "secret" not in str(refused.value)
    assert password_of(url) == "secret"
    assert "secret" in secrets_of(Settings(_env_file=None, database_url=url)), "logs leave it out"


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *more: Any, **named: Any) -> Any:
        if name == "psycopg":
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(StorageError, match=r"pip install 'palimpsest\[postgres\]'"):
        backend_of("postgresql://h/d")


def test_several_servers_migrate_at_once(empty_postgres_url: str) -> None:
    found: list[tuple[str | None, str | None]] = []
    threads = [threading.Thread(target=lambda: found.append(upgrade(empty_postgres_url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    newest = revisions(empty_postgres_url)[1]
    assert sorted(found, key=str) == [(newest, newest)] * 3 + [(None, newest)]


def test_the_migrations_match_the_models(empty_postgres_url: str) -> None:
    upgrade(empty_postgres_url)
    with connect(empty_postgres_url) as connection:
        opts = {"compare_type": True, "include_name": is_managed}
        assert compare_metadata(MigrationContext.configure(connection, opts=opts), metadata) == []
        found = connection.exec_driver_sql("select indexname from pg_indexes where indexname like 'ix!_%%' escape '!'")
        indexes = {index.name for table in metadata.tables.values() for index in table.indexes}
        assert set(found.scalars()) == {*indexes, "ix_search_text_words"}


def test_migrations_can_be_undone(empty_postgres_url: str) -> None:
    upgrade(empty_postgres_url)
    downgrade(empty_postgres_url, "base")
    assert upgrade(empty_postgres_url)[0] is None


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg", "postgresql+asyncpg", "postgresql+psycopg2"])
def test_any_driver_names_the_same_database(empty_postgres_url: str, driver: str) -> None:
    with_driver = empty_postgres_url.replace("postgresql+psycopg", driver)
    assert upgrade(with_driver)[1] == revisions(empty_postgres_url)[1]


async def test_a_place_after_the_largest_integer_is_a_place(database: Database) -> None:
    from app.db.repositories import events

    session_id = await database.writer.write(lambda c: add_session(c, new_id()))
    assert await database.read(lambda c: events.after(c, session_id, 2**62, 10, 100)) == []
    assert await database.read(lambda c: events.after(c, session_id, 2**70, 10, 100)) == []


@pytest.mark.slow
async def test_a_server_that_stays_silent_holds_up_no_lane_for_long(postgres_url: str, database: Database) -> None:
    """It still accepts what it is sent, so that only its silence shows that it is away."""
    socket = str(make_url(postgres_url).query["host"])
    links = PassedOn(lambda: asyncio.open_unix_connection(f"{socket}/.s.PGSQL.5432"))
    proxy = await asyncio.start_server(links.accept, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    away = make_url(postgres_url).set(host="127.0.0.1", port=port, query={"connect_timeout": "2"})
    through = Database(PostgresServer(away, silence_s=0.3))
    session_id = await through.writer.write(add_session)
    try:
        async with asyncio.timeout(60):
            await links.stall()
            with pytest.raises(StorageError):
                await through.writer.write(lambda c: sessions.change(c, session_id, title="a"), session_id=session_id)
            with pytest.raises(StorageError):
                await through.read(lambda c: sessions.find(c, session_id))
            await links.flow()
            await through.writer.write(lambda c: sessions.change(c, session_id, title="b"), session_id=session_id)
            assert (await through.read(lambda c: sessions.row(c, session_id))).title == "b"
    finally:
        await links.close(proxy)
        await through.aclose()
