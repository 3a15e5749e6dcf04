from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.db.engine import Database
from tests.unit.db.rows import new_database


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with new_database(tmp_path) as database:
        yield database
