"""The soak rig's check of what runs elsewhere: calls of an MCP server."""

from __future__ import annotations

from tests.soak.audit import audit_remote
from tests.soak.ledger import Book


def test_a_call_that_came_twice_is_found() -> None:
    sound, broken = Book(), Book()
    audit_remote([(-1, 1), (-1, 1), (1, 1), (2, 1)], sound)
    audit_remote([(1, 1), (2, 1), (1, 1)], broken)
    assert (sound.violations, sound.counts["MCP calls"]) == ([], 2)
    assert [violation.rule for violation in broken.violations] == ["no MCP call runs twice"]
