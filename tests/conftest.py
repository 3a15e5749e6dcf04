"""What holds for all tests."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

from tests.requirements import need

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("full", deadline=None)
settings.register_profile("short", deadline=None, max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    """Properties are checked with fewer examples where the extended tests are left out."""
    settings.load_profile("short" if "not extended" in config.option.markexpr else "full")


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from going through all that was imported and collected again and again, which takes
    a sixth of the tests' CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture
def docker() -> None:
    need("docker")


@pytest.fixture
def bubblewrap() -> None:
    need("bubblewrap")
