"""Webhooks in memory, which send nothing."""

from __future__ import annotations

from app.api.examples.webhooks import DELIVERY_ID, WEBHOOK_ID
from app.errors import NotFoundError
from app.messages import now
from app.runtime.services import WebhookService
from app.runtime.values.webhooks import (
    Delivery,
    DeliveryList,
    DeliveryStatus,
    Webhook,
    WebhookCreate,
    WebhookCreated,
    WebhookList,
    WebhookPatch,
)
from tests.unit.api.memory import Memory


class InMemoryWebhooks(WebhookService):
    """Each webhook has one delivery."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def create(
        self, body: WebhookCreate, key: str | None = None, caller: str | None = None
    ) -> tuple[WebhookCreated, bool]:
        at = now()
        made = Webhook(
            id=WEBHOOK_ID,
            url=body.url,
            events=body.events,
            session_id=body.session_id,
            metadata=body.metadata or {},
            status="active",
            disabled_at=None,
            disabled_reason=None,
            failing_since=None,
            created_at=at,
            updated_at=at,
        )
        self._memory.webhooks[made.id] = made
        return WebhookCreated.of(made, secret="whsec_c2VjcmV0"), True

    async def list(self, *, limit: int, cursor: str | None) -> WebhookList:
        return WebhookList(items=tuple(self._memory.webhooks.values()), next_cursor=None)

    async def get(self, webhook_id: str) -> Webhook:
        if webhook_id not in self._memory.webhooks:
            raise NotFoundError("There is no webhook with this id.", code="webhook_not_found")
        return self._memory.webhooks[webhook_id]

    async def patch(self, webhook_id: str, body: WebhookPatch) -> Webhook:
        changed = (await self.get(webhook_id)).model_copy(update=body.model_dump(exclude_unset=True))
        self._memory.webhooks[webhook_id] = changed
        return changed

    async def delete(self, webhook_id: str) -> None:
        await self.get(webhook_id)
        del self._memory.webhooks[webhook_id]

    async def deliveries(
        self, webhook_id: str, *, status: DeliveryStatus | None, limit: int, cursor: str | None
    ) -> DeliveryList:
        return DeliveryList(items=(await self.test(webhook_id),), next_cursor=None)

    async def test(self, webhook_id: str, delivery_id: str | None = None) -> Delivery:
        await self.get(webhook_id)
        at = now()
        return Delivery(
            id=DELIVERY_ID,
            type="webhook.test",
            session_id=None,
            seq=None,
            status="pending",
            attempts=0,
            response_status=None,
            error=None,
            duration_ms=None,
            created_at=at,
            attempted_at=None,
            next_attempt_at=at,
        )

    async def retry(self, webhook_id: str, delivery_id: str) -> Delivery:
        if delivery_id != DELIVERY_ID:
            raise NotFoundError("The webhook has no delivery with this id.", code="delivery_not_found")
        return await self.test(webhook_id)
