from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.db.engine import open_database
from tests.databases import make_database
from tests.logs import quiet_logs
from tests.unit.db.rows import add_session
from tests.unit.runtime.stage import Stage

__all__ = ["quiet_logs"]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    path = make_database(tmp_path / "test.db")
    database = open_database(f"sqlite:///{path}")
    session_id = await database.writer.write(add_session)
    yield Stage(database, session_id, path)
    await database.aclose()
