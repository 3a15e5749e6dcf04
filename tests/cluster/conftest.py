from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.db.engine import Database
from tests.logs import quiet_logs
from tests.unit.db.rows import add_session, new_database

__all__ = ["quiet_logs"]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with new_database(tmp_path) as database:
        yield database


@pytest.fixture
async def session_id(database: Database) -> str:
    return await database.writer.write(add_session)
