"""Events of calls that wait for a person."""

from __future__ import annotations

from typing import Any, ClassVar

from app.events.base import SessionEvent
from app.messages import Timestamp
from app.sessions import ApprovalDecision, ApprovalEnd


class ApprovalRequested(SessionEvent):
    """The call waits for a person. Without a decision by `expires_at` it is denied, and where that is null it waits
    without end; no call of its message starts before all of them are decided."""

    type: ClassVar[str] = "approval.requested"
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    expires_at: Timestamp | None


class ApprovalResolved(SessionEvent):
    """The call waits no more: `decision` is `cancelled` where the run ended, or was interrupted, before anybody
    decided."""

    type: ClassVar[str] = "approval.resolved"
    call_id: str
    decision: ApprovalDecision
    by: ApprovalEnd
