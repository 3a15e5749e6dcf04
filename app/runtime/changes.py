"""How the changes of a run become rows and events, inside the transaction that commits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlalchemy import Connection

from app.agent.changes import (
    AttemptVoided,
    CallsHeld,
    CallsReleased,
    Change,
    ControlAdded,
    GenerationOpened,
    ModelUsed,
    OutputsPruned,
    PartClosed,
    PlanChanged,
    ResponseClosed,
    ResultClosed,
    RoundCompleted,
    RoundEnded,
    RungFailed,
    StepClosed,
    StepOpened,
)
from app.db.repositories import sessions
from app.eventlog.log import Appender, StreamItem
from app.events import PlanUpdated
from app.runtime import approvals, compactions, message_changes, step_changes

_EVENTS: dict[type[Change], int] = {
    GenerationOpened: 0,
    ResponseClosed: 0,
    CallsReleased: 0,
    ModelUsed: 0,
    RoundCompleted: 2,
}


def events_of(change: Change) -> int:
    """The number of events of a change."""
    return approvals.events_of(change) if isinstance(change, CallsHeld) else _EVENTS.get(type(change), 1)


def commit_changes(
    connection: Connection, session_id: str, epoch: int, changes: Sequence[Change]
) -> tuple[int, list[StreamItem]]:
    """Writes changes with their events; returns the seq of the first event (0 without one) and the events to publish.
    Raises `StaleOwnerError` if the session has another owner now."""
    appender = Appender(connection, session_id, epoch=epoch)
    first = appender.take(sum(map(events_of, changes)))
    after = write_changes(connection, appender, first, changes)
    return first if after > first else 0, appender.flush()


def write_changes(connection: Connection, appender: Appender, seq: int, changes: Sequence[Change]) -> int:
    """Writes changes, whose events get `seq` and the following numbers; returns the next free seq."""
    for change in changes:
        _write(connection, appender, seq, change)
        seq += events_of(change)
    return seq


def _write(connection: Connection, appender: Appender, seq: int, change: Change) -> None:
    match change:
        case GenerationOpened():
            step_changes.open_generation(connection, appender, change)
        case StepOpened():
            step_changes.open_step(connection, appender, seq, change)
        case ResponseClosed():
            step_changes.close_response(connection, appender, change)
        case AttemptVoided():
            step_changes.void_attempt(connection, appender, seq, change)
        case CallsHeld():
            approvals.hold(connection, appender, seq, change)
        case CallsReleased():
            approvals.release(connection, appender, change)
        case StepClosed():
            step_changes.close_step(connection, appender, seq, change)
        case ModelUsed():
            compactions.add_usage(connection, appender, change)
        case PartClosed():
            message_changes.close_part(connection, appender, seq, change)
        case ResultClosed():
            message_changes.close_result(connection, appender, seq, change)
        case ControlAdded():
            message_changes.add_control(connection, appender, seq, change)
        case RungFailed():
            compactions.fail_rung(connection, appender, seq, change)
        case RoundCompleted():
            compactions.complete_round(connection, appender, seq, change)
        case RoundEnded():
            compactions.end_round(connection, appender, seq, change)
        case OutputsPruned():
            compactions.prune(connection, appender, seq, change)
        case PlanChanged():
            _change_plan(connection, appender, seq, change)
        case _:
            assert_never(change)


def _change_plan(connection: Connection, appender: Appender, seq: int, change: PlanChanged) -> None:
    sessions.change(connection, appender.session_id, plan=[item.model_dump() for item in change.items])
    appender.add(seq, PlanUpdated(items=change.items, session_id=appender.session_id, at=appender.at))
