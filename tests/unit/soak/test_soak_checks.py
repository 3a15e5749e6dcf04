"""The soak rig's checker: silent about a sound session, and loud about each way to break one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.soak.checks import check_deleted, check_seen, check_session
from tests.soak.checks.ends import check_ends
from tests.soak.database import Stored
from tests.soak.ledger import SessionLedger
from tests.unit.soak.sound import events, ledger, log, stored

Events = list[tuple[str, dict[str, Any]]]


def rules(session: Stored, known: SessionLedger | None = None) -> set[str]:
    known = known or ledger()
    known.seen = {}
    return {violation.rule for violation in check_session(session, known)}


def test_a_sound_session_breaks_no_rule() -> None:
    assert check_session(stored(), ledger()) == []


def without(*kinds: str) -> Callable[[Events], Events]:
    return lambda story: [event for event in story if event[0] not in kinds]


def twice(kind: str) -> Callable[[Events], Events]:
    return lambda story: [copy for event in story for copy in ([event, event] if event[0] == kind else [event])]


def moved(kind: str, to: int) -> Callable[[Events], Events]:
    """The story with its first event of a kind at another place."""

    def move(story: Events) -> Events:
        (event, *_) = [event for event in story if event[0] == kind]
        rest = [other for other in story if other is not event]
        return [*rest[:to], event, *rest[to:]]

    return move


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (twice("session.running"), "each run has one beginning and one end"),
        (without("session.idle"), "each run has one beginning and one end"),
        (moved("session.idle", 6), "each run has one beginning and one end"),
        (twice("step.finished"), "each step has one step.finished"),
        (without("step.finished"), "each step has one step.finished"),
        (without("step.started"), "each step has one step.finished"),
        (twice("step.started"), "each step has one step.finished"),
        (without("tool.result"), "each call has one result"),
        (twice("tool.result"), "each call has one result"),
        (moved("tool.result", 5), "each call has one result"),
        (moved("tool.result", 14), "each call has one result"),
        (twice("tool.call"), "each call has one result"),
        (twice("text.completed"), "a part is closed once"),
        (twice("compaction.started"), "each round begins and ends once"),
        (without("compaction.completed"), "each round begins and ends once"),
        (without("compaction.started"), "each round begins and ends once"),
        (twice("message.dequeued"), "messages are delivered in order"),
        (moved("message.created", 9), "messages are delivered in order"),
        (without("message.withdrawn"), "a message is delivered exactly once"),
        (without("message.queued"), "a message is delivered exactly once"),
        (without("message.edited"), "a message is delivered exactly once"),
        (without("message.created", "message.dequeued"), "a message is delivered exactly once"),
        (twice("message.created"), "a message is delivered exactly once"),
    ],
)
def test_a_broken_log_is_seen(broken: Callable[[Events], Events], rule: str) -> None:
    assert rule in rules(stored(*log(*broken(events()))))


def test_a_hole_in_the_log_is_seen() -> None:
    story = log(*events())
    assert "event seq is 1, 2, 3 …" in rules(replace(stored(), events=[*story[:3], *story[4:]]))
    assert "event seq is 1, 2, 3 …" in rules(replace(stored(), events=story[:-1]))


def test_a_follow_up_that_overtakes_a_steer_is_seen() -> None:
    story = events()
    story[12] = ("message.dequeued", {"message_id": "f"})
    assert "messages are delivered in order" in rules(stored(*log(*story)))


def test_a_message_with_other_content_is_seen() -> None:
    known = ledger()
    known.said[0].edits[0].content = "another"
    assert rules(stored(), known) == {"a message is delivered exactly once"}


def test_a_refused_message_in_the_log_is_seen() -> None:
    known = ledger()
    known.said[0].outcome = "refused"
    assert rules(stored(), known) == {"a message is delivered exactly once"}


def test_a_message_of_unknown_outcome_may_be_there_or_not() -> None:
    known = ledger()
    known.said[0].outcome = "unknown"
    assert rules(stored(), known) == set()
    known.said.append(replace(known.said[1], id="never", outcome="unknown", withdrawn=None))
    assert rules(stored(), known) == set()


def test_messages_out_of_order_are_seen() -> None:
    known = ledger()
    known.said[0].sent_at, known.said[0].answered_at = 5.0, 6.0
    assert rules(stored(), known) == {"a message is delivered exactly once"}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"status": "running"}, "idle means idle"),
        ({"cancel_requested": 1}, "idle means idle"),
        ({"compaction_in_progress": 1}, "idle means idle"),
        ({"steps": 3}, "counts are those of the rows"),
        ({"compaction_count": 0}, "counts are those of the rows"),
        ({"last_seq": 99}, "event seq is 1, 2, 3 …"),
    ],
)
def test_a_row_that_says_otherwise_is_seen(change: dict[str, Any], rule: str) -> None:
    session = stored()
    assert rules(replace(session, row={**session.row, **change})) == {rule}


def test_what_is_left_open_is_seen() -> None:
    session = stored()
    open_part = [{**session.parts[0], "status": "running"}, *session.parts[1:]]
    assert rules(replace(session, parts=open_part)) == {"idle means idle"}
    assert rules(replace(session, rounds=[{"round": 1, "status": "running"}])) == {
        "idle means idle",
        "counts are those of the rows",
    }
    open_step = {**session.steps[2], "finish_reason": None}
    assert rules(replace(session, steps=[*session.steps[:2], open_step])) == {"idle means idle"}
    pending = [*session.queue, {"id": "x", "status": "pending"}]
    assert rules(replace(session, queue=pending)) == {"idle means idle"}
    assert rules(replace(session, row={**session.row, "queue_held": 1}, queue=pending)) == set()


def test_results_in_the_wrong_place_are_seen() -> None:
    session = stored()
    for order in ([0, 3, 2, 1, 4, 5], [0, 1, 2, 4, 3, 5]):
        messages = [session.messages[place] for place in order]
        assert rules(replace(session, messages=messages)) == {"an assistant message, then its results"}


@pytest.mark.parametrize("ran", [["c1", "c1"], ["c1", "c2"], []])
def test_a_command_that_ran_twice_or_uncalled_or_not_is_seen(ran: list[str]) -> None:
    known = ledger()
    known.ran = ran
    assert rules(stored(), known) == {"no command runs twice"}


def test_a_command_of_a_voided_attempt_that_ran_is_seen() -> None:
    story = events()
    story.insert(15, ("step.retrying", {"message_id": "a2"}))
    assert "no command runs twice" in rules(stored(*log(*story)))


def test_an_event_that_was_seen_and_is_gone_or_changed_is_seen() -> None:
    known = ledger()
    as_stored = dict(known.seen)
    assert check_seen(as_stored, known) == []
    assert len(check_seen({seq: event for seq, event in as_stored.items() if seq != 7}, known)) == 1
    assert len(check_seen({**as_stored, 7: ("step.retrying", b"other")}, known)) == 1
    known.last_seq += 1
    assert len(check_seen(as_stored, known)) == 1


def test_what_is_left_of_a_deleted_session_is_seen() -> None:
    assert check_deleted({}, ledger()) == []
    assert len(check_deleted({"events": 3}, ledger())) == 1


IDLE = {"outcome": "completed", "error": None, "steps": 2}
LIMIT = {"outcome": "interrupted", "error": {"code": "recovery_limit"}, "steps": 1}
AGAIN: Events = [("session.recovered", {}), ("session.running", {"trigger": "recovery"})]
PARKED: Events = [("session.recovered", {}), ("session.idle", LIMIT)]
CLOSED = ("step.finished", {"step": 1})
STEP = (CLOSED, ("step.started", {"step": 2}))


def ended(*story: tuple[str, dict[str, Any]]) -> list[str]:
    """What is wrong with the ends of a session in which nobody cancels."""
    return list(check_ends(log(("session.running", {"trigger": "message"}), *story), ["steer"]))


@pytest.mark.parametrize("outcome", ["cancelled", "failed", "limit_reached", "interrupted"])
def test_a_run_that_ends_for_no_reason_is_seen(outcome: str) -> None:
    assert ended(("session.idle", IDLE)) == []
    assert len(ended(("session.idle", {**IDLE, "outcome": outcome}))) >= 1


def test_a_run_is_parked_after_three_recoveries_alone() -> None:
    assert ended(*AGAIN * 3, *PARKED) == []
    assert ended(*AGAIN * 3, ("session.recovered", {}), *PARKED) == [], "its server died before the run had ended"
    assert len(ended(*AGAIN * 2, *PARKED)) == 1
    assert len(ended(*AGAIN * 4, *PARKED)) == 1
    assert len(ended(*AGAIN * 2, *STEP, *AGAIN, *PARKED)) == 1
    assert ended(*AGAIN * 2, *STEP, *AGAIN * 3, *PARKED) == []


def test_a_step_that_a_recovery_closes_is_not_complete_and_one_that_a_shutdown_closes_is() -> None:
    assert ended(*AGAIN * 2, CLOSED, *AGAIN, *PARKED) == []
    shut_down = ("step.finished", {"step": 1, "at": "earlier"})
    assert len(ended(*AGAIN * 2, shut_down, *AGAIN, *PARKED)) == 1
    assert ended(*AGAIN * 2, shut_down, *AGAIN * 3, ("session.idle", IDLE)) == []


def test_a_run_that_did_nothing_has_the_outcome_of_the_one_before() -> None:
    void: Events = [("session.running", {"trigger": "message"}), ("session.idle", {**LIMIT, "steps": 0})]
    assert ended(*AGAIN * 3, ("session.recovered", {}), ("session.idle", LIMIT), *void) == []
    assert len(ended(("session.idle", IDLE), *void)) == 1


def test_tokens_that_no_row_accounts_for_are_seen() -> None:
    session = stored()
    more = replace(session, row={**session.row, "usage": '{"input_tokens": 9}'})
    assert rules(more) == {"counts are those of the rows"}
    cut_off = {"round": 2, "status": "cancelled", "usage": '{"input_tokens": 3}'}
    assert rules(replace(more, rounds=[*session.rounds, cut_off])) == set(), "a round that was cut off has paid too"
    less = replace(session, row={**session.row, "usage": '{"input_tokens": 5}'}, rounds=[*session.rounds, cut_off])
    assert rules(less) == {"counts are those of the rows"}
