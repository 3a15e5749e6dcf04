"""The queue, the one way to talk to a session, and calls that wait for a person."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.api.dependencies import STRICT, Caller, CallId, MessageId, Services, SessionId
from app.api.idempotency import made_id
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
from app.runtime.values.queue import (
    ApprovalAnswer,
    ApprovalList,
    QueueAdd,
    QueuedMessage,
    QueueEdit,
    QueuePage,
    QueueReceipt,
)

router = APIRouter(prefix="/v1/sessions/{session_id}/queue", tags=["queue"], route_class=JsonRoute, dependencies=STRICT)
ENQUEUE = ("session_not_found", "id_in_use", "message_too_large", "queue_full", "too_many_runs", "run_quota_reached")
CONTENT = (
    "invalid_image_data",
    "image_type_mismatch",
    "image_too_large",
    "too_many_images",
    "images_too_large",
    "path_outside_workspace",
    "path_not_found",
    "path_not_a_file",
    "path_not_ready",
    "session_images_full",
)
"""Problems with parts of a message; those with files are also the sandbox's."""
SANDBOXED = (
    "sandbox_unavailable",
    "too_many_sandboxes",
    "sandbox_error",
    "workspace_store_unavailable",
    "snapshot_invalid",
    "snapshot_missing",
)
PENDING = ("session_not_found", "message_not_found", "message_not_pending")

approvals_router = APIRouter(
    prefix="/v1/sessions/{session_id}/approvals", tags=["approvals"], route_class=JsonRoute, dependencies=STRICT
)


@router.post("", status_code=202, responses=problems(*ENQUEUE, "subagent_session", *CONTENT, *SANDBOXED))
async def enqueue_message(
    services: Services, caller: Caller, request: Request, session_id: SessionId, body: QueueAdd
) -> QueueReceipt:
    """Queues a message, whatever the session is doing. The returned `id` becomes the message's id. A message that
    cannot fit the model's window is refused. Paths in its parts are read now: later changes to those files make no
    difference."""
    body = body if body.id else body.model_copy(update={"id": made_id(request.scope)})
    return await services.queue.add(session_id, body, caller)


@router.get("", responses=problems("session_not_found"))
async def list_queue(services: Services, session_id: SessionId) -> QueuePage:
    """Pending messages in delivery order."""
    return await services.queue.list(session_id)


@router.patch(
    "/{message_id}",
    responses=problems(*PENDING, "subagent_session", "message_too_large", "queue_full", *CONTENT, *SANDBOXED),
)
async def edit_message(
    services: Services, session_id: SessionId, message_id: MessageId, body: QueueEdit
) -> QueuedMessage:
    """Edits a pending message. If the new text cannot fit the model's window, the message stays unchanged."""
    return await services.queue.edit(session_id, message_id, body)


@router.delete("/{message_id}", status_code=204, responses=problems(*PENDING, "subagent_session"))
async def withdraw_message(services: Services, session_id: SessionId, message_id: MessageId) -> None:
    """Withdraws a pending message."""
    await services.queue.withdraw(session_id, message_id)


@approvals_router.get("", responses=problems("session_not_found"))
async def list_approvals(services: Services, session_id: SessionId) -> ApprovalList:
    """Tool calls that wait for approval. The calls of a message start only when all of them are decided."""
    return await services.approvals.list(session_id)


@approvals_router.post(
    "/{call_id}",
    status_code=204,
    responses=problems("session_not_found", "approval_not_found", "approval_resolved"),
)
async def decide_approval(services: Services, session_id: SessionId, call_id: CallId, body: ApprovalAnswer) -> None:
    """Approves or denies a call. A denied call does not run; the model gets the reason."""
    await services.approvals.decide(session_id, call_id, body)
