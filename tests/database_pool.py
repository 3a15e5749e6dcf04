"""Migrated Postgres databases that tests use one after the other. A database has hundreds of files: copying the
template and dropping the copy takes more CPU time than most tests, few of which change more than some rows.

Each test has its database under another name, and Postgres renames a database only while it has no session: whatever an
earlier test left running cannot reach it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cache

from app.db.migrate import upgrade
from scripts.servers import postgres

TEMPLATE = "migrated"
"""The database that the others are copied from."""

_WATCH_SCHEMA = """
CREATE SCHEMA pool;
CREATE TABLE pool.schema_changes (command TEXT);
CREATE FUNCTION pool.note_change() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO pool.schema_changes VALUES (tg_tag); END $$;
CREATE TABLE pool.revision AS TABLE alembic_version;
CREATE FUNCTION pool.empty() RETURNS void LANGUAGE sql SET session_replication_role = replica AS $${emptying}$$;
CREATE EVENT TRIGGER note_change ON ddl_command_end EXECUTE FUNCTION pool.note_change();
"""
"""As a replica, since it deletes from the tables in any order."""

_EMPTYING = """
SELECT format('DELETE FROM %s', oid::regclass) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
UNION ALL SELECT format('SELECT setval(%s, %s, false)', seqrelid, seqstart) FROM pg_sequence
"""

_IS_REUSABLE = """
SELECT NOT EXISTS (TABLE pool.schema_changes)
    AND NOT EXISTS (SELECT FROM pg_db_role_setting WHERE setdatabase = oid)
    AND pg_database_size(oid) < %s
FROM pg_database WHERE datname = current_database()
"""


@cache
def template() -> str:
    """The name of the migrated Postgres database."""
    cluster = postgres.cluster()
    if not cluster.has(TEMPLATE):
        cluster.create(TEMPLATE)
        upgrade(cluster.url(TEMPLATE))
        with cluster.connect(TEMPLATE) as connection:
            deletions = [statement for (statement,) in connection.execute(_EMPTYING)]
            emptying = "; ".join([*deletions, "INSERT INTO alembic_version TABLE pool.revision"])
            connection.execute(_WATCH_SCHEMA.format(emptying=emptying).encode())
    return TEMPLATE


@dataclass
class DatabasePool:
    """The databases of a process. One is replaced when it has `max_bytes`, since deleted rows stay in its files; the
    template has half of them."""

    max_bytes: int = 16 * 2**20
    _lent: set[str] = field(default_factory=set)
    _free: deque[str] = field(default_factory=deque)
    """With the rows of the test that had it, and the sessions that it has left open."""

    def lend(self, name: str) -> None:
        """Provides a migrated database without rows, instead of another one with the same name."""
        postgres.cluster().drop(name)
        while self._free:
            if self._reuse(self._free.popleft(), name):
                break
        else:
            postgres.cluster().create(name, template())
        self._lent.add(name)

    def take_back(self, name: str) -> None:
        """Keeps a database for another test. Drops one that is not from this pool."""
        if name in self._lent:
            self._lent.remove(name)
            self._free.append(name)
        else:
            postgres.cluster().drop(name)

    def _reuse(self, old: str, new: str) -> bool:
        """Whether the database now has the new name and no rows. Drops it if it is unlike the template otherwise."""
        from psycopg import Error

        cluster = postgres.cluster()
        try:
            cluster.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{old}'")
            cluster.run(f'ALTER DATABASE "{old}" RENAME TO "{new}"')
            with cluster.connect(new) as connection:
                if connection.execute(_IS_REUSABLE, [self.max_bytes]).fetchone() == (True,):
                    connection.execute("SELECT pool.empty()")
                    return True
        except Error:
            cluster.drop(old)
        cluster.drop(new)
        return False


pool = DatabasePool()
