"""Pending approvals of a session: list and decide."""

from __future__ import annotations

from app.runtime import approvals
from app.runtime.registry import Registry
from app.runtime.setup import RuntimeSetup
from app.runtime.values.approvals import ApprovalAnswer, ApprovalList


class ApprovalService:
    """Stores decisions and notifies the owners of their sessions; a decision is committed when `decide` returns."""

    def __init__(self, setup: RuntimeSetup, registry: Registry) -> None:
        self._setup = setup
        self._registry = registry

    async def list(self, session_id: str) -> ApprovalList:
        """The pending approvals."""
        return await approvals.read_pending(self._setup.database, session_id)

    async def decide(self, session_id: str, call_id: str, answer: ApprovalAnswer) -> None:
        """Approves or denies a call. Raises `NotFoundError` (code `approval_not_found`) and `ConflictError`
        (`approval_resolved`)."""
        await self._setup.write(session_id, lambda c: approvals.decide(c, session_id, call_id, answer))
        self._registry.take_decision(session_id)
