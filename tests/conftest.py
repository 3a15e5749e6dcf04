"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.requirements import need

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("full", deadline=None)
settings.register_profile("short", deadline=None, max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    """Properties are checked with fewer examples where the extended tests are left out."""
    settings.load_profile("short" if "not extended" in config.option.markexpr else "full")


@pytest.fixture
def docker() -> None:
    need("docker")


@pytest.fixture
def bubblewrap() -> None:
    need("bubblewrap")
