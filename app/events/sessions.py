"""Events of the session itself: its lifecycle, and the start and end of its runs."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from app.events.base import SessionEvent
from app.messages import Usage
from app.sessions import Outcome, Session


class SessionCreated(SessionEvent):
    type: ClassVar[str] = "session.created"
    session: Session


class SessionUpdated(SessionEvent):
    type: ClassVar[str] = "session.updated"
    session: Session


class SessionDeleted(SessionEvent):
    type: ClassVar[str] = "session.deleted"
    session: Session


class SessionRunning(SessionEvent):
    type: ClassVar[str] = "session.running"
    trigger: Literal["message", "resume", "recovery"]


class SessionIdle(SessionEvent):
    """The last event of a run; `usage` and `steps` are the run's own."""

    type: ClassVar[str] = "session.idle"
    outcome: Outcome
    error: dict[str, Any] | None = None
    usage: Usage
    steps: int


class SessionRecovered(SessionEvent):
    type: ClassVar[str] = "session.recovered"
    interrupted_step: int | None = None
    closed_calls: tuple[str, ...] = ()
