"""How the changes of a run become rows and events, inside the transaction that commits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlalchemy import Connection

from app.agent.changes import (
    AttemptVoided,
    CallsAwaited,
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
    SummaryDelayed,
)
from app.db.repositories import client_calls, images, messages, parts, sessions
from app.db.repositories.images import MAX_SESSION_IMAGES, StoredImage
from app.eventlog.log import Appender, StreamItem
from app.events import (
    CompactionRetrying,
    MessageCreated,
    PlanUpdated,
    ReasoningCompleted,
    TextCompleted,
    ToolCalled,
    ToolResulted,
)
from app.messages import Message, ReasoningPart, Role, ToolCallPart
from app.runtime.transactions import compactions, runs, steps


def commit_changes(
    connection: Connection, session_id: str, epoch: int, changes: Sequence[Change]
) -> tuple[int, list[StreamItem]]:
    """Writes changes with their events; returns the seq of the first event (0 without one) and the events to publish.
    Raises `StaleOwnerError` if the session has another owner now."""
    return write_changes(connection, Appender(connection, session_id, epoch=epoch), changes)


def write_changes(
    connection: Connection, appender: Appender, changes: Sequence[Change]
) -> tuple[int, list[StreamItem]]:
    """As `commit_changes`, with the appender of an owner's transaction."""
    first = appender.next_seq
    for change in changes:
        write_change(connection, appender, change)
    items = appender.flush()
    return first if items else 0, items


def write_change(connection: Connection, appender: Appender, change: Change) -> None:
    """Writes a change with its events."""
    match change:
        case GenerationOpened():
            steps.open_generation(connection, appender, change)
        case StepOpened():
            steps.open_step(connection, appender, change)
        case ResponseClosed():
            steps.close_response(connection, appender, change)
        case AttemptVoided():
            steps.void_attempt(connection, appender, change)
        case CallsHeld():
            runs.hold_calls(connection, appender, change)
        case CallsAwaited():
            runs.await_client(connection, appender, change)
        case CallsReleased():
            runs.release_calls(connection, appender, change)
        case StepClosed():
            steps.close_step(connection, appender, change)
        case ModelUsed():
            compactions.add_usage(connection, appender, change)
        case PartClosed():
            close_part(connection, appender, change)
        case ResultClosed():
            close_result(connection, appender, change)
        case ControlAdded():
            add_message(connection, appender, change.message.model_copy(update={"created_at": appender.at}))
        case RungFailed():
            compactions.fail_rung(connection, appender, change)
        case SummaryDelayed():
            appender.emit(CompactionRetrying, change)
        case RoundCompleted():
            compactions.complete_round(connection, appender, change)
        case RoundEnded():
            compactions.end_round(connection, appender, change)
        case OutputsPruned():
            compactions.prune(connection, appender, change)
        case PlanChanged():
            _change_plan(connection, appender, change)
        case _:
            assert_never(change)


def _change_plan(connection: Connection, appender: Appender, change: PlanChanged) -> None:
    sessions.change(connection, appender.session_id, plan=[item.model_dump() for item in change.items])
    appender.emit(PlanUpdated, items=change.items)


def add_message(connection: Connection, appender: Appender, message: Message) -> Message:
    """Adds a complete message to the history; returns it with the seq of its event."""
    added = message.model_copy(update={"seq": appender.next_seq})
    messages.add(connection, appender.session_id, added)
    appender.emit(MessageCreated, message=added)
    return added


def close_part(connection: Connection, appender: Appender, change: PartClosed) -> None:
    """Stores a complete part of an answer."""
    part = change.part
    parts.put(connection, appender.session_id, change.message_id, part, closed=True)
    if not change.is_shown:
        return
    written = ReasoningCompleted if isinstance(part, ReasoningPart) else TextCompleted
    event = ToolCalled if isinstance(part, ToolCallPart) else written
    appender.emit(event, part, closes=part.id, message_id=change.message_id, part_id=part.id)


def close_result(connection: Connection, appender: Appender, change: ResultClosed) -> None:
    """Stores a call's result; the first one of a message creates the message."""
    session_id, part = appender.session_id, change.part
    if not messages.exists(connection, session_id, change.message_id):
        message = Message(id=change.message_id, seq=appender.next_seq, role=Role.TOOL, parts=(), created_at=appender.at)
        messages.add(connection, session_id, message)
    parts.put(connection, session_id, change.message_id, part, closed=True, output_ref=change.output_ref)
    messages.add_tokens(connection, session_id, change.message_id, part.tokens)
    parts.set_call_status(connection, session_id, part.call_id, part.status)
    if change.is_posted:
        client_calls.forget_output(connection, session_id, part.call_id)
    _store_images(connection, session_id, change)
    shown = tuple(image.part for image in change.images) or None
    appender.emit(ToolResulted, part, closes=part.id, message_id=change.message_id, part_id=part.id, images=shown)


def _store_images(connection: Connection, session_id: str, change: ResultClosed) -> None:
    """Stores the images of a result. One that exceeds the session's limit is only named: the model reads that it is no
    longer stored."""
    for image in change.images:
        assert image.part.digest is not None
        if images.total_bytes(connection, session_id) + len(image.data) <= MAX_SESSION_IMAGES:
            images.put(connection, session_id, {image.part.digest: StoredImage(image.part.media_type, image.data)})
        parts.put(connection, session_id, change.message_id, image.part, closed=True)
        messages.add_tokens(connection, session_id, change.message_id, image.part.tokens)
