from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.db.engine import open_database
from app.runtime.agents import AgentSetup
from app.sandbox.host.local import LocalFactory
from tests.databases import make_database, url_of
from tests.logs import quiet_logs
from tests.unit.db.rows import add_session
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup

__all__ = ["quiet_logs"]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    path = make_database(tmp_path / "test.db")
    database = open_database(url_of(path))
    session_id = await database.writer.write(add_session)
    yield Stage(database, session_id, path)
    await database.aclose()


@pytest.fixture
def agents(stage: Stage, tmp_path: Path) -> AgentSetup:
    return make_setup(stage, make_sandboxes(LocalFactory(tmp_path))).agents
