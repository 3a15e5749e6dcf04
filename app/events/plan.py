"""The agent's plan, and the event that replaces it."""

from __future__ import annotations

from typing import ClassVar, Literal

from app.events.base import SessionEvent
from app.messages import Value


class PlanItem(Value):
    """One item of the agent's plan."""

    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class PlanUpdated(SessionEvent):
    type: ClassVar[str] = "plan.updated"
    items: tuple[PlanItem, ...]
