from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.db.engine import Database
from scripts.servers.temporal import temporal
from tests.behavior.conftest import clean_environment, heeds_interrupts, provider, shared
from tests.behavior.harness import Client
from tests.cluster.rig import Cluster
from tests.logs import quiet_logs
from tests.provider import FakeProvider
from tests.requirements import need
from tests.unit.db.rows import add_session, new_database

__all__ = ["clean_environment", "heeds_interrupts", "provider", "quiet_logs", "shared"]


FOLDER = Path(__file__).parent
IN_SHORT = {
    "test_a_killed_workers_session_continues_on_another",
    "test_the_command_lists_the_nodes",
}
"""Tests of whole clusters that are not extended."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests of whole clusters as extended: each starts Temporal's clients and several servers, which takes
    seconds, and twice as many where coverage is measured. First, as only others are measured."""
    for item in items:
        is_whole = isinstance(item, pytest.Function) and "cluster" in item.fixturenames
        if item.path.parent == FOLDER and is_whole and item.name not in IN_SHORT:
            item.add_marker("extended")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with new_database(tmp_path) as database:
        yield database


@pytest.fixture
async def session_id(database: Database) -> str:
    return await database.writer.write(add_session)


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, provider: FakeProvider, postgres_url: str
) -> Iterator[Cluster]:
    """A cluster without nodes."""
    for kind in ("temporal", "bubblewrap"):
        need(kind)
    settings = getattr(request, "param", {})
    with Cluster(tmp_path, provider, postgres_url, temporal().address, settings) as cluster:
        yield cluster


@pytest.fixture
async def a(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of an API node."""
    async with Client(cluster.start("a", "api").url) as client:
        yield client


@pytest.fixture
async def b(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of another API node."""
    async with Client(cluster.start("b", "api").url) as client:
        yield client
