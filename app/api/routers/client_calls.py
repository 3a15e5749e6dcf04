"""Tool calls that clients carry out: those that wait, and their results."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.api.dependencies import STRICT, CallId, Services, SessionId
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
from app.runtime.values.queue import PendingToolCalls, ToolCallAnswer, ToolCallStatus

router = APIRouter(
    prefix="/v1/sessions/{session_id}/tool-calls", tags=["history"], route_class=JsonRoute, dependencies=STRICT
)


@router.get("", responses=problems("session_not_found"))
async def list_tool_calls(
    services: Services,
    session_id: SessionId,
    status: Annotated[ToolCallStatus, Query(description="`pending`: those that wait for a client.")] = "pending",
) -> PendingToolCalls:
    """Tool calls that wait for their result from a client."""
    return await services.client_calls.pending(session_id)


@router.post(
    "/{call_id}/result",
    status_code=204,
    responses=problems("session_not_found", "subagent_session", "call_not_found", "call_resolved", "call_not_waiting"),
)
async def post_tool_result(services: Services, session_id: SessionId, call_id: CallId, body: ToolCallAnswer) -> None:
    """Posts the result of a call that waits for a client. It is stored before this request is answered."""
    await services.client_calls.answer(session_id, call_id, body)
