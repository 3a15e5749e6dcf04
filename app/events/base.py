"""The fields of all durable events."""

from __future__ import annotations

from typing import ClassVar

from app.messages import Timestamp, Value


class SessionEvent(Value):
    """Base of the durable events."""

    type: ClassVar[str]
    session_id: str
    at: Timestamp
