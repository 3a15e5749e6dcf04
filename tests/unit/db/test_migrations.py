"""Migrations: they create the tables of the models, once, and refuse unknown databases."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.db import migrate
from app.db.backends import backend_of
from app.db.engine import open_database
from app.db.migrate import connect, known_revisions, migrations_folder, revisions, upgrade, upgrade_in_subprocess
from app.db.models import is_managed, metadata
from app.errors import StorageError


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'deep' / 'er' / 'test.db'}"


def test_upgrading_twice_does_nothing_more(url: str) -> None:
    before, after = upgrade(url)
    assert before is None
    assert after is not None
    assert upgrade(url) == (after, after)
    assert revisions(url) == (after, after)


def test_a_server_upgrades_in_another_process_wherever_it_was_started(url: str, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise ImportError('the project of a user')")
    # The connection that read the revision sees the new tables.
    code = (
        "import asyncio, sys; from sqlalchemy import text; from app.db.engine import open_database\n"
        "from app.db.migrate import revisions, upgrade_in_subprocess\n"
        "database = open_database(sys.argv[1])\n"
        "upgrade_in_subprocess(sys.argv[1], database.connect)\n"
        "assert len(set(revisions(sys.argv[1]))) == 1\n"
        "assert database.read_here(lambda c: c.execute(text('select count(*) from sessions')).scalar_one()) == 0\n"
        "asyncio.run(database.aclose())\n"
        "assert 'alembic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code, url], check=True, cwd=tmp_path, timeout=60)


def migrating(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", migrate.__name__], env={**os.environ, "PALIMPSEST_DATABASE_URL": url}
    )


def ignores_signals(process: subprocess.Popen[bytes]) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    return all(ignored >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGTERM))


def test_processes_that_upgrade_wait_for_each_other_and_for_no_signal(url: str) -> None:
    """As when a server is killed while its subprocess upgrades, and started again."""
    backend = backend_of(url)
    backend.create()
    with backend.migrating().connect() as connection, backend.migration(connection):
        both = [migrating(url), migrating(url)]
        while not all(map(ignores_signals, both)):
            assert [process.poll() for process in both] == [None, None]
        for process in both:
            process.send_signal(signal.SIGINT)
            process.terminate()
    assert [process.wait(60) for process in both] == [0, 0]
    assert len(set(revisions(url))) == 1


async def test_an_error_of_the_other_process_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table alembic_version (version_num varchar(32) not null)")
        connection.execute("insert into alembic_version values ('0001')")
    database = open_database(f"sqlite:///{path}")
    with pytest.raises(StorageError, match=rf"^The database {path} cannot be used: no such table: \w+\.$"):
        upgrade_in_subprocess(f"sqlite:///{path}", database.connect)
    await database.aclose()


def test_the_files_are_named_after_their_revisions() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    newest_first = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert known_revisions() == newest_first[::-1]


def test_the_folder_of_the_database_is_private(url: str, tmp_path: Path) -> None:
    upgrade(url)
    assert (tmp_path / "deep" / "er").stat().st_mode & 0o777 == 0o700


def test_the_migrations_match_the_models(url: str) -> None:
    upgrade(url)
    with connect(url) as connection:
        opts = {"compare_type": True, "render_as_batch": True, "include_name": is_managed}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, metadata) == []


def test_the_word_index_exists_without_a_model(url: str) -> None:
    upgrade(url)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        (made,) = connection.execute("select sql from sqlite_master where name = 'search_text'").fetchone()
    assert "fts5" in made


def test_indexes_match_the_models(url: str) -> None:
    upgrade(url)
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        found = {
            row[0]
            for row in connection.execute("select name from sqlite_master where type = 'index' and sql is not null")
        }
    assert found == {index.name for table in metadata.tables.values() for index in table.indexes}


def downgrade(url: str, revision: str) -> None:
    """Takes a database back to a revision."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    with connect(url) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
        connection.commit()


def test_rounds_that_failed_before_get_the_error_of_their_events(url: str) -> None:
    upgrade(url)
    downgrade(url, "0004")
    path = url.removeprefix("sqlite:///")
    events = [
        {"round": 1, "code": "summary_empty", "detail": "No text.", "next": "fold"},
        {"round": 2, "code": "nothing_to_compact", "detail": "Nichts – zu früh.", "next": None},
        {"round": 3, "code": "not_small_enough", "detail": "Too large.", "next": "shrink"},
        {"round": 3, "code": "not_small_enough", "detail": "Still too large.", "next": None},
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, status in ((1, "completed"), (2, "failed"), (3, "failed")):
            connection.execute(
                "insert into compaction_events (session_id, round, reason, policy, status, messages_compacted,"
                " outputs_pruned, tokens_before, tokens_after, created_at) values ('s', ?, 'manual', 'reactive', ?, 0,"
                " 0, 9, 0, 1)",
                (number, status),
            )
        for seq, data in enumerate(events, start=1):
            connection.execute("insert into events values ('s', ?, 'compaction.failed', ?)", (seq, json.dumps(data)))
    upgrade(url)
    with closing(sqlite3.connect(path)) as connection:
        found = [text and json.loads(text) for (text,) in connection.execute("select error from compaction_events")]
    assert found == [
        None,
        {"code": "nothing_to_compact", "detail": "Nichts – zu früh."},
        {"code": "not_small_enough", "detail": "Still too large."},
    ]
    downgrade(url, "0004")
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute("pragma table_info(compaction_events)")]
        assert "error" not in columns
        assert connection.execute("select count(*) from compaction_events").fetchone() == (3,)


def test_a_database_of_a_newer_version_is_refused(url: str) -> None:
    upgrade(url)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("update alembic_version set version_num = '9999'")
    for call in (upgrade, revisions):
        with pytest.raises(StorageError, match="newer version"):
            call(url)


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    path.write_bytes(b"this is not a database at all" * 100)
    for call in (upgrade, revisions):
        with pytest.raises(StorageError, match="cannot be used"):
            call(f"sqlite:///{path}")


def test_a_folder_that_cannot_be_created_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be used"):
        upgrade(f"sqlite:///{tmp_path / 'file' / 'test.db'}")


def test_alembic_uses_the_database_of_the_server(tmp_path: Path, url: str) -> None:
    """In a checkout, by the environment and by `.env`, and with the numbers of these migrations."""
    repository = migrations_folder().parent
    shutil.copytree(repository / "migrations", tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(repository / "alembic.ini", tmp_path)
    newest = known_revisions()[-1]

    def alembic(*arguments: str, **environment: str) -> str:
        command = [sys.executable, "-m", "alembic", *arguments]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(repository), **environment}
        ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    data = tmp_path / "data"
    assert "Running upgrade 0001 -> 0002" in alembic("upgrade", "head", PALIMPSEST_DATA_DIR=str(data))
    assert revisions(f"sqlite:///{data / 'palimpsest.db'}") == (newest, newest)
    (tmp_path / ".env").write_text(f"PALIMPSEST_DATABASE_URL={url}\n")
    alembic("upgrade", "head")
    assert f"{newest} (head)" in alembic("current")
    assert f"-> {newest} (head)" in alembic("history")
    alembic("revision", "--autogenerate", "-m", "one more")
    made = tmp_path / "migrations" / "versions" / f"{int(newest) + 1:04}_one_more.py"
    assert "op." not in made.read_text().partition("def upgrade")[2], "the tables are as the models say"
    assert not (tmp_path / "palimpsest.db").exists()
