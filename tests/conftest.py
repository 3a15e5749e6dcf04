"""What holds for all tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import Engine, create_engine

from tests.requirements import need

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("full", deadline=None)
settings.register_profile("short", deadline=None, max_examples=25)


MEASURED = {
    "approvals",
    "bad_input",
    "files",
    "fork",
    "history_import",
    "log",
    "login",
    "manual_compaction",
    "queue",
    "retention",
    "start",
    "streams",
    "tracing",
}
"""Tests of behavior that reach what the unit tests leave out."""


def pytest_configure(config: pytest.Config) -> None:
    """Properties are checked with fewer examples where the extended tests are left out."""
    settings.load_profile("short" if config.option.markexpr in ("not extended", "measured") else "full")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that are enough to measure coverage, which takes twice the CPU time."""
    for item in items:
        reaches = "unit" in item.path.parts or item.path.stem.removeprefix("test_") in MEASURED
        if reaches and item.get_closest_marker("extended") is None:
            item.add_marker("measured")


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from going through all that was imported and collected again and again, which takes
    a sixth of the tests' CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def compiled_statements() -> Iterator[None]:
    """Statements compiled once for all servers of this process: each would compile them again for both its engines,
    which takes a tenth of the tests' CPU time."""
    cache: dict[Any, Any] = {}
    dialect = create_engine("sqlite://").dialect

    def create_sharing_engine(*arguments: Any, **options: Any) -> Engine:
        engine = create_engine(*arguments, **options)
        engine.dialect = dialect
        engine.update_execution_options(compiled_cache=cache)
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.db.engine.create_engine", create_sharing_engine)
        yield


@pytest.fixture
def docker() -> None:
    need("docker")


@pytest.fixture
def bubblewrap() -> None:
    need("bubblewrap")
