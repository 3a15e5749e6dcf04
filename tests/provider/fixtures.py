"""A pytest plugin: `pytest_plugins = ["tests.provider.fixtures"]`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provider.server import FakeProvider, running_provider


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A fresh provider in its own thread."""
    with running_provider() as provider:
        yield provider
