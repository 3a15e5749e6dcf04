"""Pending approvals and decisions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from app.messages import Timestamp, Value
from app.runtime.values.fields import Text

MAX_REASON_CHARS = 4_000


class PendingApproval(Value):
    """A call that waits for approval; without a decision by `expires_at`, if set, it is denied."""

    call_id: str
    message_id: str
    name: str
    arguments: dict[str, Any] | str
    requested_at: Timestamp
    expires_at: Timestamp | None


class ApprovalList(Value):
    """Pending approvals, in the model's order."""

    items: tuple[PendingApproval, ...]
    last_seq: int


class ApprovalAnswer(Value):
    """`POST /v1/sessions/{id}/approvals/{call_id}`. The reason for a denial is shown to the model."""

    decision: Literal["approve", "deny"]
    reason: Annotated[Text, StringConstraints(max_length=MAX_REASON_CHARS)] | None = None
