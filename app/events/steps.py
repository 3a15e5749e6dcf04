"""Events of a step: one model call, and the attempts at it."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from app.events.base import SessionEvent
from app.messages import FinishReason, Usage
from app.sessions import ContextState


def _is_none(value: object) -> bool:
    return value is None


class StepStarted(SessionEvent):
    """`message_id` is the assistant message that this attempt will fill."""

    type: ClassVar[str] = "step.started"
    step: int
    attempt: int
    message_id: str
    context: ContextState


class StepFinished(SessionEvent):
    """Exactly one for each step, after its tool results; `usage` is the step's own. `input_transformations` are the
    changes that the provider reports it made to the request, such as dropped thinking."""

    type: ClassVar[str] = "step.finished"
    step: int
    attempt: int
    message_id: str
    finish_reason: FinishReason
    usage: Usage
    context: ContextState
    input_transformations: tuple[dict[str, Any], ...] | None = Field(default=None, exclude_if=_is_none)


class StepRetrying(SessionEvent):
    """Voids `message_id` with all its parts."""

    type: ClassVar[str] = "step.retrying"
    message_id: str
    attempt: int
    delay_ms: int
    code: str
    detail: str
