"""Events of the queue and of the history: pending messages, and messages that were added."""

from __future__ import annotations

from typing import ClassVar

from app.events.base import SessionEvent
from app.messages import Message
from app.sessions import QueueMode


class MessageQueued(SessionEvent):
    type: ClassVar[str] = "message.queued"
    message_id: str
    mode: QueueMode
    content: str
    position: int


class MessageEdited(SessionEvent):
    type: ClassVar[str] = "message.edited"
    message_id: str
    mode: QueueMode
    content: str
    position: int


class MessageWithdrawn(SessionEvent):
    type: ClassVar[str] = "message.withdrawn"
    message_id: str
    mode: QueueMode


class MessageDequeued(SessionEvent):
    type: ClassVar[str] = "message.dequeued"
    message_id: str
    mode: QueueMode


class MessageCreated(SessionEvent):
    """A user, control or summary message has entered the history."""

    type: ClassVar[str] = "message.created"
    message: Message
