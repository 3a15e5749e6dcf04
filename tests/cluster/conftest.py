from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.db.engine import Database
from tests.logs import quiet_logs
from tests.redis import RedisServer
from tests.requirements import need
from tests.unit.db.rows import add_session, new_database

__all__ = ["quiet_logs"]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with new_database(tmp_path) as database:
        yield database


@pytest.fixture
async def session_id(database: Database) -> str:
    return await database.writer.write(add_session)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server of this test's own."""
    need("redis")
    server = RedisServer(tmp_path)
    try:
        yield server
    finally:
        server.kill()
