"""Events of a step: one model call, and the attempts at it."""

from __future__ import annotations

from typing import Any, ClassVar

from app.events.base import SessionEvent
from app.messages import FinishReason, Usage
from app.sessions import ContextState


class StepStarted(SessionEvent):
    """`message_id` is the assistant message that this attempt will fill."""

    type: ClassVar[str] = "step.started"
    step: int
    attempt: int
    message_id: str
    context: ContextState


class StepFinished(SessionEvent):
    """Exactly one for each step, after its tool results; `usage` is the step's own. `input_transformations` is what
    the provider reports to have changed in the request, such as thinking that it dropped, in its own words."""

    type: ClassVar[str] = "step.finished"
    step: int
    attempt: int
    message_id: str
    finish_reason: FinishReason
    usage: Usage
    context: ContextState
    input_transformations: tuple[dict[str, Any], ...] | None = None


class StepRetrying(SessionEvent):
    """Voids `message_id` with all its parts."""

    type: ClassVar[str] = "step.retrying"
    message_id: str
    attempt: int
    delay_ms: int
    code: str
    detail: str
