"""The log while tests run."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from app.logs import configure_logging


@pytest.fixture(autouse=True, scope="module")
def quiet_logs() -> Iterator[None]:
    """As a server logs without a terminal: the tracebacks for one, drawn with all values, take seconds. The tests of
    other folders find the logs as they were."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging("info", "json")
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level
