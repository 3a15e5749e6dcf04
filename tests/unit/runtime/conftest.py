from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.db.engine import open_database
from app.db.migrate import upgrade
from tests.unit.db.rows import add_session
from tests.unit.runtime.stage import Stage


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database without rows, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "test.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
async def stage(tmp_path: Path, migrated: Path) -> AsyncIterator[Stage]:
    path = Path(shutil.copy(migrated, tmp_path))
    database = open_database(f"sqlite:///{path}")
    session_id = await database.writer.write(add_session)
    yield Stage(database, session_id, path)
    await database.aclose()
