"""The soak rig's checks of what runs elsewhere: commands in the background, sub-agents, and calls of an MCP server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.soak.audit import audit_remote
from tests.soak.checks.commands import check_background
from tests.soak.checks.subagents import check_subagents
from tests.soak.database import Logged, Stored
from tests.soak.ledger import Book
from tests.unit.soak.sound import stored


def logged(*kinds: str) -> list[Logged]:
    return [Logged(seq, kind, {"command_id": "c"}, b"") for seq, kind in enumerate(kinds, 1)]


def test_a_command_that_started_and_ended_is_sound() -> None:
    assert list(check_background(logged("command.started", "step.finished", "command.ended"))) == []


@pytest.mark.parametrize(
    "kinds", [["command.started"], ["command.ended"], ["command.started", "command.ended", "command.ended"]]
)
def test_a_command_that_is_left_or_ends_twice_is_found(kinds: list[str]) -> None:
    assert len(list(check_background(logged(*kinds)))) == 1


def with_child(*kinds: str, status: str = "idle") -> Stored:
    session = stored()
    ends = [Logged(100 + place, kind, {"subagent_id": "c"}, b"") for place, kind in enumerate(kinds)]
    child = replace(session, row={**session.row, "id": "c", "status": status})
    return replace(session, events=[*session.events, *ends], children=[child])


def test_a_sub_agent_that_has_ended_once_is_sound() -> None:
    assert list(check_subagents(with_child("subagent.started", "subagent.finished"))) == []


@pytest.mark.parametrize(
    ("session", "says"),
    [
        (with_child("subagent.started"), "was started 1 times and has ended 0 times"),
        (with_child("subagent.started", "subagent.finished", "subagent.finished"), "has ended 2 times"),
        (with_child("subagent.finished"), "was started 0 times"),
        (with_child("subagent.started", "subagent.finished", status="running"), "status is running"),
        (replace(with_child("subagent.started", "subagent.finished"), children=()), "has no row"),
    ],
)
def test_a_sub_agent_that_is_left_or_ends_twice_is_found(session: Stored, says: str) -> None:
    (found,) = check_subagents(session)
    assert says in found


def test_a_call_that_came_twice_is_found() -> None:
    sound, broken = Book(), Book()
    audit_remote([(-1, 1), (-1, 1), (1, 1), (2, 1)], sound)
    audit_remote([(1, 1), (2, 1), (1, 1)], broken)
    assert (sound.violations, sound.counts["MCP calls"]) == ([], 2)
    assert [violation.rule for violation in broken.violations] == ["no MCP call runs twice"]
