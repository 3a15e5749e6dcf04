"""What a log shows to a person at a terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from app.logs import configure_logging, drain_logs

HOSTILE = "/v1/\x1b[2J\x1b]0;title\x07\u202e\rforged\n\udcff"
SPELT = "/v1/\\x1b[2J\\x1b]0;title\\x07\\u202e\\rforged\\n\\udcff"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, config = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**config)


def test_nothing_that_is_logged_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "console")
    structlog.get_logger("server").info("request", path=HOSTILE)
    logging.getLogger("library").warning(HOSTILE)
    drain_logs()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(SPELT in line for line in lines)


def test_a_traceback_keeps_its_lines_and_nothing_else_of_the_kind(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "console")
    try:
        raise ValueError("said \x1b[2J")
    except ValueError:
        structlog.get_logger("server").exception("failed")
    drain_logs()
    said = capsys.readouterr().err
    assert "\nTraceback (most recent call last):\n" in said
    assert said.rstrip().endswith("ValueError: said \\x1b[2J")
