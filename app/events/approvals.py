"""Events of calls that wait for approval."""

from __future__ import annotations

from typing import Any, ClassVar

from app.events.base import SessionEvent
from app.messages import Timestamp
from app.sessions import ApprovalDecision, ApprovalEnd


class ApprovalRequested(SessionEvent):
    """The call waits for approval. Without a decision by `expires_at` it is denied; null means that it waits without a
    timeout. No call of its message starts before all of them are decided."""

    type: ClassVar[str] = "approval.requested"
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    expires_at: Timestamp | None


class ApprovalResolved(SessionEvent):
    """The call no longer waits: `decision` is `cancelled` if the run ended or was interrupted before a decision."""

    type: ClassVar[str] = "approval.resolved"
    call_id: str
    decision: ApprovalDecision
    by: ApprovalEnd
