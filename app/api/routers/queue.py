"""The queue: all messages to a session go through it."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.body import JsonRoute
from app.api.deps import MessageId, Services, SessionId
from app.api.problems import problems
from app.runtime.values.queue import QueueAdd, QueuedMessage, QueueEdit, QueuePage, QueueReceipt

router = APIRouter(prefix="/v1/sessions/{session_id}/queue", tags=["queue"], route_class=JsonRoute)

ENQUEUE = ("session_not_found", "id_in_use", "message_too_large", "queue_full", "too_many_runs")
PENDING = ("session_not_found", "message_not_found", "message_not_pending")


@router.post("", status_code=202, responses=problems(*ENQUEUE))
async def enqueue_message(services: Services, session_id: SessionId, body: QueueAdd) -> QueueReceipt:
    """Queues a message, whatever the session is doing. The returned `id` becomes the message's id. A message that
    cannot fit the model's window is refused."""
    return await services.queue.add(session_id, body)


@router.get("", responses=problems("session_not_found"))
async def list_queue(services: Services, session_id: SessionId) -> QueuePage:
    """Pending messages in delivery order."""
    return await services.queue.list(session_id)


@router.patch("/{message_id}", responses=problems(*PENDING, "message_too_large", "queue_full"))
async def edit_message(
    services: Services, session_id: SessionId, message_id: MessageId, body: QueueEdit
) -> QueuedMessage:
    """Edits a pending message. If the new text cannot fit the model's window, the message stays unchanged."""
    return await services.queue.edit(session_id, message_id, body)


@router.delete("/{message_id}", status_code=204, responses=problems(*PENDING))
async def withdraw_message(services: Services, session_id: SessionId, message_id: MessageId) -> None:
    """Withdraws a pending message."""
    await services.queue.withdraw(session_id, message_id)
