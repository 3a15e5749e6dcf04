"""Webhooks: receivers of events, and what was sent to them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from app.api.dependencies import STRICT, Cursor, DeliveryId, Key, Limit, Services, WebhookId
from app.api.idempotency import made_id
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
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

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=JsonRoute, dependencies=STRICT)

REFUSED = ("webhook_address_refused", "metadata_too_large")


@router.post(
    "",
    status_code=201,
    responses={
        201: {
            "headers": {
                "Location": {"description": "The webhook's path.", "schema": {"type": "string"}},
                "Idempotency-Replayed": {
                    "description": "`true` if an earlier request with the same `Idempotency-Key` created the webhook.",
                    "schema": {"type": "string"},
                },
            },
        },
        **problems(*REFUSED, "session_not_found", "too_many_webhooks", "idempotency_key_reused", "secret_key_missing"),
    },
)
async def create_webhook(
    services: Services,
    key: Key,
    response: Response,
    body: WebhookCreate,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            description="Makes retries safe for 24 hours: a request that repeats the key and the body gets the answer"
            " to the first one.",
        ),
    ] = None,
) -> WebhookCreated:
    """Has the events that are committed from now on sent to a URL, as
    [Standard Webhooks](https://www.standardwebhooks.com) with the returned `secret`, which is shown only here. An event
    is sent until the receiver answers with a 2xx, for three days; the events of a session are sent in order."""
    webhook, is_new = await services.webhooks.create(body, idempotency_key, key)
    response.headers["Location"] = f"/v1/webhooks/{webhook.id}"
    if not is_new:
        response.headers["Idempotency-Replayed"] = "true"
    return webhook


@router.get("", responses=problems("malformed_cursor"))
async def list_webhooks(services: Services, limit: Limit = 50, cursor: Cursor = None) -> WebhookList:
    """Webhooks, newest first."""
    return await services.webhooks.list(limit=limit, cursor=cursor)


@router.get("/{webhook_id}", responses=problems("webhook_not_found"))
async def get_webhook(services: Services, webhook_id: WebhookId) -> Webhook:
    """A webhook: whether it is disabled and why, and whether deliveries fail."""
    return await services.webhooks.get(webhook_id)


@router.patch("/{webhook_id}", responses=problems(*REFUSED, "webhook_not_found"))
async def update_webhook(services: Services, webhook_id: WebhookId, body: WebhookPatch) -> Webhook:
    """Changes a webhook from its next delivery on; with a new `url`, failed deliveries are sent again at once.
    `status: active` continues a disabled one with the first event that it did not get."""
    return await services.webhooks.patch(webhook_id, body)


@router.delete("/{webhook_id}", status_code=204, responses=problems("webhook_not_found"))
async def delete_webhook(services: Services, webhook_id: WebhookId) -> None:
    """Removes a webhook, with its list of deliveries."""
    await services.webhooks.delete(webhook_id)


@router.get("/{webhook_id}/deliveries", responses=problems("webhook_not_found", "malformed_cursor"))
async def list_deliveries(
    services: Services,
    webhook_id: WebhookId,
    status: Annotated[DeliveryStatus | None, Query(description="Only deliveries with this status.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> DeliveryList:
    """What was sent to a webhook or waits to be sent again, newest first. At least the latest 1,000 are kept."""
    return await services.webhooks.deliveries(webhook_id, status=status, limit=limit, cursor=cursor)


@router.post("/{webhook_id}/test", status_code=202, responses=problems("webhook_not_found"))
async def test_webhook(services: Services, request: Request, webhook_id: WebhookId) -> Delivery:
    """Sends an event of the type `webhook.test`, once, also to a webhook that is disabled. Its delivery shows the
    result."""
    return await services.webhooks.test(webhook_id, made_id(request.scope))


@router.post(
    "/{webhook_id}/deliveries/{delivery_id}/retry",
    status_code=202,
    responses=problems("webhook_not_found", "delivery_not_found"),
)
async def retry_delivery(services: Services, webhook_id: WebhookId, delivery_id: DeliveryId) -> Delivery:
    """Sends a delivery now. One that is not pending is sent once more, with the same `webhook-id`."""
    return await services.webhooks.retry(webhook_id, delivery_id)
