"""The databases that tests use one after the other: no test sees what an earlier one left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import psycopg
import pytest

from app.db.backends import backend_of
from scripts.servers.postgres import cluster
from tests.database_pool import DatabasePool
from tests.requirements import need
from tests.unit.db.rows import add_session

Rows = list[tuple[object, ...]]

CONTENTS = """
SELECT tablename, query_to_xml(format('TABLE %I', tablename), true, true, '')::text
FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename
"""
NEXT_NUMBERS = "SELECT nextval(seqrelid) FROM pg_sequence"


class Pool(DatabasePool):
    """A pool that names its databases, and drops them at the end of the test."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self.names: list[str] = []

    def take(self) -> str:
        self.names.append(f"t{uuid4().hex}")
        self.lend(self.names[-1])
        return self.names[-1]


@pytest.fixture
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    need("postgres")
    pool = Pool(getattr(request, "param", DatabasePool.max_bytes))
    yield pool
    for name in pool.names:
        cluster().drop(name)


def identity(name: str) -> Rows:
    """Of a database, whatever its name is now."""
    return cluster().run(f"SELECT oid FROM pg_database WHERE datname = '{name}'")


def run(name: str, statement: str) -> Rows:
    with closing(cluster().connect(name)) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_the_next_test_gets_the_same_database_as_if_it_were_new(pool: Pool) -> None:
    first = pool.take()
    used, new, numbers = identity(first), run(first, CONTENTS), run(first, NEXT_NUMBERS)
    with backend_of(cluster().url(first)).migrating().begin() as connection:
        add_session(connection)
    run(first, "INSERT INTO server VALUES ('key', 'value'); UPDATE alembic_version SET version_num = 'unknown'")
    assert run(first, CONTENTS) != new
    pool.take_back(first)
    second = pool.take()
    assert identity(second) == used
    assert (run(second, CONTENTS), run(second, NEXT_NUMBERS)) == (new, numbers)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE server ADD CONSTRAINT refusal CHECK (false) NOT VALID",
        "CREATE INDEX more ON server (value)",
        "CREATE SCHEMA more CREATE TABLE texts (text TEXT)",
        "DROP TABLE server",
        "ALTER TABLE server ADD more TEXT; ALTER TABLE server DROP more",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = 1', current_database()); END $$",
    ],
)
def test_a_database_with_a_changed_schema_or_settings_is_replaced(pool: Pool, change: str) -> None:
    first = pool.take()
    changed = identity(first)
    run(first, change)
    pool.take_back(first)
    assert identity(pool.take()) != changed
    assert cluster().run(f"SELECT FROM pg_database WHERE oid = {changed[0][0]}") == []


@pytest.mark.parametrize("pool", [0], indirect=True)
def test_a_database_that_has_grown_is_replaced(pool: Pool) -> None:
    first = pool.take()
    large = identity(first)
    pool.take_back(first)
    assert identity(pool.take()) != large


def test_sessions_and_their_locks_end_and_cannot_come_back(pool: Pool) -> None:
    first = pool.take()
    used = identity(first)
    with closing(cluster().connect(first)) as left:
        left.execute("BEGIN; LOCK TABLE server; SELECT pg_advisory_lock(1)")
        pool.take_back(first)
        second = pool.take()
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")
    assert identity(second) == used
    run(second, "BEGIN; LOCK TABLE server NOWAIT; COMMIT")
    assert run(second, "SELECT pg_try_advisory_lock(1)") == [(True,)]
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        cluster().connect(first)
