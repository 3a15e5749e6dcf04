"""Approvals: tool calls that wait for a person's decision."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.body import JsonRoute
from app.api.deps import CallId, Services, SessionId
from app.api.problems import problems
from app.runtime.values.approvals import ApprovalAnswer, ApprovalList

router = APIRouter(prefix="/v1/sessions/{session_id}/approvals", tags=["approvals"], route_class=JsonRoute)


@router.get("", responses=problems("session_not_found"))
async def list_approvals(services: Services, session_id: SessionId) -> ApprovalList:
    """Tool calls that wait for approval. The calls of a message start only when all of them are decided."""
    return await services.approvals.list(session_id)


@router.post(
    "/{call_id}",
    status_code=204,
    responses=problems("session_not_found", "approval_not_found", "approval_resolved"),
)
async def decide_approval(services: Services, session_id: SessionId, call_id: CallId, body: ApprovalAnswer) -> None:
    """Approves or denies a call. A denied call does not run; the model gets the reason."""
    await services.approvals.decide(session_id, call_id, body)
