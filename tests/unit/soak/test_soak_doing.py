"""What the soak rig says that a server's end has met."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.soak.database import Stored
from tests.soak.doing import DOINGS, Doing, doings_of

ASKED = {"round": 1, "status": "running", "background": 0}
PREPARED = {"round": 1, "status": "running", "background": 1}


def session(
    *parts: dict[str, Any],
    status: str = "running",
    voided: bool = False,
    finish: str | None = None,
    ended: bool = False,
) -> Stored:
    """A session whose newest attempt stands so, with these parts of its messages."""
    message = {"id": "a", "voided_at": 1 if voided else None, "finish_reason": finish}
    attempt = {"step": 1, "message_id": "a", "duration_ms": 1 if ended else None}
    return Stored({"status": status}, [], [message], list(parts), [attempt], [], [])


TEXT = {"message_id": "a", "type": "text", "call_id": None}
CALL = {"message_id": "a", "type": "tool_call", "call_id": "k"}
RESULT = {"message_id": "r", "type": "tool_result", "call_id": "k"}

STANDS: dict[Doing, Stored] = {
    "asking the model": session(),
    "streaming": session(TEXT),
    "running tools": session(TEXT, CALL, finish="tool_calls"),
    "between attempts": session(voided=True, finish="error"),
    "between steps": session(CALL, RESULT, finish="tool_calls", ended=True),
    "compacting": replace(session(RESULT, CALL, finish="tool_calls", ended=True), rounds=[ASKED]),
    "idle": session(TEXT, status="idle", finish="stop", ended=True),
}


@pytest.mark.parametrize(("doing", "stored"), STANDS.items())
def test_it_is_read_from_the_rows(doing: Doing, stored: Stored) -> None:
    assert doings_of(stored) == {doing}
    assert {*STANDS, "preparing a summary"} == {*DOINGS}


def test_an_attempt_that_failed_for_good_is_no_attempt_under_way() -> None:
    assert doings_of(session(voided=True, finish="error", ended=True)) == {"between steps"}


def test_a_run_that_has_not_made_a_step_stands_before_its_first() -> None:
    assert doings_of(replace(session(), steps=[])) == {"between steps"}


def test_a_round_that_is_asked_for_in_a_step_waits_for_its_end() -> None:
    assert doings_of(replace(session(TEXT), rounds=[ASKED])) == {"streaming"}
    assert doings_of(replace(session(status="idle"), rounds=[ASKED])) == {"compacting"}


def test_a_summary_is_prepared_beside_the_step() -> None:
    assert doings_of(replace(session(TEXT), rounds=[PREPARED])) == {"streaming", "preparing a summary"}
