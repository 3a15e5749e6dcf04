"""The writer: shared commits, isolated writes in order, and callbacks only after the commit."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db import sqlite, writer
from app.db.backends import backend_of, refusal
from app.db.engine import Database, open_database
from app.db.writer import GATHER_TURNS, MAX_BATCH_S, Commit
from app.errors import StorageBusyError, StorageError, StorageFullError
from tests.databases import on_postgres, opened
from tests.unit.db.rows import new_database

Work = Callable[[Connection], str]


def put(key: str, value: str = "") -> Work:
    def work(connection: Connection) -> str:
        connection.execute(text("insert into server (key, value) values (:key, :value)"), {"key": key, "value": value})
        return key

    return work


def failing(key: str, error: Exception) -> Work:
    """Writes, then fails: the write must be rolled back."""

    def work(connection: Connection) -> str:
        put(key)(connection)
        raise error

    return work


def keys(connection: Connection) -> list[str]:
    order = "ctid" if on_postgres() else "rowid"
    return list(connection.execute(text(f"select key from server order by {order}")).scalars())


class Hold:
    """Blocks the writer in its thread, so that writes submitted meanwhile become one batch."""

    def __init__(self, database: Database) -> None:
        self._held, self._go = threading.Event(), threading.Event()
        self._done = database.writer.submit(self._wait)

    @classmethod
    async def on(cls, database: Database) -> Hold:
        hold = cls(database)
        await asyncio.to_thread(hold._held.wait, 30)
        return hold

    def _wait(self, _: Connection) -> None:
        self._held.set()
        self._go.wait(30)

    async def release(self) -> None:
        self._go.set()
        await self._done


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


async def test_writes_that_wait_share_a_commit(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else a slow machine commits a batch in parts.
    monkeypatch.setattr(writer, "MAX_BATCH_S", 30)
    hold = await Hold.on(database)
    writes = [database.writer.submit(put(f"k{n}")) for n in range(50)]
    await hold.release()
    assert await asyncio.gather(*writes) == [f"k{n}" for n in range(50)]
    assert (database.writer.commits, database.writer.writes) == (2, 51)
    assert await database.read(keys) == [f"k{n}" for n in range(50)]


async def test_a_batch_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else a slow machine commits a batch in parts.
    monkeypatch.setattr(writer, "MAX_BATCH_S", 30)
    hold = await Hold.on(database)
    writes = [database.writer.submit(put(f"k{n}")) for n in range(401)]
    await hold.release()
    await asyncio.gather(*writes)
    assert database.writer.commits == 1 + (5 if on_postgres() else 3)


@settings(max_examples=30)
@given(fails=st.lists(st.booleans(), min_size=1, max_size=30))
async def test_a_write_that_fails_rolls_back_alone(tmp_path_factory: pytest.TempPathFactory, fails: list[bool]) -> None:
    async with new_database(tmp_path_factory.mktemp("writer")) as database:
        hold = await Hold.on(database)
        told: list[str] = []
        writes = [
            database.writer.submit(
                failing(f"k{n}", ValueError(str(n))) if fail else put(f"k{n}"),
                told.append,
                lambda error: told.append(f"error {error}"),
            )
            for n, fail in enumerate(fails)
        ]
        await hold.release()
        results = await asyncio.gather(*writes, return_exceptions=True)

        kept = [f"k{n}" for n, fail in enumerate(fails) if not fail]
        assert await database.read(keys) == kept
        assert [isinstance(result, ValueError) for result in results] == fails
        assert told == [f"error {n}" if fail else f"k{n}" for n, fail in enumerate(fails)], "in order, each once"


async def test_an_error_text_contains_no_values(database: Database) -> None:
    await database.writer.write(put("twice", "a person's text"))
    with pytest.raises(IntegrityError) as refused:
        await database.writer.write(put("twice", "a person's text"))
    assert "a person's text" not in str(refused.value)


async def test_a_constraint_violation_fails_only_its_own_write(database: Database) -> None:
    hold = await Hold.on(database)
    first = database.writer.submit(put("same"))
    second = database.writer.submit(put("same"))
    third = database.writer.submit(put("other"))
    await hold.release()
    with pytest.raises(IntegrityError):
        await second
    assert (await first, await third) == ("same", "other")
    assert await database.read(keys) == ["same", "other"]


async def test_callbacks_run_only_after_the_commit(database: Database, path: Path) -> None:
    seen: list[list[str]] = []

    def look(_: str) -> None:
        with opened(path) as other:
            seen.append(keys(other))

    waiter = database.writer.submit(put("a"), look)
    waiter.add_done_callback(lambda _: seen.append(["done"]))
    await waiter
    await asyncio.sleep(0)
    assert seen == [["a"], ["done"]], "committed, then the callback, then the future"


async def test_cancelling_a_waiter_does_not_undo_its_write(database: Database) -> None:
    hold = await Hold.on(database)
    told: list[str] = []
    waiting = asyncio.create_task(database.writer.write(put("a"), told.append))
    await asyncio.sleep(0)
    raw = database.writer.submit(put("b"), told.append)
    waiting.cancel()
    raw.cancel()
    after = database.writer.submit(put("c"))
    await hold.release()
    assert await after == "c", "the writer continues"
    assert told == ["a", "b"]
    assert await database.read(keys) == ["a", "b", "c"]


async def test_a_callback_that_fails_does_not_stop_the_writer(database: Database) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("broken callback")

    hold = await Hold.on(database)
    first = database.writer.submit(put("a"), broken)
    second = database.writer.submit(failing("b", ValueError("own")), None, broken)
    third = database.writer.submit(put("c"))
    await hold.release()
    with pytest.raises(RuntimeError, match="broken callback"):
        await first
    with pytest.raises(ValueError, match="own"):
        await second
    assert await third == "c"


async def test_closing_commits_submitted_writes_and_accepts_no_more(tmp_path: Path) -> None:
    async with new_database(tmp_path) as database:
        writes = [database.writer.submit(put(f"k{n}")) for n in range(300)]
        await database.writer.aclose()
        assert all(write.done() for write in writes)
        assert len(await database.read(keys)) == 300
        with pytest.raises(StorageError, match="shutting down"):
            database.writer.submit(put("late"))


@pytest.fixture
def read_only(path: Path) -> str:
    """A database marked read-only in its header, so that root cannot write it either."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table server (key text primary key, value text)")
    data = bytearray(path.read_bytes())
    # Bytes 18 and 19 are the format's write and read versions; a write version from the future means read only.
    data[18] = 9
    path.write_bytes(data)
    return f"sqlite:///{path}"


@pytest.mark.sqlite
async def test_a_read_only_database_refuses_writes(read_only: str) -> None:
    database = open_database(read_only)
    writes = [database.writer.submit(put(f"k{n}")) for n in range(3)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    await database.aclose()
    assert [type(result) for result in results] == [StorageError] * 3
    assert all("refused the write" in str(result) for result in results)


@pytest.mark.sqlite
async def test_a_locked_database_fails_the_write_and_recovers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 20)
    async with new_database(path.parent) as database:
        await database.writer.write(put("a"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            with pytest.raises(StorageError, match="locked"):
                await database.writer.write(put("b"))
            assert await database.read(keys) == ["a"], "readers do not wait"
            other.execute("rollback")
        assert await database.writer.write(put("c")) == "c"
        assert await database.read(keys) == ["a", "c"]


@pytest.mark.sqlite
async def test_each_write_waits_for_the_lock_at_most_twice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 1)
    told: list[Commit] = []
    async with new_database(path.parent) as database:
        database.writer.observe = told.append
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            first = database.writer.submit(put("first"))
            for _ in range(GATHER_TURNS + 1):
                await asyncio.sleep(0)
            writes = [database.writer.submit(put(f"k{n}")) for n in range(1000)]
            await asyncio.gather(first, *writes, return_exceptions=True)
            other.execute("rollback")
        assert [commit.writes for commit in told] == [1, 1000]
        await database.writer.write(put("later"))
        assert await database.read(keys) == ["later"]


async def test_a_failure_of_the_database_itself_fails_the_whole_batch(database: Database) -> None:
    def broken(connection: Connection) -> str:
        connection.execute(text("insert into no_such_table values (1)"))
        return ""

    hold = await Hold.on(database)
    writes = [database.writer.submit(work) for work in (put("a"), broken, put("b"))]
    await hold.release()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(result) for result in results] == [StorageError] * 3
    assert await database.read(keys) == []
    assert await database.writer.write(put("c")) == "c"


async def test_a_read_sees_one_state(database: Database) -> None:
    await database.writer.write(put("first"))
    begun, go = threading.Event(), threading.Event()

    def twice(connection: Connection) -> tuple[list[str], list[str]]:
        first = keys(connection)
        begun.set()
        go.wait(30)
        return first, keys(connection)

    reading = asyncio.ensure_future(database.read(twice))
    await asyncio.to_thread(begun.wait, 30)
    await database.writer.write(put("a"))
    go.set()
    assert await reading == (["first"], ["first"])
    assert await database.read(keys) == ["first", "a"]


async def test_readers_cannot_write_and_raise_storage_errors(database: Database) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        await database.read(put("a"))
    with pytest.raises(StorageError, match="cannot be read"):
        await database.read(lambda c: c.execute(text("select * from no_such_table")).all())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("mysql+pymysql://x:secret@h/y", "SQLite file or a Postgres database; mysql"),
        ("postgresql://x:secret@h:secret/y", "not a valid database URL"),
        ("secret", "not a valid database URL"),
    ],
)
def test_other_urls_are_refused_without_their_password(url: str, reason: str) -> None:
    with pytest.raises(StorageError, match=reason) as refused:
        backend_of(url)
    assert "secret" not in str(refused.value)


def test_any_sqlite_driver_names_the_same_file() -> None:
    for driver in ("sqlite", "sqlite+aiosqlite", "sqlite+pysqlite"):
        assert backend_of(f"{driver}:////a/b.db").folder == Path("/a")


async def test_a_batch_of_slow_writes_is_committed_in_parts(database: Database) -> None:
    """They run in order, and the first of them does not wait for all."""
    count = text(
        "with recursive c(x) as (select 1 union all select x + 1 from c where x < 300000) select max(x) from c"
    )
    hold = await Hold.on(database)
    told: list[Commit] = []
    database.writer.observe = told.append
    done: list[int] = []

    def slow(connection: Connection) -> int:
        begun = time.monotonic()
        while time.monotonic() - begun < MAX_BATCH_S / 2:
            connection.execute(count)
        return 0

    writes = [database.writer.submit(slow, lambda _, n=n: done.append(n)) for n in range(9)]  # type: ignore[misc]
    await hold.release()
    await asyncio.gather(*writes)
    assert done == list(range(9))
    assert sum(commit.writes for commit in told) == 10
    assert max(commit.writes for commit in told) <= 2


async def test_commits_are_observed_with_their_writes_and_refusals(database: Database, path: Path) -> None:
    told: list[Commit] = []
    database.writer.observe = told.append
    hold = await Hold.on(database)
    writes = [database.writer.submit(put(f"k{n}")) for n in range(3)]
    assert database.writer.waiting == 3
    await hold.release()
    await asyncio.gather(*writes)
    assert [(commit.writes, commit.refusal) for commit in told] == [(1, None), (3, None)]
    assert all(commit.seconds > 0 for commit in told)
    assert database.writer.waiting == 0


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, StorageBusyError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StorageBusyError),
        (sqlite3.SQLITE_LOCKED, StorageBusyError),
        (sqlite3.SQLITE_FULL, StorageFullError),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StorageFullError),
        (sqlite3.SQLITE_IOERR_READ, StorageError),
        (sqlite3.SQLITE_CORRUPT, StorageError),
    ],
)
def test_refusals_are_translated_by_their_code(code: int, kind: type[StorageError]) -> None:
    error = sqlite3.OperationalError("in the way")
    error.sqlite_errorcode = code
    refused = refusal(DBAPIError("insert", {}, error), "The database refused the write")
    assert type(refused) is kind
    assert refused.detail == "The database refused the write: in the way."


async def test_read_here_runs_in_the_calling_thread(database: Database) -> None:
    await database.writer.write(put("k"))
    assert await asyncio.to_thread(database.read_here, keys) == ["k"]


async def test_a_write_that_nobody_awaits_shares_the_next_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "UNAWAITED_S", 30)
    told: list[Commit] = []
    database.writer.observe = told.append
    early = database.writer.submit(put("early"), is_awaited=False)
    for _ in range(5 * GATHER_TURNS):
        await asyncio.sleep(0)
    assert database.writer.waiting == 1
    await database.writer.write(put("next"))
    assert early.done()
    # Without another one it is committed by itself.
    monkeypatch.setattr(writer, "UNAWAITED_S", 0.001)
    await database.writer.submit(put("alone"), is_awaited=False)
    assert [commit.writes for commit in told] == [2, 1]
