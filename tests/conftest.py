"""What holds for all tests."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from uuid import uuid4

import pytest
from coverage import Coverage
from hypothesis import settings

import app
import evals
from scripts.servers.postgres import cluster, temporary_database
from scripts.servers.redis import RedisServer
from tests.database_pool import pool, template
from tests.databases import on_postgres, prepare, remove_databases
from tests.load import LONG
from tests.requirements import missing, need
from tests.s3 import S3Server, running_s3

pytest_plugins = ["tests.workers", "tests.open_connections"]

# Almost nothing becomes garbage while tests are imported and collected; looking for it takes a quarter of the time.
gc.disable()

# How long an example takes says more about what else the machine does than about the code. Where CI is set, as in the
# gate, hypothesis makes the same examples each time.
settings.register_profile("tests", deadline=None, max_examples=100 if LONG else 25)
settings.load_profile("tests")

MEASURED = {
    *("acp", "approvals", "archives", "background_commands", "bad_input", "broker", "cli", "cli_approvals"),
    *("cli_compact", "cli_terminal", "client_tools", "eval", "files", "first_use", "fork", "idempotency", "images"),
    *("login", "mcp", "mcp_command", "message_search", "output", "page", "retention", "session_secrets", "skills"),
    *("sources", "subagents", "tracing", "webhooks"),
}
"""Tests of behavior that reach what the others leave out, cheaply."""
UNMEASURED = {
    *("benchmarks", "docs", "provider", "soak"),
    *("test_api_examples", "test_api_openapi", "test_cli_loading", "test_cli_notices", "test_compaction_properties"),
    *("test_deployment", "test_ending", "test_flat_steps", "test_history", "test_isolation", "test_json_bounds"),
    *("test_ladder", "test_large", "test_logins", "test_migrations", "test_official_openai", "test_policies"),
    *("test_preview", "test_replay", "test_roles", "test_round_trips", "test_shrinking", "test_silent_engine"),
    *("test_updates", "test_validator", "test_window_reports"),
}
"""Folders of unit tests that are about something other than the service, and files that cost much and reach
next to nothing that the others leave out."""


def pytest_configure(config: pytest.Config) -> None:
    if on_postgres() or config.option.workers:
        # Before the workers start, which share it.
        prepare()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Measures the coverage of the service's imports, but not of the rest of the collection, which would take three
    times the CPU time."""
    coverage = Coverage.current()
    if coverage is None:
        return (yield)
    for package in (app, evals):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                import_module(module.name)
    coverage.stop()
    try:
        return (yield)
    finally:
        coverage.start()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that are enough to measure coverage, which takes twice the CPU time; they were chosen by what the
    tests of each file reach. Some bear the mark in their file. Leaves out what is about SQLite's file while the tests
    use Postgres."""
    if on_postgres():
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("sqlite")])
        items[:] = [item for item in items if not item.get_closest_marker("sqlite")]
    for item in items:
        if is_measured(item):
            item.add_marker("measured")


def is_measured(item: pytest.Item) -> bool:
    """Whether coverage is measured with the test."""
    folder, name = item.path.parent, item.path.stem
    if folder.name == "behavior":
        return name.removeprefix("test_") in MEASURED and not item.get_closest_marker("extended")
    if {"unit", "cluster"}.isdisjoint(folder.parts) or not UNMEASURED.isdisjoint((*folder.parts, name)):
        return False
    return not any(item.get_closest_marker(mark) for mark in ("slow", "extended"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keeps the garbage collector from going through all that was imported and collected again and again, which takes
    a sixth of the tests' CPU time."""
    share_postgres(session)
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def share_postgres(session: pytest.Session) -> None:
    """Starts the Postgres server that workers share, if a test needs it; otherwise each would start its own."""
    functions = [item for item in session.items if isinstance(item, pytest.Function)]
    need_it = any({"postgres_url", "empty_postgres_url"} & {*function.fixturenames} for function in functions)
    if session.config.option.workers and need_it and missing("postgres") is None:
        template()


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
    name = f"t{uuid4().hex}"
    pool.lend(name)
    yield cluster().url(name)
    pool.take_back(name)


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
