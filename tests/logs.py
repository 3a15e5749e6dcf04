"""The log while tests run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from app.logs import configure_logging


@contextmanager
def logs_restored() -> Iterator[None]:
    """Leaves logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


@pytest.fixture(autouse=True, scope="module")
def quiet_logs() -> Iterator[None]:
    """As a server logs without a terminal: the tracebacks for one, drawn with all values, take seconds. The tests of
    other folders find the logs as they were."""
    with logs_restored():
        configure_logging("info", "json")
        yield
