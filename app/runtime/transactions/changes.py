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
from app.db.repositories import messages, parts, sessions
from app.eventlog.log import Appender, StreamItem
from app.events import MessageCreated, PlanUpdated, ReasoningCompleted, TextCompleted, ToolCalled, ToolResulted
from app.messages import Message, ReasoningPart, Role, TextPart, ToolCallPart
from app.runtime.transactions import compactions, runs, steps

_EVENTS: dict[type[Change], int] = {
    GenerationOpened: 0,
    ResponseClosed: 0,
    CallsReleased: 0,
    ModelUsed: 0,
    RoundCompleted: 2,
}


def events_of(change: Change) -> int:
    """The number of events of a change."""
    return runs.events_of_hold(change) if isinstance(change, CallsHeld) else _EVENTS.get(type(change), 1)


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
            steps.open_generation(connection, appender, change)
        case StepOpened():
            steps.open_step(connection, appender, seq, change)
        case ResponseClosed():
            steps.close_response(connection, appender, change)
        case AttemptVoided():
            steps.void_attempt(connection, appender, seq, change)
        case CallsHeld():
            runs.hold_calls(connection, appender, seq, change)
        case CallsReleased():
            runs.release_calls(connection, appender, change)
        case StepClosed():
            steps.close_step(connection, appender, seq, change)
        case ModelUsed():
            compactions.add_usage(connection, appender, change)
        case PartClosed():
            close_part(connection, appender, seq, change)
        case ResultClosed():
            close_result(connection, appender, seq, change)
        case ControlAdded():
            add_control(connection, appender, seq, change)
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


def add_message(connection: Connection, appender: Appender, message: Message) -> None:
    """Adds a complete message to the history with its own seq."""
    messages.add(connection, appender.session_id, message)
    event = MessageCreated(session_id=appender.session_id, at=appender.at, message=message)
    appender.add(message.seq, event)


def add_control(connection: Connection, appender: Appender, seq: int, change: ControlAdded) -> None:
    """Adds a control message."""
    add_message(connection, appender, change.message.model_copy(update={"seq": seq, "created_at": appender.at}))


def close_part(connection: Connection, appender: Appender, seq: int, change: PartClosed) -> None:
    """Stores a complete part of an answer."""
    part = change.part
    parts.put(connection, appender.session_id, change.message_id, part, closed=True)
    appender.add(seq, _part_event(appender, change.message_id, part), closes=part.id)


def _part_event(
    appender: Appender, message_id: str, part: TextPart | ReasoningPart | ToolCallPart
) -> TextCompleted | ReasoningCompleted | ToolCalled:
    """The event that closes a part."""
    place = {
        "session_id": appender.session_id,
        "at": appender.at,
        "message_id": message_id,
        "part_id": part.id,
        "index": part.index,
    }
    if isinstance(part, ToolCallPart):
        return ToolCalled(**place, call_id=part.call_id, name=part.name, arguments=part.arguments)
    closed = ReasoningCompleted if isinstance(part, ReasoningPart) else TextCompleted
    return closed(**place, text=part.text, interrupted=part.interrupted)


def close_result(connection: Connection, appender: Appender, seq: int, change: ResultClosed) -> None:
    """Stores a call's result; the first one of a message creates the message."""
    session_id, part = appender.session_id, change.part
    if not messages.exists(connection, session_id, change.message_id):
        message = Message(id=change.message_id, seq=seq, role=Role.TOOL, parts=(), created_at=appender.at)
        messages.add(connection, session_id, message)
    parts.put(connection, session_id, change.message_id, part, closed=True, output_ref=change.output_ref)
    messages.add_tokens(connection, session_id, change.message_id, part.tokens)
    parts.set_call_status(connection, session_id, part.call_id, part.status)
    event = ToolResulted(
        session_id=session_id,
        at=appender.at,
        message_id=change.message_id,
        part_id=part.id,
        index=part.index,
        call_id=part.call_id,
        name=part.name,
        status=part.status,
        output=part.output,
        truncated=part.truncated,
        bytes=part.bytes,
        exit_code=part.exit_code,
        duration_ms=part.duration_ms,
    )
    appender.add(seq, event, closes=part.id)
