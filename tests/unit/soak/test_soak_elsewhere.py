"""The soak rig's checks of what runs elsewhere: commands in the background, and calls of an MCP server."""

from __future__ import annotations

import pytest

from tests.soak.audit import audit_remote
from tests.soak.checks.commands import check_background
from tests.soak.database import Logged
from tests.soak.ledger import Book


def logged(*kinds: str) -> list[Logged]:
    return [Logged(seq, kind, {"command_id": "c"}, b"") for seq, kind in enumerate(kinds, 1)]


def test_a_command_that_started_and_ended_is_sound() -> None:
    assert list(check_background(logged("command.started", "step.finished", "command.ended"))) == []


@pytest.mark.parametrize(
    "kinds", [["command.started"], ["command.ended"], ["command.started", "command.ended", "command.ended"]]
)
def test_a_command_that_is_left_or_ends_twice_is_found(kinds: list[str]) -> None:
    assert len(list(check_background(logged(*kinds)))) == 1


def test_a_call_that_came_twice_is_found() -> None:
    sound, broken = Book(), Book()
    audit_remote([(-1, 1), (-1, 1), (1, 1), (2, 1)], sound)
    audit_remote([(1, 1), (2, 1), (1, 1)], broken)
    assert (sound.violations, sound.counts["MCP calls"]) == ([], 2)
    assert [violation.rule for violation in broken.violations] == ["no MCP call runs twice"]
