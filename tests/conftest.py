"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import settings

from scripts.servers.postgres import temporary_database
from scripts.servers.redis import RedisServer
from tests.databases import on_postgres, prepare, remove_databases, template
from tests.requirements import need
from tests.s3 import S3Server, running_s3

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("full", deadline=None)
settings.register_profile("short", deadline=None, max_examples=25)
settings.register_profile("measured", deadline=None, max_examples=8)
"""Enough for coverage: the gate checks them with all examples too."""


MEASURED = {
    *("answers", "approvals", "archives", "background_commands", "bad_input", "broker", "changes", "cli"),
    *("cli_approvals", "cli_compact"),
    *("client_tools", "connections", "eval", "files", "fork", "history_import", "images", "login", "mcp"),
    *("moving_workspaces", "output", "retention", "session_secrets", "skills", "sources", "start", "tracing"),
    "webhooks",
}
"""Tests of behavior that reach what the others leave out, cheaply."""


def pytest_configure(config: pytest.Config) -> None:
    """Properties are checked with fewer examples where not all tests run."""
    if on_postgres():
        # Before the workers start, which share it.
        prepare()
    settings.load_profile({"not extended": "short", "measured": "measured"}.get(config.option.markexpr, "full"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Marks the tests that are enough to measure coverage, which takes twice the CPU time. Leaves out what is about
    SQLite's file while the tests use Postgres."""
    if on_postgres():
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("sqlite")])
        items[:] = [item for item in items if not item.get_closest_marker("sqlite")]
    for item in items:
        reaches = not {"unit", "cluster"}.isdisjoint(item.path.parts)
        reaches = reaches or item.path.stem.removeprefix("test_") in MEASURED
        if reaches and item.get_closest_marker("extended") is None:
            item.add_marker("measured")
    yield
    items[:] = slow_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))


def slow_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in an order in which the slow ones are the first of each worker, which begins with an equal share of
    all; otherwise the last of them would run while the other workers have nothing left to do."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    rest = iter([item for item in items if not item.get_closest_marker("slow")])
    ordered: list[pytest.Item] = []
    for number in range(workers):
        share = (len(items) - len(ordered)) // (workers - number)
        mine = slow[number::workers]
        ordered += [*mine, *islice(rest, max(share - len(mine), 0))]
    return [*ordered, *rest]


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from going through all that was imported and collected again and again, which takes
    a sixth of the tests' CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def own_databases() -> Iterator[None]:
    """Removes the test's databases."""
    yield
    remove_databases()


@pytest.fixture
def empty_postgres_url() -> Iterator[str]:
    """The URL of a Postgres database without tables, whatever database the other tests use."""
    need("postgres")
    with temporary_database() as url:
        yield url


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """As `empty_postgres_url`, with the tables of the newest schema."""
    need("postgres")
    with temporary_database(template()) as url:
        yield url


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """moto's S3 server, shared by the tests of a process."""
    need("s3")
    with running_s3() as server:
        yield server


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server of this test's own."""
    need("redis")
    server = RedisServer(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def docker() -> None:
    need("docker")


@pytest.fixture
def bubblewrap() -> None:
    need("bubblewrap")
