"""The transactions of messages and their parts, each with its event."""

from __future__ import annotations

from sqlalchemy import Connection

from app.agent.changes import ControlAdded, PartClosed, ResultClosed
from app.db.repositories import messages, parts
from app.eventlog.log import Appender
from app.events import MessageCreated, ReasoningCompleted, TextCompleted, ToolCalled, ToolResulted
from app.messages import Message, ReasoningPart, Role, TextPart, ToolCallPart


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
